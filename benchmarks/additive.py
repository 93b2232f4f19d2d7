"""What it costs that evidence sums to the prediction exactly: an additive model beside those that mix.

    python benchmarks/additive.py --train train.csv --test test.csv [--steps 600] [--seeds 3]

Three data sets: texts with labels (a table with the columns text and label), the digits of scikit-learn as sets of
points (row, column, ink), and its patients with diabetes as sets of measurements (which one, its value; the target is
a number). Every model has its defaults and the same number of steps; validation chooses the weights that are kept,
and the test split (for the sets every fifth example) is looked at once.
"""

from __future__ import annotations

import argparse
import csv
import platform
import statistics
import tempfile
from pathlib import Path

import torch
from alternate import keep, table

import regard

RESULTS = Path(__file__).parent / "results.md"
Rows = list[list[object]]
COMMAND = "python benchmarks/additive.py --train train.csv --test test.csv --steps {}"


def digits() -> tuple[Rows, Rows]:
    """The points of each digit that have ink: train and test."""
    from sklearn.datasets import load_digits

    data = load_digits()
    parts: tuple[Rows, Rows] = ([], [])
    for number, (image, target) in enumerate(zip(data.images, data.target, strict=True)):
        points = [[number, i, j, image[i, j], target] for i in range(8) for j in range(8) if image[i, j] > 0]
        parts[number % 5 == 4].extend(points)
    header: list[object] = ["set", "row", "column", "ink", "target"]
    return [header, *parts[0]], [header, *parts[1]]


def diabetes() -> tuple[Rows, Rows]:
    """Ten measurements of each patient, one element each: train and test."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes()
    names = list(data.feature_names)
    parts: tuple[Rows, Rows] = ([], [])
    for number, (row, target) in enumerate(zip(data.data, data.target, strict=True)):
        for i, value in enumerate(row):
            which = [int(i == j) for j in range(len(names))]
            parts[number % 5 == 4].append([number, *which, 20 * value, target + 0.5])  # a fraction: a number
    header: list[object] = ["set", *names, "value", "target"]
    return [header, *parts[0]], [header, *parts[1]]


def write(path: Path, rows: Rows) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return str(path)


def measure(kind: str, data: str, test: str, model: str, options: argparse.Namespace) -> list[str]:
    """Test and validation, in percent or R², and the seconds of a run."""
    tests, judged = [], []
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            run = regard.train(
                kind,
                data=data,
                model=model,
                out=Path(folder) / "run",
                steps=options.steps,
                options={"train.seed": seed, "data.test": 0.0},
                observers=[],
                report=False,
            )
            judged.append(regard.evaluate(run.path).measures)
            tests.append(regard.evaluate(run.path, data=test).measures)
    name = "accuracy" if "accuracy" in tests[0] else "R²"
    many = 100 if name == "accuracy" else 1
    found = [[many * each[name] for each in rows] for rows in (tests, judged)]
    digits = 1 if name == "accuracy" else 3
    mean, validation = (f"{statistics.mean(values):.{digits}f}" for values in found)
    spread = f"{min(found[0]):.{digits}f} to {max(found[0]):.{digits}f}"
    return [name + (", %" if many == 100 else ""), f"{mean} ({spread})", validation]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train")
    parser.add_argument("--test")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.train is None or options.test is None:  # no texts come with it
        parser.print_usage()
        return
    torch.set_num_threads(1)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        data = {"texts": ("text", options.train, options.test, ["additive", "encoder"])}
        for name, make in (("digits as points", digits), ("diabetes", diabetes)):
            train, test = make()
            paths = [
                write(Path(folder) / f"{name} {part}.csv", rows) for part, rows in (("train", train), ("test", test))
            ]
            data[name] = ("sets", *paths, ["additive", "deepsets", "settransformer"])
        for name, (kind, train_path, test_path, models) in data.items():
            for model in models:
                lines.append([name, model, *measure(kind, train_path, test_path, model, options)])
                print(lines[-1], flush=True)
    machine = f"{platform.machine()}, 1 thread, torch {torch.__version__}"
    found = table(["data", "model", "measure", "test", "validation"], lines)
    told = f"{options.steps} steps, {options.seeds} seeds, means (smallest and largest in brackets)"
    keep(RESULTS, "Additive models", f"`{COMMAND.format(options.steps)}` on {machine}: {told}.\n\n{found}")


if __name__ == "__main__":
    main()
