"""Pairs of sentences: an encoder-decoder learns to turn numbers around, and shows which word each word came from.

    python examples/a_translator.py [--steps STEPS]

Writes out/reverse/run with its report.html.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import regard

OUT = Path("out/reverse")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    asked = parser.parse_args()
    options = {"data.pairs": 2000, "model.dim": 64, "model.depth": 2}
    run = regard.train("translation", data="reverse", out=OUT / "run", steps=asked.steps, options=options)
    for text in ("3 14 15", "1 2 3 4 5"):
        (found,) = regard.predict(run.path, text, options={"beams": 3})
        print(f"{text}  ->  {found.answer}")
    print(f"exactly right: {regard.evaluate(run.path).measures['exact']:.1%} of the validation pairs")
    print(f"\nsee it: regard look {run.path} --input '3 14 15'")


if __name__ == "__main__":
    main()
