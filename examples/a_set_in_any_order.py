"""Sets: the class of a basket of points does not depend on their order, and `check` proves it.

    python examples/a_set_in_any_order.py [--steps STEPS]

Each set holds 5 to 20 points of a ring or of a disc. Writes out/rings/: the table and the run with its report.html.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import regard

OUT = Path("out/rings")


def make_table(sets: int, seed: int) -> str:
    """A row for each point: the number of its set, its coordinates, and what the set is."""
    random = np.random.default_rng(seed)
    lines = ["set,x,y,shape"]
    for number in range(sets):
        shape = ("ring", "disc")[number % 2]
        count = random.integers(5, 21)
        angle = random.uniform(0, 2 * np.pi, count)
        radius = np.ones(count) if shape == "ring" else np.sqrt(random.uniform(0, 1, count))
        points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
        lines += [f"{number},{x:.4f},{y:.4f},{shape}" for x, y in points]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    asked = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "rings.csv").write_text(make_table(600, seed=0))
    (OUT / "others.csv").write_text(make_table(100, seed=1))
    options = {"data.id": "set", "data.target": "shape"}
    run = regard.train("sets", data=OUT / "rings.csv", out=OUT / "run", steps=asked.steps, options=options)
    print(f"\n100 other sets: {regard.evaluate(run.path, OUT / 'others.csv').measures}")
    report = regard.check(str(run.path), laws=["permutation", "padding"])
    print(f"any order of the points: {report['permutation'].measured}, error {report['permutation'].error:.0e}")
    print(f"\nsee it: regard look {run.path}")


if __name__ == "__main__":
    main()
