"""Does a large text train in little memory? Makes a text of 1 GB, trains five steps on it with each kind of tokens, and adds
up the anonymous memory (RssAnon) of the command and all its children ten times a second. Linux only; a few minutes each.

python benchmarks/memory.py                       lines of Python's standard library, mixed; writes results.md
python benchmarks/memory.py TEXT --size 1GB       and lines of a text of your own
python benchmarks/memory.py --size 50MB           a smaller one; writes nothing
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from alternate import keep, table

LIMIT = 1.5e9  # bytes
STEPS = [
    "--train.steps",
    "5",
    "--train.evaluate-every",
    "5",
]  # one look at the validation split, which is 27 MB of text
EVERY = 0.1  # seconds between two samples
NEW = 0.2  # share of lines that get a word that was never there before: real texts never stop having new ones
KINDS = {"auto": "bpe (the default)", "characters": "characters", "words": "words"}
# lines that say what is being done
STAGE = re.compile(r"^(reading|looking|learning|encoding|step)\b", re.MULTILINE)
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9}


# ── the text ────────────────────────────────────────────────────────────────────────────────────────────────


def make(path: Path, size: int, text: Path | None) -> None:
    """Lines of Python's library and of a text, shuffled again and again until there are `size` bytes of them."""
    root = Path(sysconfig.get_path("stdlib"))
    sources = sorted(each for each in root.glob("**/*.py") if "site-packages" not in each.relative_to(root).parts)
    lines = [line for each in [*sources, *([] if text is None else [text])] for line in lines_of(each)]
    words = sorted({word for line in lines for word in re.findall(r"[a-z]{4,}", line)})
    draw = random.Random(0)
    left = size
    with open(path, "wb") as out:
        while left > 0:
            draw.shuffle(lines)
            data = "".join(with_new_words(lines, words, draw)).encode()
            end = len(data) if len(data) <= left else data.rindex(b"\n", 0, max(left, 1000)) + 1
            out.write(data[:end])
            left -= len(data)


def lines_of(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").replace("\0", "").splitlines(keepends=True)
    except UnicodeDecodeError:
        return []


def with_new_words(lines: list[str], words: list[str], draw: random.Random) -> Iterator[str]:
    """Some lines begin with a blend of two words: the first half of one and the second half of another."""
    for line in lines:
        if draw.random() < NEW:
            one, other = draw.choice(words), draw.choice(words)
            line = f"{one[: len(one) // 2]}{other[len(other) // 2 :]} {line}"
        yield line


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────


class Seen(NamedTuple):
    peak: float  # bytes of all processes together, at the worst moment
    parent: float  # of them in the command itself
    processes: int
    doing: str  # what the command said last


def watched(command: list[str], log: Path, environment: dict[str, str]) -> Seen:
    """Run a command to its end and sample its memory."""
    seen = Seen(0, 0, 0, "")
    with open(log, "wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        while process.poll() is None:
            sizes = anonymous(process.pid)
            if sum(sizes.values()) > seen.peak:
                said = STAGE.findall(log.read_text("utf-8", "replace")) or ["reading"]
                seen = Seen(
                    sum(sizes.values()), sizes.get(process.pid, 0), len(sizes), said[-1].replace("step", "training")
                )
            time.sleep(EVERY)
    finally:
        process.kill()
    if process.returncode:
        sys.exit(
            f"{' '.join(command)} ended with code {process.returncode}: {log.read_text('utf-8', 'replace')[-500:]}"
        )
    return seen


def anonymous(root: int) -> dict[int, float]:
    """Bytes of RssAnon of a process and all below it, by process id."""
    found, waiting = {}, [root]
    while waiting:
        folder = Path("/proc", str(number := waiting.pop()))
        with suppress(OSError):  # it may have ended meanwhile
            status = (folder / "status").read_text().partition("RssAnon:")[2]
            found[number] = 1024.0 * int((status or "0").split()[0])
            waiting += [int(each) for task in folder.glob("task/*/children") for each in task.read_text().split()]
    return found


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, nargs="?", metavar="TEXT")
    parser.add_argument("--size", type=size_of, default="1GB")
    parser.add_argument(
        "--folder", help="where the large files go for a while; the system's temporary folder if not given"
    )
    options = parser.parse_args()
    rows, over = [], False
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        make(folder / "text.txt", options.size, options.text)
        for kind, said in KINDS.items():
            words = [sys.executable, "-m", "regard", "train", "text", "--data", str(folder / "text.txt"), *STEPS]
            words += ["--out", str(folder / kind), *(["--data.tokens", kind] if kind != "auto" else [])]
            seen = watched(words, folder / f"{kind}.log", os.environ | {"REGARD_CACHE": str(folder / "cache")})
            over = over or seen.peak > LIMIT
            rows.append(
                [
                    said,
                    f"{seen.peak / 1e6:,.0f} MB",
                    f"{seen.parent / 1e6:,.0f} MB",
                    str(seen.processes),
                    seen.doing,
                    "no" if seen.peak > LIMIT else "yes",
                ]
            )
            print(" | ".join(rows[-1]), flush=True)
        size = (folder / "text.txt").stat().st_size
    heads = ["tokens", "peak of RssAnon", "in the command itself", "processes", "it said last", "under 1.5 GB"]
    text = "\n\n".join(
        [
            f"`python benchmarks/memory.py{' TEXT' if options.text else ''}`: `regard train text --data text.txt "
            f"{' '.join(STEPS)}` on {size / 1e6:,.0f} MB of text, {os.cpu_count()} processors. "
            f"Sampled every {EVERY} s, all children included.",
            table(heads, rows),
        ]
    )
    print(text)
    if options.size >= 10**9:
        keep(Path(__file__).parent / "results.md", "Memory of a large text", text)
    sys.exit(1 if over else 0)


def size_of(text: str) -> int:
    found = re.fullmatch(r"([0-9.]+) ?([KMG]B)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"a size is a number and KB, MB or GB, such as 1GB, got {text!r}")
    return int(float(found[1]) * UNITS[found[2]])


if __name__ == "__main__":
    main()
