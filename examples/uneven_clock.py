"""Forecasts of a series that is measured at uneven times: what it is worth to know them.

    python examples/uneven_clock.py [--out FOLDER] [--steps STEPS]

Two tides of different periods are measured whenever somebody comes by, with a little noise. One model gets the times as they
are, which are its places; the other one reads the same rows as equal steps. Both are asked for the next measurements.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import regard

COUNT = 700


def write_tides(folder: Path, seed: int = 0) -> tuple[str, str]:
    """A table with times, and the same without."""
    random = np.random.default_rng(seed)
    times = random.gamma(1.5, 1 / 1.5, COUNT).cumsum()
    level = np.sin(2 * np.pi * times / 12.4) + 0.5 * np.sin(2 * np.pi * times / 6.2 + 1) + random.normal(0, 0.05, COUNT)
    rows = [f"{time:.4f},{value:.4f}" for time, value in zip(times, level, strict=True)]
    timed, untimed = folder / "tides.csv", folder / "rows.csv"
    timed.write_text("\n".join(["time,level", *rows]))
    untimed.write_text("\n".join(["level", *(row.partition(",")[2] for row in rows)]))
    return str(timed), str(untimed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", default="runs/uneven_clock", help="folder of the tables and the runs")
    parser.add_argument("--steps", type=int, default=200, help="steps of each training")
    asked = parser.parse_args()
    folder = Path(asked.out)
    folder.mkdir(parents=True, exist_ok=True)
    timed, untimed = write_tides(folder)
    options = {"data.horizon": 6, "train.steps": asked.steps, "data.lags": 24, "data.context": 80}
    print(f"{'':28}MAE      of a naive forecast")
    for name, path in (("times as they are", timed), ("rows as equal steps", untimed)):
        run = regard.train(
            "series", data=path, out=folder / Path(path).stem, options=options, observers=[], report=path == timed
        )
        found = regard.evaluate(run.path)
        print(f"{name:28}{found.measures['MAE']:.3f}    {found.rivals['naive']['MAE']:.3f}")
    print(f"\nsee it: regard look {folder / 'tides'}")


if __name__ == "__main__":
    main()
