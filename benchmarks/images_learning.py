"""Images: what is learned, by whom, from how many pictures, and who notices their order. All through `regard.train`.

    python benchmarks/images_learning.py digits                      the recipe as it is, on scikit-learn's digits
    python benchmarks/images_learning.py mnist --mnist FOLDER        LeNet, ViT and Swin: some minutes each
    python benchmarks/images_learning.py hunger --mnist FOLDER       accuracy against number of pictures: images_hunger.png
    python benchmarks/images_learning.py shuffled --mnist FOLDER     accuracy with patches shuffled: images_shuffled.png

Tables go to results.md. FOLDER holds the four files of MNIST (train-images-idx3-ubyte.gz and so on). Accuracy is that of the
test split, at which each training looks once, when it is over.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from alternate import keep, table
from images import mnist as read_mnist
from torch import Tensor, nn

import regard
from regard.nn.embed import cut

HERE = Path(__file__).parent
RESULTS = HERE / "results.md"
COLOURS = ("#0072b2", "#d55e00", "#009e73")
COUNTS = (100, 300, 1_000, 3_000, 10_000)
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
FULL = 60_000  # pictures of MNIST to train on


def learned(data: Any, kind: str, seed: int, options: dict[str, Any]) -> tuple[Any, float, float]:
    """A run, its accuracy on the test split in percent, and the minutes that it took, laws and report too: of the processor,
    or of the wall for digits, whose time is theirs."""
    clock = time.process_time if data is not None else time.perf_counter
    began = clock()
    run = regard.train(
        "images",
        data=data,
        model=kind,
        out=tempfile.mkdtemp() + "/run",
        options={"train.seed": seed, **options},
        observers=[],
    )
    counts = np.array(json.loads((run.path / "confusion.json").read_text())["counts"])
    right = 100 * counts.trace() / counts.sum()
    minutes = (clock() - began) / 60
    print(f"{kind} seed {seed} {options}: {right:.2f} % in {minutes:.1f} minutes", flush=True)
    return run, right, minutes


def spread(figures: list[float]) -> str:
    return f"{statistics.mean(figures):.2f} %" + (f" ± {statistics.stdev(figures):.2f}" if len(figures) > 1 else "")


def size(run: Any) -> str:
    return f"{sum(p.numel() for p in regard.load(str(run.path)).parameters()):,}"


def steps(run: Any) -> str:
    return f"{sum(line['event'] == 'step' for line in run.metrics()):,}"


# ── how well ────────────────────────────────────────────────────────────────────────────────────────────────


def digits(args: argparse.Namespace) -> None:
    seeds = range(args.first, args.first + args.seeds)
    found = [learned(None, "vit", seed, budget(args)) for seed in seeds]
    minutes = max(took for _, _, took in found)
    row = [size(found[0][0]), steps(found[0][0]), spread([right for _, right, _ in found]), "98.5 %", f"{minutes:.1f}"]
    text = (
        f"{command(args)}: `regard train images` as it is, a ViT on the 1,797 digits of scikit-learn, 8 × 8 pixels; a fifth of "
        f"them are the test split, always the same. Seeds {seeds[0]} to {seeds[-1]}, which also choose the validation split; "
        f"settings were chosen by five folds of the pictures outside the test split. The worst of them: "
        f"{min(right for _, right, _ in found):.2f} %. Minutes of the wall, of the longest, with laws and report.\n\n"
        + table(["parameters", "steps", "accuracy", "to reach", "minutes"], [row])
    )
    keep(RESULTS, "Digits", text)
    print(text)


def mnist(args: argparse.Namespace) -> None:
    rows = []
    for kind, reach in (("lenet", 99.3), ("vit", 98.8), ("swin", 98.8)):
        if kind in args.kinds:
            run, right, minutes = learned(str(args.mnist), kind, 0, budget(args))
            rows.append([kind, size(run), steps(run), f"{right:.2f} %", f"{reach} %", f"{minutes:.1f}"])
    text = (
        f"{command(args)}: `regard train images --data FOLDER --model KIND` as it is, but for a number of steps instead of ten "
        "minutes; the 10,000 pictures of the test split. Minutes of one core, with reading, laws and report: ten on two "
        "cores are twenty.\n\n" + table(["model", "parameters", "steps", "accuracy", "to reach", "minutes"], rows)
    )
    keep(RESULTS, "MNIST", text)
    print(text)


def budget(args: argparse.Namespace) -> dict[str, Any]:
    return {} if args.steps is None else {"train.steps": args.steps}


def command(args: argparse.Namespace) -> str:
    steps_ = "" if args.steps is None else f" --steps {args.steps}"
    return f"`python benchmarks/images_learning.py {args.what}{steps_}{f' --seeds {args.seeds}' if args.seeds > 1 else ''}`"


# ── who is hungry ───────────────────────────────────────────────────────────────────────────────────────────


def hunger(args: argparse.Namespace) -> None:
    """The same number of steps from fewer and fewer pictures."""
    pictures, labels = (each.numpy() for each in read_mnist(args.mnist))
    order = np.random.default_rng(0).permutation(FULL)
    seen: dict[str, list[list[float]]] = {"lenet": [], "vit": []}
    for count in COUNTS:
        rows = order[:count]
        with tempfile.TemporaryDirectory() as folder:
            arrays = {
                "x_train": pictures[rows],
                "y_train": labels[rows],
                "x_test": pictures[FULL:],
                "y_test": labels[FULL:],
            }
            np.savez(Path(folder) / "some.npz", **arrays)
            for kind, found in seen.items():
                found.append(
                    [
                        learned(Path(folder) / "some.npz", kind, seed, {"train.steps": args.steps})[1]
                        for seed in range(args.seeds)
                    ]
                )
    draw(
        COUNTS,
        {"LeNet": seen["lenet"], "ViT": seen["vit"]},
        "pictures to learn from",
        HERE / "images_hunger.png",
        log=True,
    )
    rows_ = [[f"{count:,}", spread(seen["lenet"][i]), spread(seen["vit"][i])] for i, count in enumerate(COUNTS)]
    text = (
        f"{command(args)}: accuracy on the 10,000 pictures of MNIST's test split against the number of pictures to learn from, "
        f"{args.steps:,} steps whatever that is, a tenth of the pictures held out, {args.seeds} seeds. Convolution knows from "
        "the start that a stroke is the same stroke elsewhere; a ViT has to learn it. Picture: `images_hunger.png`.\n\n"
        + table(["pictures", "LeNet", "ViT"], rows_)
    )
    keep(RESULTS, "Images: who is data-hungry", text)
    print(text)


# ── who notices the order ───────────────────────────────────────────────────────────────────────────────────


def shuffled(args: argparse.Namespace) -> None:
    """ViTs with and without positions, tested with some of their patches in each other's places."""
    pictures, labels = read_mnist(args.mnist)
    test, answer = pictures[FULL:, None], labels[FULL:]
    seen = {}
    for name in ("rotary", "learned", "none"):
        run, _, _ = learned(str(args.mnist), "vit", 0, {"train.steps": args.steps, "model.position": name})
        about = run.config.processor["fitted"]
        x = (test - about["mean"][0]) / about["deviation"][0]
        model: Any = regard.load(str(run.path)).eval()
        seen[name] = [accuracy(model, in_other_order(x, model.config.patch, share), answer) for share in SHARES]
    names = {"rotary": "rotary positions", "learned": "learned positions", "none": "no positions"}
    draw(
        [100 * share for share in SHARES],
        {names[each]: [[one] for one in found] for each, found in seen.items()},
        "patches out of place, %",
        HERE / "images_shuffled.png",
    )
    rows = [[f"{100 * share:.0f} %", *(f"{seen[name][i]:.2f} %" for name in seen)] for i, share in enumerate(SHARES)]
    text = (
        f"{command(args)}: ViTs trained for {args.steps:,} steps on MNIST, tested on pictures of which so many patches are in "
        "each other's places. Without positions a picture is a bag of patches: no order is noticed, and less is known. "
        "Picture: `images_shuffled.png`.\n\n" + table(["patches out of place", *names.values()], rows)
    )
    keep(RESULTS, "Images: who notices the order", text)
    print(text)


def in_other_order(x: Tensor, patch: int, share: float) -> Tensor:
    """Some patches of each picture in each other's places.   b c h w -> b c h w"""
    b, c, h, w = x.shape
    patches = cut(x, patch)  # b n (c p p)
    draw_ = torch.Generator().manual_seed(0)
    n = patches.shape[1]
    moving = torch.rand(b, n, generator=draw_).argsort(1)[:, : round(share * n)].sort(1).values
    places = torch.arange(n).repeat(b, 1)
    places.scatter_(1, moving, moving.gather(1, torch.rand(moving.shape, generator=draw_).argsort(1)))
    patches = patches.gather(1, places[..., None].expand_as(patches))
    return patches.view(b, h // patch, w // patch, c, patch, patch).permute(0, 3, 1, 4, 2, 5).reshape(b, c, h, w)


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, answer: Tensor) -> float:
    right = sum(int((model(a).argmax(1) == b).sum()) for a, b in zip(x.split(500), answer.split(500), strict=True))
    return 100 * right / len(answer)


def draw(x: Any, lines: dict[str, list[list[float]]], label: str, path: Path, log: bool = False) -> None:
    """A line for each name through the means of its seeds, with bars from the worst to the best of them."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4))
    for (name, found), colour in zip(lines.items(), COLOURS, strict=False):
        means = [statistics.mean(each) for each in found]
        reach = [[mean - min(each), max(each) - mean] for mean, each in zip(means, found, strict=True)]
        axis.errorbar(x, means, yerr=np.array(reach).T, fmt="o-", color=colour, label=name, capsize=3)
    axis.set(xlabel=label, ylabel="accuracy, %", xscale="log" if log else "linear")
    axis.grid(alpha=0.2)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="what")
    work: dict[str, tuple[Callable[[argparse.Namespace], None], int | None, int]] = {
        "digits": (digits, None, 5),
        "mnist": (mnist, 2500, 1),
        "hunger": (hunger, 800, 2),
        "shuffled": (shuffled, 600, 1),
    }
    for name, (run, count, seeds) in work.items():
        sub = commands.add_parser(name)
        sub.set_defaults(run=run)
        sub.add_argument("--steps", type=int, default=count, help="of each training; the recipe's minutes if not given")
        sub.add_argument("--seeds", type=int, default=seeds)
        if name == "digits":
            sub.add_argument(
                "--first", type=int, default=100, help="the first seed; by those before 100 settings were chosen"
            )
        else:
            sub.add_argument("--mnist", type=Path, required=True)
        if name == "mnist":
            sub.add_argument("--kinds", nargs="+", default=["lenet", "vit", "swin"])
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
