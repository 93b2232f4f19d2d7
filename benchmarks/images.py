"""Images: what symmetry buys, and what it costs.

    python benchmarks/images.py rotated --mnist FOLDER     rotated MNIST, and upright pictures tested turned: an hour and more
    python benchmarks/images.py speed                      ViT-Tiny and Swin-Tiny against Hugging Face's: three minutes
    python benchmarks/images.py cost                       seconds against the side of the picture, as images_cost.png

Tables go to results.md. FOLDER holds the four files of MNIST (train-images-idx3-ubyte.gz and so on). Every network that is done
is kept in images_rotated.json beside this file, so that a run that was cut short goes on with the next one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from alternate import keep, table, take_turns
from torch import Tensor, nn

from regard.models.groupcnn import GroupCNN, GroupCNNConfig
from regard.models.images import ViT, ViTConfig
from regard.models.windows import Swin, SwinConfig

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # for the weights of others by our names, which the tests know
RESULTS = HERE / "results.md"
KEPT = HERE / "images_rotated.json"
TRAIN, TEST = 12_000, 50_000
NETWORKS = {
    "Z2CNN": GroupCNNConfig(classes=10, hidden=20, group="p1"),
    "P4CNN": GroupCNNConfig(classes=10, hidden=10, group="p4"),
}
PUBLISHED = {("Z2CNN", "rotated"): 5.03, ("P4CNN", "rotated"): 2.28, ("Z2CNN", "upright"): 58.0, ("P4CNN", "upright"): 16.0}
SIDES = (224, 448, 672, 896)


# ---- pictures


def mnist(folder: Path) -> tuple[Tensor, Tensor]:
    """All 70,000 pictures, 0 to 1, and what they are; those of the training set first.   n 28 28, n"""
    pictures, labels = [], []
    for part in ("train", "t10k"):
        raw = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())
        pictures.append(torch.frombuffer(bytearray(raw[16:]), dtype=torch.uint8).view(-1, 28, 28))
        raw = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())
        labels.append(torch.frombuffer(bytearray(raw[8:]), dtype=torch.uint8))
    return torch.cat(pictures).float() / 255, torch.cat(labels).long()


def split(folder: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """12,000 pictures to train on and 50,000 others to test on, drawn from all by a seed.   n 1 28 28, n each"""
    pictures, labels = mnist(folder)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))[: TRAIN + TEST]
    x, y = pictures[order, None], labels[order]
    return x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:]


def turned(x: Tensor, seed: int) -> Tensor:
    """Each picture about its middle by an angle of its own, uniform over the circle; between pixels linear."""
    angles = torch.rand(len(x), generator=torch.Generator().manual_seed(seed)) * 2 * math.pi
    cos, sin, zero = angles.cos(), angles.sin(), torch.zeros(len(x))
    matrices = torch.stack((torch.stack((cos, -sin, zero), -1), torch.stack((sin, cos, zero), -1)), 1)
    parts = zip(x.split(1000), matrices.split(1000), strict=True)
    return torch.cat([F.grid_sample(a, F.affine_grid(m, list(a.shape), align_corners=False), align_corners=False)
                      for a, m in parts])


# ---- training


def train(
    name: str, x: Tensor, y: Tensor, *, epochs: int, batch: int, rate: float, dropout: float, seed: int
) -> tuple[GroupCNN, float]:
    """Adam with a rate that rises for a tenth of the steps and then falls to nothing. No picture is changed on its way."""
    torch.manual_seed(seed)
    model, began = GroupCNN(replace(NETWORKS[name], dropout=dropout)), time.perf_counter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    steps = epochs * (len(x) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
    draw = torch.Generator().manual_seed(seed)
    for epoch in range(epochs):
        model.train()
        total, count = 0.0, 0
        for rows in torch.randperm(len(x), generator=draw).split(batch):
            if len(rows) < batch:
                continue
            loss = F.cross_entropy(model(x[rows]), y[rows], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total, count = total + float(loss.detach()), count + 1
        print(f"{name} epoch {epoch + 1}/{epochs}  loss {total / count:.4f}  {time.perf_counter() - began:.0f} s", flush=True)
    return model.eval(), time.perf_counter() - began


@torch.no_grad()
def error(model: GroupCNN, x: Tensor, y: Tensor) -> float:
    """Percent of pictures taken for another digit."""
    wrong = sum(int((model(a).argmax(1) != b).sum()) for a, b in zip(x.split(500), y.split(500), strict=True))
    return 100 * wrong / len(y)


def rotated(args: argparse.Namespace) -> None:
    x, y, test_x, test_y = split(args.mnist)
    turned_test = turned(test_x, 2)
    for work in args.work:
        name, kind = work.split("-")
        key = f"{work}-{args.epochs}-{args.dropout}-{args.seed}"
        if key in kept():
            continue
        seen = turned(x, 1) if kind == "rotated" else x
        how = {"epochs": args.epochs, "batch": args.batch, "rate": args.rate, "dropout": args.dropout, "seed": args.seed}
        model, seconds = train(name, seen, y, **how)
        found = {
            "network": name,
            "trained": kind,
            "parameters": sum(p.numel() for p in model.parameters()),
            "epochs": args.epochs,
            "dropout": args.dropout,
            "seconds": round(seconds),
            "turned": error(model, turned_test, test_y),
        }
        if kind == "upright":
            found["upright"] = error(model, test_x, test_y)
            found["quarter"] = error(model, test_x.rot90(1, (-2, -1)), test_y)
        print(key, found, flush=True)
        if args.epochs >= 5:  # shorter ones are trials
            KEPT.write_text(json.dumps({**kept(), key: found}, indent=1) + "\n")
    rotated_tables()


def kept() -> dict[str, Any]:
    """What is done so far, by this process or by others beside it."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def rotated_tables() -> None:
    """What was seen so far, as two tables."""
    done = kept().values()
    rows: dict[str, list[list[str]]] = {"rotated": [], "upright": []}
    for found in sorted(done, key=lambda each: (each["network"], each["epochs"], each["dropout"])):
        name, kind = found["network"], found["trained"]
        published = PUBLISHED[name, kind]
        row = [name, f"{found['parameters']:,}", str(found["epochs"]), str(found["dropout"])]
        row += [f"{found['turned']:.2f} %", f"{published:.2f} %"]
        if kind == "upright":
            row = [*row[:4], *(f"{100 - found[how]:.2f} %" for how in ("upright", "quarter", "turned")),
                   f"{100 - published:.0f} %"]
        rows[kind].append(row)
    text = (
        "`python benchmarks/images.py rotated`: 12,000 pictures of MNIST to train on and 50,000 to test on, each turned by an "
        "angle of its own, uniform over the circle. Seven convolutions, 20 channels (Z2CNN) or 10 in four poses (P4CNN). "
        "Pictures are not changed while training.\n\n"
        + table(["network", "parameters", "epochs", "dropout", "error", "published"], rows["rotated"])
    )
    if rows["upright"]:
        text += "\n\nTrained on the same pictures upright, right answers on the 50,000 as they were tested:\n\n"
        headers = ["network", "parameters", "epochs", "dropout", "upright", "a quarter on", "at any angle", "published"]
        text += table(headers, rows["upright"])
    keep(RESULTS, "Rotated MNIST", text)
    print(text)


# ---- speed


def peers() -> dict[str, tuple[nn.Module, nn.Module]]:
    """Ours and Hugging Face's with the same weights, of the same shape."""
    import transformers

    from tests.models.theirs_images import swin_weights, vit_weights

    theirs: Any = transformers.ViTConfig(
        hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768, num_labels=1000,
        layer_norm_eps=1e-5,
    )
    vit, their_vit = ViT(ViTConfig(classes=1000)), transformers.ViTForImageClassification(theirs)
    vit.load_state_dict(vit_weights(their_vit))
    swin = Swin(SwinConfig(classes=1000))
    their_swin = transformers.SwinForImageClassification(transformers.SwinConfig(num_labels=1000, drop_path_rate=0.0))
    swin.load_state_dict(swin_weights(their_swin))
    return {"ViT-Tiny": (vit.eval(), their_vit.eval()), "Swin-Tiny": (swin.eval(), their_swin.eval())}


def logits(model: nn.Module, x: Tensor) -> Tensor:
    out: Any = model(x)
    return out if isinstance(out, Tensor) else out.logits


def forward(model: nn.Module, x: Tensor, y: Tensor) -> Callable[[], object]:
    def run() -> None:
        with torch.no_grad():
            logits(model, x)

    return run


def step(model: nn.Module, x: Tensor, y: Tensor) -> Callable[[], object]:
    """Forward, backward, and a step of plain gradient descent."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)

    def run() -> None:
        optimizer.zero_grad()
        F.cross_entropy(logits(model, x), y).backward()
        optimizer.step()

    return run


def speed(args: argparse.Namespace) -> None:
    x, y = torch.randn(args.batch, 3, 224, 224), torch.randint(1000, (args.batch,))
    rows = []
    for name, (ours, theirs) in peers().items():
        with torch.no_grad():
            apart = float((logits(ours, x) - logits(theirs, x)).abs().max())
        assert apart < 1e-5, apart
        for what, work in (("forward", forward), ("training step", step)):
            contest = {"regard": work(ours, x, y), "Hugging Face": work(theirs, x, y)}
            seen = take_turns(contest, seconds=args.seconds, least=5, timer=time.process_time)
            rate = {who: args.batch / took for who, took in seen.items()}
            faster = f"{seen['Hugging Face'] / seen['regard']:.2f} ×"
            rows.append([name, what, f"{rate['regard']:.1f}", f"{rate['Hugging Face']:.1f}", faster, f"{apart:.0e}"])
            print(rows[-1], flush=True)
            keep_speed(args, rows)


def keep_speed(args: argparse.Namespace, rows: list[list[str]]) -> None:
    text = (
        f"`python benchmarks/images.py speed --batch {args.batch}`: 224 × 224, float32, threads: {torch.get_num_threads()}; "
        "the same weights. Medians of alternating runs, in seconds of the processor.\n\n"
        + table(["model", "work", "regard, images/s", "Hugging Face, images/s", "faster", "largest difference"], rows)
    )
    keep(RESULTS, "Images, speed", text)


def cost(args: argparse.Namespace) -> None:
    """Seconds of one forward pass against the side of the picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    models = {"ViT-Tiny, patches of 16": ViT(ViTConfig(classes=10)).eval(), "Swin-Tiny": Swin(SwinConfig(classes=10)).eval()}
    seen: dict[str, list[float]] = {name: [] for name in models}
    for side in SIDES:
        x = torch.randn(1, 3, side, side)
        contest = {name: forward(model, x, x) for name, model in models.items()}
        found = take_turns(contest, seconds=args.seconds, timer=time.process_time)
        for name, took in found.items():
            seen[name].append(took)
        print(side, found, flush=True)
    figure, axis = plt.subplots(figsize=(6, 4))
    pixels = [side * side for side in SIDES]
    for (name, times), colour in zip(seen.items(), ("#0072b2", "#d55e00"), strict=True):
        axis.plot(pixels, [took / times[0] for took in times], "o-", color=colour, label=name)
    axis.plot(pixels, [p / pixels[0] for p in pixels], ":", color="#888888", label="linear")
    axis.set(xscale="log", yscale="log", xlabel="side of the picture", ylabel="seconds, times those at 224")
    axis.set_xticks(pixels, [str(side) for side in SIDES])
    axis.minorticks_off()
    axis.legend(frameon=False)
    figure.savefig(HERE / "images_cost.png", dpi=120, bbox_inches="tight")
    rows = [[str(side), *(f"{seen[name][i]:.3f} s, {seen[name][i] / seen[name][0]:.1f} ×" for name in seen),
             f"{pixels[i] / pixels[0]:.1f} ×"] for i, side in enumerate(SIDES)]
    text = (
        "`python benchmarks/images.py cost`: one picture forward, seconds of the processor; see images_cost.png.\n\n"
        + table(["side", *seen, "pixels"], rows)
    )
    keep(RESULTS, "Images, cost by side", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    turning = commands.add_parser("rotated")
    turning.set_defaults(run=rotated)
    turning.add_argument("--mnist", type=Path, required=True)
    turning.add_argument("--work", nargs="+", default=["P4CNN-rotated", "Z2CNN-rotated", "P4CNN-upright", "Z2CNN-upright"])
    turning.add_argument("--epochs", type=int, default=30)
    turning.add_argument("--batch", type=int, default=64)
    turning.add_argument("--rate", type=float, default=0.01)
    turning.add_argument("--dropout", type=float, default=0.0, help="share of channels")
    turning.add_argument("--seed", type=int, default=0)
    contest = commands.add_parser("speed")
    contest.set_defaults(run=speed)
    contest.add_argument("--batch", type=int, default=4)
    contest.add_argument("--seconds", type=float, default=15.0)
    growing = commands.add_parser("cost")
    growing.set_defaults(run=cost)
    growing.add_argument("--seconds", type=float, default=4.0)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
