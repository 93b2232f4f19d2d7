"""Letters scrambled inside words: who can still read, a reader of characters, of pieces or of words?

    python benchmarks/letters.py train.csv test.csv [--steps 200]      a few minutes of one core; writes results.md

The tables have a text and a label. One classifier for each way to cut texts into tokens learns from texts as they are, and one
from texts whose words are scrambled as well. Each is judged on the test texts as they are, with the inner letters of each word
in a random order (the first and the last stay), with all letters in a random order, and with words in a random order.
Bags of n-grams are off: tokens and attention alone decide. Runs are kept in --out: what is finished is not trained again.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from alternate import keep, table

import regard

RESULTS = Path(__file__).parent / "results.md"
TOKENS = {"characters": "bytes", "pieces": "bpe", "words": "words"}
WORD = re.compile(r"[^\W\d_]+")


def scramble_inside(word: str, draw: random.Random) -> str:
    """The first and the last letter stay. A word of four letters or more changes, unless its inner ones are alike."""
    inner = list(word[1:-1])
    if len(set(inner)) < 2:
        return word
    while "".join(inner) == word[1:-1]:
        draw.shuffle(inner)
    return word[0] + "".join(inner) + word[-1]


def scramble_all(word: str, draw: random.Random) -> str:
    letters = list(word)
    draw.shuffle(letters)
    return "".join(letters)


def each_word(change: Callable[[str, random.Random], str]) -> Callable[[str, random.Random], str]:
    def changed(text: str, draw: random.Random) -> str:
        return WORD.sub(lambda found: change(found.group(), draw), text)

    return changed


def shuffle_words(text: str, draw: random.Random) -> str:
    words = text.split()
    draw.shuffle(words)
    return " ".join(words)


CHANGES: dict[str, Callable[[str, random.Random], str]] = {
    "as it is": lambda text, draw: text,
    "letters inside words": each_word(scramble_inside),
    "all letters of words": each_word(scramble_all),
    "order of words": shuffle_words,
}


def read_table(path: str) -> list[tuple[str, str]]:
    """Text and label of each row: the longest column, and the other one."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if len(row) == 2]
    _header, *rows = rows
    lengths = [sum(len(row[i]) for row in rows) for i in range(2)]
    text = lengths.index(max(lengths))
    return [(row[text], row[1 - text]) for row in rows]


def write_table(path: Path, rows: list[tuple[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])


def change_table(rows: list[tuple[str, str]], name: str, seed: int = 0) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    return [(CHANGES[name](text, draw), label) for text, label in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", help="a table of texts and labels")
    parser.add_argument("test", help="another one, on which all are judged")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark-letters"))
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        known, test = read_table(asked.train), read_table(asked.test)
        tests = {}
        for number, name in enumerate(CHANGES):
            tests[name] = str(folder / f"test-{number}.csv")
            write_table(Path(tests[name]), change_table(test, name))
        plain, both = folder / "plain.csv", folder / "both.csv"
        write_table(plain, known)
        write_table(both, known + change_table(known, "letters inside words", seed=1))
        for taught, path in (("as they are", plain), ("as they are, and scrambled inside", both)):
            for name, tokens in TOKENS.items():
                out = asked.out / f"{name} {path.stem} {asked.steps}".replace(" ", "-")
                if not (out / "model.safetensors").exists():
                    options = {"data.tokens": tokens, "model.bag": False, "train.steps": asked.steps, "train.seed": 0}
                    options |= {"data.context": 192 if name == "characters" else 64}
                    regard.train("text", data=str(path), out=out, options=options, report=False)
                found = [regard.evaluate(out, test).measures["accuracy"] for test in tests.values()]
                rows.append([taught, name, *(f"{accuracy:.1%}" for accuracy in found)])
                print(*rows[-1], flush=True)
    text = table(["taught with texts", "reads", *CHANGES], rows)
    print(text)
    files = f"{Path(asked.train).name} {Path(asked.test).name}"
    command = f"`python benchmarks/letters.py {files} --steps {asked.steps}`"
    said = (
        f"{command}: accuracy on {len(test):,} test texts of {len({label for _, label in test})} classes, {len(known):,} texts "
        "to learn from, an encoder without a bag of n-grams. One seed."
    )
    keep(RESULTS, "Letters scrambled inside words", f"{said}\n\n{text}")


if __name__ == "__main__":
    main()
