"""What the defaults learn beside the peer that people of the field would take first, on data they were not tuned on.

    python benchmarks/defaults.py text --train train.csv --test test.csv [--rows 100 1000] [--seeds 3] [--validation 0]
    python benchmarks/defaults.py images --data cifar10.npz mnist --flip cifar10.npz [--seconds 300] [--who default]

text: a table with the columns text and label. The peer is scikit-learn's TF-IDF (words and pairs of words, characters
inside words) with logistic regression. Both see the same rows, drawn by the seed with each label in proportion; the
recipe holds a tenth of them out for validation (--validation: another share), the peer trains on all. The default budget
of small tables is in steps, so that a busy machine changes no accuracy; seconds are those of the processor.

images: classes of images, for the default, other kinds and networks in a plain loop: see defaults_images.py.

Another kind of data adds a function to PARTS, with its options.
"""

from __future__ import annotations

import argparse
import csv
import math
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from alternate import keep, table
from defaults_images import add_images_options, compare_images

import regard
from regard.data.splits import stratified_mask

RESULTS = Path(__file__).parent / "results.md"


# ── text


def add_text_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--rows", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--validation", type=float, default=0.1)


def compare_text(options: argparse.Namespace) -> str:
    """Accuracy on the test table for some numbers of training rows, and for all."""
    rows, test = read(options.train), read(options.test)
    lines = []
    for count in [*options.rows, len(rows)]:
        ours: list[tuple[float, float, float]] = []
        theirs: list[tuple[float, float]] = []
        for seed in range(options.seeds):
            some = draw(rows, count, seed)
            ours.append(train_ours(some, options.test, seed, options.validation))
            theirs.append(train_peer(some, test))
        known = [statistics.mean(column) for column in zip(*ours, strict=True)]
        peer = [statistics.mean(column) for column in zip(*theirs, strict=True)]
        lines.append(
            [
                f"{count:,}",
                f"{known[0]:.1f} ({spread(ours)})",
                f"{known[1]:.1f}",
                f"{known[2]:.0f}",
                f"{peer[0]:.1f} ({spread(theirs)})",
                f"{peer[1]:.1f}",
            ]
        )
        print(lines[-1], flush=True)
    headers = ["rows", "regard, test %", "its validation %", "seconds", "TF-IDF + LR, test %", "seconds"]
    return table(headers, lines)


def read(path: str) -> list[tuple[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return [(row["text"], row["label"]) for row in csv.DictReader(file)]


def draw(rows: list[tuple[str, str]], count: int, seed: int) -> list[tuple[str, str]]:
    """This many rows (or a few more or less), each label in proportion."""
    if count >= len(rows):
        return rows
    number = {label: i for i, label in enumerate(sorted({label for _, label in rows}))}
    classes = torch.tensor([number[label] for _, label in rows]).numpy()
    taken = stratified_mask(classes, count / len(rows), seed)
    return [row for row, take in zip(rows, taken, strict=True) if take]


def train_ours(rows: list[tuple[str, str]], test: str, seed: int, share: float) -> tuple[float, float, float]:
    """Accuracy on the test table and on the validation split (nan without one), and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "train.csv"
        with data.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label"), *rows])
        began = time.process_time()
        run = regard.train(
            "text",
            data=str(data),
            out=Path(folder) / "run",
            # the test table is another file
            options={"train.seed": seed, "data.validation": share, "data.test": 0.0},
            observers=[],
            report=False,
        )
        seconds = time.process_time() - began
        validation = math.nan
        if share:
            validation = regard.evaluate(run.path).measures["accuracy"]
        return 100 * regard.evaluate(run.path, data=test).measures["accuracy"], 100 * validation, seconds


def train_peer(rows: list[tuple[str, str]], test: list[tuple[str, str]]) -> tuple[float, float]:
    """Accuracy on the test table, and seconds."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline, make_union

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
    model = make_pipeline(make_union(words, characters), LogisticRegression(C=10, max_iter=1000))
    began = time.process_time()
    model.fit(*zip(*rows, strict=True))
    seconds = time.process_time() - began
    return 100 * float(model.score(*zip(*test, strict=True))), seconds


def spread(found: list[tuple[float, ...]]) -> str:
    first = [each[0] for each in found]
    return f"{min(first):.1f} to {max(first):.1f}"


# ── parts

PARTS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], str], str]] = {
    "text": (add_text_options, compare_text, "python benchmarks/defaults.py text --train train.csv --test test.csv"),
    "images": (
        add_images_options,
        compare_images,
        "python benchmarks/defaults.py images --data cifar10.npz mnist --flip cifar10.npz",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="part")
    for name, (add_options, _, _) in PARTS.items():
        add_options(commands.add_parser(name))
    options = parser.parse_args()
    if options.part is None:  # no data comes with it
        parser.print_usage()
        return
    _, compare, command = PARTS[options.part]
    torch.set_num_threads(1)
    found = compare(options)
    machine = f"{platform.machine()}, 1 thread, torch {torch.__version__}"
    keep(RESULTS, f"Defaults: {options.part}", f"`{command}` on {machine}.\n\n{found}")
    print(found)


if __name__ == "__main__":
    main()
