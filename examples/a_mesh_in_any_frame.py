"""Meshes: a screw and its mirror image, told apart whatever frame each vertex has, and `check` proves it.

    python examples/a_mesh_in_any_frame.py [--steps STEPS]

The rods have three ridges that wind to the left or to the right; each is turned, scaled and noisy. Writes out/screws/: the run
with its report.html.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import regard

OUT = Path("out/screws")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=300)
    asked = parser.parse_args()
    run = regard.train("meshes", data="screws", out=OUT / "run", steps=asked.steps)
    print(f"\nmeshes that it has not seen: {regard.evaluate(run.path).measures}")
    report = regard.check(str(run.path), laws=["gauge", "rotation"])
    for law, words in (("gauge", "any frames of the vertices"), ("rotation", "any turn of space")):
        print(f"{words}: {report[law].measured}, error {report[law].error:.0e}")
    print(f"\nsee it: regard look {run.path}")


if __name__ == "__main__":
    main()
