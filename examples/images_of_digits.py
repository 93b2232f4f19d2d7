"""Images: a classifier of handwritten digits, and what it looks at.

    python examples/images_of_digits.py [--steps STEPS]

The 1,797 digits of 8 × 8 pixels come with scikit-learn. Writes out/digits/: the run with its report.html, and looked.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import regard

OUT = Path("out/digits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    asked = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    images = (digits.images * 15).astype(np.uint8)  # n h w
    np.savez(OUT / "digits.npz", images=images[:-50], labels=digits.target[:-50])
    options = {"data.size": 16, "data.test": 0.1}
    run = regard.train(
        "images", data=OUT / "digits.npz", model="lenet", out=OUT / "run", steps=asked.steps, options=options
    )
    predictions = regard.predict(run.path, list(images[-50:]))
    guesses = [max(each.labels, key=each.labels.get) for each in predictions]
    right = sum(int(guess) == truth for guess, truth in zip(guesses, digits.target[-50:], strict=True))
    print(f"\n{right} of 50 digits that it never saw are right; test split: {regard.evaluate(run.path).measures}")
    print(f"\nsee it: regard look {run.path}")


if __name__ == "__main__":
    main()
