"""Whole commands of this tree beside those of another one, such as an earlier commit: training, predict, generate, start-up.

    git worktree add ../before COMMIT
    python benchmarks/commands.py ../before

Both are run in turns by this Python, in a folder of their own; the least of two times counts (of five for commands that
only start).
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
GOOD, BAD = ["good", "fine", "nice", "film", "plot"], ["bad", "poor", "ugly", "film", "plot"]
TRAINED = {
    "sets": ["sets", "--data", "../long.csv", "--data.id", "set", "--data.target", "label", "--train.steps", "300"],
    "graphs": ["graphs", "--train.steps", "200"],
    "images": ["images", "--train.steps", "150"],
    "texts": ["text", "--data", "../texts.csv", "--train.steps", "60"],
    "lm": ["text", "--train.steps", "12"],
}
COMMANDS = [["train", *words, "--no-report", "--out", name] for name, words in TRAINED.items()]
COMMANDS += [["predict", "sets", "../long.csv", "--json"], ["predict", "texts", "../texts.csv", "--json"]]
COMMANDS += [["generate", "lm", "--prompt", "def ", "--max-new", "300", "--seed", "1"], ["list", "recipes"], ["--help"]]


def write_tables(folder: Path) -> None:
    """10,000 sets in long form, and 10,000 labelled texts."""
    draw = random.Random(0)
    sets = [
        f"s{i},{draw.random():.3f},{draw.random():.3f},{'ab'[i % 2]}" for i in range(10_000) for _ in range(1 + i % 5)
    ]
    texts = [f"{' '.join(draw.choices((BAD, GOOD)[i % 2], k=12))},{'np'[i % 2]}" for i in range(10_000)]
    (folder / "long.csv").write_text("\n".join(["set,price,size,label", *sets, ""]))
    (folder / "texts.csv").write_text("\n".join(["text,label", *texts, ""]))


def seconds(tree: Path, words: list[str], place: Path) -> float:
    if words[0] == "train":
        words = [*words[:-1], f"{words[-1]}-{time.monotonic_ns()}"]
    environment = {**os.environ, "PYTHONPATH": str(tree), "REGARD_CACHE": str(place / "cache")}
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "regard", *words], env=environment, cwd=place, check=True, capture_output=True
    )
    spent = time.perf_counter() - began
    if words[0] == "train":  # the last one is what later commands use
        name = words[-1].partition("-")[0]
        (place / name).unlink(missing_ok=True)
        (place / name).symlink_to(words[-1])
    return spent


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("other", type=Path, help="another tree of regard")
    trees = {"other": options.parse_args().other.resolve(), "this": HERE}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_tables(folder)
        for name in trees:
            (folder / name).mkdir()
        print("| command | other | this | this / other |\n|---|---|---|---|")
        for words in COMMANDS:
            times = {name: [] for name in trees}
            for _ in range(5 if words[0] in ("list", "--help") else 2):
                for name, tree in trees.items():
                    times[name].append(seconds(tree, words, folder / name))
            other, this = min(times["other"]), min(times["this"])
            said = " ".join(words[:2]) + (f" ({words[-1]})" if words[0] == "train" else "")
            print(f"| `{said}` | {other:.2f} s | {this:.2f} s | {this / other:.2f} |", flush=True)


if __name__ == "__main__":
    main()
