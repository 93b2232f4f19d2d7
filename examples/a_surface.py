"""Meshes: tubes that wind to the left or to the right, which only directions on the surface tell apart.

    python examples/a_surface.py [--steps STEPS]

The surfaces are made by regard; yours may be .ply, .obj, .off, .stl or .glb files in one folder for each class. Writes
out/screws/run with its report.html.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import regard

OUT = Path("out/screws")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    asked = parser.parse_args()
    options = {"data.meshes": 120}
    run = regard.train("meshes", data="screws", out=OUT / "run", steps=asked.steps, options=options)
    print(f"\nheld out: {regard.evaluate(run.path).measures}")
    report = regard.check(str(run.path), laws=["gauge", "rotation"])
    print(f"any frames on the surface: {report['gauge'].measured}, error {report['gauge'].error:.0e}")
    print(f"any rotation in space: {report['rotation'].measured}")
    print(f"\nsee it: regard look {run.path}")


if __name__ == "__main__":
    main()
