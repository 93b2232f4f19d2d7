"""Autoencoders: a VAE learns a latent space of handwritten digits, draws new ones, and gives codes.

    python examples/a_latent_space.py [--steps STEPS]

The digits come with scikit-learn. Writes out/latent/: the run with its report.html, samples.png and codes.npz.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import regard
from regard.verbs.main import main as command

OUT = Path("out/latent")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    asked = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    images = (digits.images * 15).astype(np.uint8)  # n h w
    np.savez(OUT / "digits.npz", images=images, labels=digits.target)
    run = regard.train("autoencoder", data=OUT / "digits.npz", out=OUT / "run", steps=asked.steps)
    print(regard.evaluate(run.path).measures)
    command(["generate", str(run.path), "--count", "64", "--out", str(OUT / "samples.png"), "--seed", "1"])
    print(f"\nsee it: regard look {run.path}")


if __name__ == "__main__":
    main()
