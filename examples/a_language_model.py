"""Text: a language model learns a toy grammar, writes in it, and shows what it attends to.

    python examples/a_language_model.py [--steps STEPS]

Writes out/grammar/: the text, the run with its report.html, and page.html with every attention head.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import regard

OUT = Path("out/grammar")


def make_text(sentences: int) -> str:
    """A subject, a verb and an object; an animal that hides is found by the one that looked."""
    choose = random.Random(0).choice
    animals = ("the cat", "the dog", "a bird", "a fish")
    lines = []
    for _ in range(sentences):
        first, second = choose(animals), choose(animals)
        lines.append(f"{first} looks and {second} hides, so {first} finds {second}.")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    asked = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "text.txt").write_text(make_text(2000))
    options = {"model.dim": 64, "model.depth": 2, "data.context": 64}
    run = regard.train("text", data=OUT / "text.txt", out=OUT / "run", steps=asked.steps, options=options)
    text = "".join(regard.generate(run.path, "the dog looks and", max_new=60, temperature=0.3, seed=1))
    print(f"\nthe dog looks and{text}")
    print({name: round(value, 3) for name, value in regard.evaluate(run.path).measures.items()})
    print(f"\nsee it: regard look {run.path} --input 'a bird looks and a fish hides, so' --out {OUT}/page.html")


if __name__ == "__main__":
    main()
