"""Images: what symmetry buys, and what it costs.

    python benchmarks/images.py rotated --mnist FOLDER     rotated MNIST, and upright pictures tested turned: an hour and more
    python benchmarks/images.py speed                      ViT-Tiny and Swin-Tiny against Hugging Face's: an hour
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
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from alternate import keep, table
from images_speed import cost, speed
from torch import Tensor

from regard.models.group_cnn import GroupCNN, GroupCNNConfig

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # for the weights of others by our names, which the tests know
RESULTS = HERE / "results.md"
KEPT = HERE / "images_rotated.json"
TRAIN, TEST = 12_000, 50_000
NETWORKS = {
    "Z2CNN": GroupCNNConfig(classes=10, hidden=20, group="p1"),
    "P4CNN": GroupCNNConfig(classes=10, hidden=10, group="p4"),
}
PUBLISHED = {
    ("Z2CNN", "rotated"): 5.03,
    ("P4CNN", "rotated"): 2.28,
    ("Z2CNN", "upright"): 58.0,
    ("P4CNN", "upright"): 16.0,
}


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


def split(folder: Path) -> dict[str, tuple[Tensor, Tensor]]:
    """12,000 pictures to train on, 50,000 others to test on, and the 8,000 left to choose by.   n 1 28 28, n each"""
    pictures, labels = mnist(folder)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    parts = order.split([TRAIN, TEST, len(order) - TRAIN - TEST])
    return {
        name: (pictures[part, None], labels[part])
        for name, part in zip(("train", "test", "choose"), parts, strict=True)
    }


def turned(x: Tensor, seed: int) -> Tensor:
    """Each picture about its middle by an angle of its own, uniform over the circle; between pixels linear."""
    angles = torch.rand(len(x), generator=torch.Generator().manual_seed(seed)) * 2 * math.pi
    cos, sin, zero = angles.cos(), angles.sin(), torch.zeros(len(x))
    matrices = torch.stack((torch.stack((cos, -sin, zero), -1), torch.stack((sin, cos, zero), -1)), 1)
    parts = zip(x.split(1000), matrices.split(1000), strict=True)
    return torch.cat(
        [F.grid_sample(a, F.affine_grid(m, list(a.shape), align_corners=False), align_corners=False) for a, m in parts]
    )


# ---- training


def train(
    name: str, x: Tensor, y: Tensor, *, epochs: int, batch: int, rate: float, decay: float, dropout: float, seed: int
) -> tuple[GroupCNN, float]:
    """Adam with a rate that rises for a tenth of the steps and then falls to nothing. No picture is changed on its way."""
    torch.manual_seed(seed)
    model, began = GroupCNN(replace(NETWORKS[name], dropout=dropout)), time.perf_counter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
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
        print(
            f"{name} epoch {epoch + 1}/{epochs}  loss {total / count:.4f}  {time.perf_counter() - began:.0f} s",
            flush=True,
        )
    return model.eval(), time.perf_counter() - began


@torch.no_grad()
def error(model: GroupCNN, x: Tensor, y: Tensor) -> float:
    """Percent of pictures taken for another digit."""
    wrong = sum(int((model(a).argmax(1) != b).sum()) for a, b in zip(x.split(500), y.split(500), strict=True))
    return 100 * wrong / len(y)


def rotated(args: argparse.Namespace) -> None:
    parts = split(args.mnist)
    (x, y), (test_x, test_y), (choose_x, choose_y) = parts["train"], parts["test"], parts["choose"]
    for work in args.work:
        name, kind = work.split("-")
        key = f"{work}-{args.epochs}-{args.decay}-{args.dropout}-{args.seed}{'-trial' if args.trial else ''}"
        if key in kept():
            continue
        seen = turned(x, 1) if kind == "rotated" else x
        how = {name: getattr(args, name) for name in ("epochs", "batch", "rate", "decay", "dropout", "seed")}
        model, seconds = train(name, seen, y, **how)
        found = {"network": name, "trained": kind, "parameters": sum(p.numel() for p in model.parameters()), **how}
        found["seconds"] = round(seconds)
        if kind == "rotated":
            found["choose"] = error(model, turned(choose_x, 3), choose_y)
        if not args.trial:
            found["turned"] = error(model, turned(test_x, 2), test_y)
        if kind == "upright":
            found["upright"] = error(model, test_x, test_y)
            found["quarter"] = error(model, test_x.rot90(1, (-2, -1)), test_y)
        print(key, found, flush=True)
        KEPT.write_text(json.dumps({**kept(), key: found}, indent=1) + "\n")
    rotated_tables()


def kept() -> dict[str, Any]:
    """What is done so far, by this process or by others beside it."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def rotated_tables() -> None:
    """What was seen so far: trained on turned pictures, trained on upright ones, and how the settings were chosen."""
    done = sorted(kept().values(), key=lambda each: (each["network"], each["epochs"], each["decay"], each["dropout"]))
    rows: dict[str, list[list[str]]] = {"rotated": [], "upright": [], "trial": []}
    for found in done:
        name, kind = found["network"], found["trained"]
        row = [name, f"{found['parameters']:,}", *(str(found[how]) for how in ("epochs", "decay", "dropout", "seed"))]
        if "turned" not in found:
            rows["trial"].append([*row, f"{found['choose']:.2f} %"])
        elif kind == "upright":
            right = [f"{100 - found[how]:.2f} %" for how in ("upright", "quarter", "turned")]
            rows[kind].append([*row, *right, f"{100 - PUBLISHED[name, kind]:.0f} %"])
        else:
            rows[kind].append([*row, f"{found['turned']:.2f} %", f"{PUBLISHED[name, kind]:.2f} %"])
    headers = ["network", "parameters", "epochs", "decay", "dropout", "seed"]
    text = (
        "`python benchmarks/images.py rotated`: 12,000 pictures of MNIST to train on and 50,000 to test on, each turned by an "
        "angle of its own, uniform over the circle. Seven convolutions, 20 channels (Z2CNN) or 10 in four poses (P4CNN). "
        "Pictures are not changed while training.\n\n" + table([*headers, "error", "published"], rows["rotated"])
    )
    if rows["trial"]:
        text += "\n\nThe decay of weights was chosen by the 8,000 pictures that are in neither (`--trial`), turned as well:\n\n"
        text += table([*headers, "error on them"], rows["trial"])
    if rows["upright"]:
        text += "\n\nTrained on the same pictures upright, right answers on the 50,000 as they were tested:\n\n"
        text += table([*headers, "upright", "a quarter on", "at any angle", "published"], rows["upright"])
    keep(RESULTS, "Rotated MNIST", text)
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    turning = commands.add_parser("rotated")
    turning.set_defaults(run=rotated)
    turning.add_argument("--mnist", type=Path, required=True)
    turning.add_argument(
        "--work", nargs="+", default=["P4CNN-rotated", "Z2CNN-rotated", "P4CNN-upright", "Z2CNN-upright"]
    )
    turning.add_argument("--epochs", type=int, default=30)
    turning.add_argument("--batch", type=int, default=64)
    turning.add_argument("--rate", type=float, default=0.01)
    turning.add_argument("--decay", type=float, default=0.01, help="of weights, times the rate, at each step")
    turning.add_argument("--trial", action="store_true", help="look at the 8,000 pictures left over, not at the test")
    turning.add_argument("--dropout", type=float, default=0.0, help="share of channels")
    turning.add_argument("--seed", type=int, default=0)
    contest = commands.add_parser("speed")
    contest.set_defaults(run=speed)
    contest.add_argument("--batch", type=int, default=16)
    contest.add_argument(
        "--seconds", type=float, default=10.0, help="of measuring, for each round of each of eight contests"
    )
    contest.add_argument("--rounds", type=int, default=5, help="each with new processes")
    contest.add_argument(
        "--shared", action="store_true", help="count what the processor does for us, where others work, too"
    )
    contest.add_argument(
        "--compile", action="store_true", help="everyone by torch.compile, too: a minute more for each"
    )
    contest.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    contest.add_argument("--shapes", nargs="+", default=["ViT-Tiny", "Swin-Tiny"], choices=["ViT-Tiny", "Swin-Tiny"])
    contest.add_argument("--work", nargs="+", default=["forward", "step"], choices=["forward", "step"])
    contest.add_argument(
        "--drop-path", type=float, default=0.0, help="of Swin in training; 0.1 is Hugging Face's default"
    )
    growing = commands.add_parser("cost")
    growing.set_defaults(run=cost)
    growing.add_argument("--seconds", type=float, default=4.0)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
