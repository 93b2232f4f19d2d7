"""What tokens cost and bring: how fast a text becomes ids, beside the package tokenizers, and which tokens chats should have.

    python benchmarks/text_tokens.py encode TEXT                    # 100 MB of it: seconds of the processor and of the clock
    python benchmarks/text_tokens.py chats PLAY [--minutes 1]      # a play: answer what was said before

PLAY has a name and a colon in a line, what is said below, and an empty line, as tiny Shakespeare has.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import tokenizers
from alternate import table

from regard.data.learn_tokenizer import TOKENIZERS, encode, learn_from_pieces
from regard.data.text_files import Piece, find, pieces, read
from regard.data.tokenizer import AT_ONCE, CHUNK, load
from regard.verbs.evaluate import evaluate
from regard.verbs.train import train

PIECE = 2 << 20
LEARNED = 10  # pieces that words and bpe are learned from
CHATS = {"characters": {}, "bytes": {}, **{f"bpe {size:,}": {"data.vocabulary": size} for size in (512, 1024, 8192)}}


# ── encode


class Nowhere:
    def write(self, data: bytes) -> int:
        return len(data)


def measure_encode(text: Path, workers: int) -> list[list[str]]:
    parts = pieces(find(str(text)), PIECE)
    rows = []
    for kind in TOKENIZERS:
        taught = parts if kind == "characters" else parts[:LEARNED]
        tokenizer = learn_from_pieces(kind, taught, 8192, quiet)
        package = tokenizers.Tokenizer.from_str(json.dumps(tokenizer.to_json()))
        work = {
            "regard": partial(encode, parts, tokenizer, Nowhere(), workers, quiet),
            "the package": partial(encode_by_package, parts, package),
        }
        for who, run in work.items():
            processor, clock = time.process_time(), time.perf_counter()
            run()
            processor, clock = time.process_time() - processor, time.perf_counter() - clock
            rows.append([kind, who, f"{processor:.1f}", f"{clock:.1f}"])
            print(*rows[-1], flush=True)
    return rows


def encode_by_package(parts: list[Piece], package: tokenizers.Tokenizer) -> None:
    """With all its threads."""
    for part in parts:
        said = read(part)
        chunks = [said[first : first + CHUNK] for first in range(0, len(said), CHUNK)]
        for first in range(0, len(chunks), AT_ONCE):
            for found in package.encode_batch_fast(chunks[first : first + AT_ONCE], add_special_tokens=False):
                np.array(found.ids)


def quiet(what: str, share: float | None) -> None:
    pass


# ── chats


def write_chats(play: Path, out: Path, most: int | None) -> None:
    """Each speech is an answer to the one before it."""
    speeches = [part.partition(":\n")[2].strip() for part in re.split(r"\n\n", play.read_text("utf-8"))]
    pairs = [{"prompt": asked, "answer": answer} for asked, answer in pairwise(speeches) if asked and answer]
    out.write_text("".join(json.dumps(pair) + "\n" for pair in pairs[:most]), "utf-8")


def measure_chats(play: Path, minutes: float, most: int | None) -> list[list[str]]:
    rows, characters = [], 0
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "chats.jsonl"
        write_chats(play, data, most)
        for name, options in CHATS.items():
            given = {"train.minutes": minutes, "data.tokens": name.partition(" ")[0], "train.threads": 1, **options}
            run = train("text", data=str(data), out=f"{folder}/{name}", options=given, report=False)
            found, steps = evaluate(run.path), run.metrics()[-1]["step"]
            characters = characters or found.count  # the first has a token for each
            loss = found.measures["loss"] * found.count / characters
            unseen = load(run.path).unknowns("Zoë")
            rows.append(
                [name, f"{found.count / characters:.2f}", f"{loss:.3f}", f"{steps:,}", ", ".join(unseen) or "nothing"]
            )
            print(*rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("encode", "chats"))
    parser.add_argument("text", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--most", type=int, help="answers")
    chosen = parser.parse_args()
    if chosen.what == "encode":
        rows = measure_encode(chosen.text, chosen.workers)
        said = table(["tokens", "who", "seconds of the processor", "of the clock"], rows)
    else:
        rows = measure_chats(chosen.text, chosen.minutes, chosen.most)
        said = table(["tokens", "for each character", "loss for each character", "steps", "unknown in Zoë"], rows)
    print(said)


if __name__ == "__main__":
    main()
