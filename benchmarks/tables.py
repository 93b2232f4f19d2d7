"""Tables: what it costs to read a large CSV file, and to predict each row of one.

    python benchmarks/tables.py --megabytes 200 --rows 10000 1000000

Each is measured in a process of its own: seconds of the processor, and the most memory that it had.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def write_numbers(path: Path, size: int) -> None:
    """17 columns of numbers, a number, a word and a date in each row."""
    draw = random.Random(0)
    rows = [
        f",{draw.choice('abcd')},2024-{draw.randint(1, 12):02}-{draw.randint(1, 28):02},"
        + ",".join(f"{draw.gauss(0, 1):.4f}" for _ in range(17))
        for _ in range(20_000)
    ]
    with open(path, "w") as file:
        written = file.write("id,city,day," + ",".join(f"x{i}" for i in range(17)) + "\n")
        number = 0
        while written < size:
            written += file.write(f"{number}{rows[number % len(rows)]}\n")
            number += 1


def write_sets(path: Path, rows: int) -> None:
    """Sets of four elements."""
    draw = random.Random(0)
    with open(path, "w") as file:
        file.write("set,a,b,target\n")
        for row in range(rows):
            file.write(f"{row // 4},{draw.random():.4f},{draw.random():.4f},{'xy'[row // 4 % 2]}\n")


def read(path: str) -> int:
    """Look at the whole file, then read two columns of all rows as numbers."""
    from regard.data.tables import open_table

    count = 0
    for part in open_table(path).batches():
        count += len(part.numbers(["x0", "x1"]))
    return count


def predict(path: str, run: str) -> int:
    from regard.verbs.predict import iter_predictions

    return sum(1 for _ in iter_predictions(run, path, out=f"{path}.answers.csv"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=200, help="size of the file that is read")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 1_000_000], help="rows to predict")
    parser.add_argument("--do", nargs="+", help=argparse.SUPPRESS)  # in a process of its own
    chosen = parser.parse_args()
    if chosen.do:
        start = time.process_time()
        count = {"read": read, "predict": predict}[chosen.do[0]](*chosen.do[1:])
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"| {chosen.do[0]} | {count:,} | {time.process_time() - start:.1f} s | {most:,} MB |")
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_numbers(place / "numbers.csv", chosen.megabytes * 10**6)
        write_sets(place / "train.csv", 400)
        words = ["train", "sets", "--model.hidden", "8", "--train.steps", "5", "--no-report"]
        run, train = str(place / "run"), str(place / "train.csv")
        subprocess.run([sys.executable, "-m", "regard", *words, "--data", train, "--out", run], check=True)
        print("| what | rows or answers | seconds | memory |\n| --- | --- | --- | --- |", flush=True)
        do = [sys.executable, __file__, "--do"]
        subprocess.run([*do, "read", str(place / "numbers.csv")], check=True)
        for rows in chosen.rows:
            write_sets(place / f"{rows}.csv", rows)
            subprocess.run([*do, "predict", str(place / f"{rows}.csv"), run], check=True)


if __name__ == "__main__":
    main()
