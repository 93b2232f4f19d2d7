"""Graphs: which of two groups people belong to, from who knows whom and a few labels.

    python examples/a_graph_of_friends.py [--steps STEPS]

120 people, of whom ten in a hundred pairs of one group know each other, and one in a hundred of two groups. Six labels of
each group are known. Writes out/friends/: the graph and the run with its report.html.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import regard

OUT = Path("out/friends")
PEOPLE, KNOWN = 120, 6


def make_graph(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    group = np.arange(PEOPLE) % 2
    first, second = np.triu_indices(PEOPLE, 1)
    probability = np.where(group[first] == group[second], 0.10, 0.01)
    met = random.random(len(first)) < probability
    return {
        "edges": np.stack([first[met], second[met]]),
        "x": random.normal(size=(PEOPLE, 8)),  # says nothing about the group
        "labels": group,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    asked = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    np.savez(OUT / "friends.npz", **make_graph(seed=0))
    options = {"data.train": KNOWN, "data.test": 0.6, "model.layer": "gcn"}
    run = regard.train("graphs", data=OUT / "friends.npz", out=OUT / "run", steps=asked.steps, options=options)
    found = regard.evaluate(run.path)
    print(f"\n{found.count} people whose group it was not told: {found.measures}")
    report = regard.check(str(run.path), laws=["relabelling"])
    print(f"the names of the people do not count: {report['relabelling'].measured}")
    print(f"\nsee it: regard look {run.path}")


if __name__ == "__main__":
    main()
