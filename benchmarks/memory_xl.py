"""What a memory of earlier segments brings (Transformer-XL), by how far back the needed token lies.

    python benchmarks/memory_xl.py work/ [--text book.txt] [--steps 3000] [--made-steps 3000]

Two texts: one that is made (random phrases of 16 symbols, half of them copies of an earlier phrase, from 16 to 4,096
symbols back), and a real one. Decoders with a memory of 0, 128 and 512 tokens read the same number of segments of 128
tokens. Each is judged on the test split, in order, with several memories, up to four times that of training. The loss of
a character is counted under the distance to where it was needed from: in the made text that of the phrase that is
copied; in the real one that of the last time that the same eight characters came, the character itself the last of
them. Then one pass over five segments is compared with a memory of four.

Everything is kept in the folder that is given: a run that was broken off goes on, what is finished is not done again.
Writes results.md and memory_xl.png. A try in a minute: --steps 20 --made-steps 20 --characters 60000 --minimal.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

# threads that wait sleep: much faster beside other busy programs
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch
import torch.nn.functional as F
from alternate import keep, table, take_turns
from torch import Tensor

from regard.data import tokenizer as tokenizers
from regard.data.text_files import decode_text
from regard.files import write_json
from regard.recipes.base import problem_of_run
from regard.runs.run import Run
from regard.verbs import train

HERE = Path(__file__).parent
SEGMENT, BATCH = 128, 16
TRAINED = (0, 128, 512)  # memories in training
PHRASE, SYMBOLS = 16, 64
KNOWN = 4  # symbols of a copied phrase after which it can be recognised; only the rest is counted
EDGES = (0, 64, 128, 256, 512, 1024, 2048, 4096)  # distances, in tokens: bins between them
SAME = 8  # characters that came before, to say where a character of a real text was needed from
TEST = 0.05
COLOURS = ("#666666", "#D55E00", "#0072B2", "#009E73")


@dataclass(frozen=True)
class Task:
    """A text to learn, and where each of its characters was needed from."""

    name: str
    path: Path
    steps: int
    far: Callable[[str], np.ndarray]  # of each character the distance, −1: from nowhere


# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────


def make_text(length: int, seed: int = 0) -> tuple[str, np.ndarray]:
    """Random phrases, half of them copies; and the distance of each symbol that a copy tells, −1 elsewhere."""
    draw = np.random.default_rng(seed)
    text, far = np.zeros(length + PHRASE, dtype=np.int64), np.full(length + PHRASE, -1)
    for count in range(0, length, PHRASE):
        furthest = min(EDGES[-1], count) // PHRASE
        back = int(PHRASE * 2 ** draw.uniform(0, math.log2(max(furthest, 1))))
        here = slice(count, count + PHRASE)
        if furthest and draw.random() < 0.5:
            text[here] = text[count - back : count - back + PHRASE]
            far[count + KNOWN : count + PHRASE] = back
        else:
            text[here] = draw.integers(0, SYMBOLS, PHRASE)
    return "".join(chr(48 + i) for i in text[:length]), far[:length]


def last_time(text: str) -> np.ndarray:
    """How far back the same characters came, the last of them this one; −1: never."""
    seen: dict[str, int] = {}
    far = np.full(len(text), -1, dtype=np.int64)
    for end in range(SAME, len(text) + 1):
        same = text[end - SAME : end]
        if same in seen:
            far[end - 1] = end - seen[same]
        seen[same] = end
    return far


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────


def learn(task: Task, memory: int, work: Path, sizes: dict[str, Any]) -> Run:
    """A finished run: trained, resumed, or found."""
    out = work / f"{task.name}-{memory}"
    if (out / "config.json").exists():
        return train.train("text", out=out, resume=True, report=False)
    options = {
        "data.tokens": "characters",
        "data.context": SEGMENT,
        "data.test": TEST,
        "data.validation": TEST,
        "model.memory": memory,
        "train.batch": BATCH,
        "train.evaluate_every": max(1, task.steps // 4),
        "train.save_minutes": 1.0,
        **sizes,
    }
    return train.train(
        "text", data=task.path, model="decoder", out=out, steps=task.steps, options=options, report=False
    )


@torch.no_grad()
def losses_of(run: Run, ids: Tensor, first: int, memory: int, stretch: int) -> Tensor:
    """The loss of each token from `first` on, read in order in stretches with a memory."""
    model: Any = problem_of_run(run).load(run)
    count = len(ids) - first
    rows = max(1, count // stretch)
    width = count // rows // SEGMENT * SEGMENT
    starts = first + torch.arange(rows) * width
    places = starts[:, None] + torch.arange(width)
    memories, found = model.memories(memory), []
    for part in places.split(SEGMENT, 1):
        logits = model(ids[part - 1], caches=memories)
        found.append(F.cross_entropy(logits.transpose(1, 2).float(), ids[part], reduction="none"))
    whole = torch.full((len(ids),), math.nan)
    whole[places.flatten()] = torch.cat(found, 1).flatten()
    return whole


@torch.no_grad()
def one_pass(run: Run, ids: Tensor, first: int, segments: int) -> Tensor:
    """The loss of each token when it is in the last of so many segments that are read at once."""
    model: Any = problem_of_run(run).load(run)
    whole = torch.full((len(ids),), math.nan)
    ends = torch.arange(first + segments * SEGMENT, len(ids) + 1, SEGMENT)
    for some in ends.split(8):
        places = some[:, None] - segments * SEGMENT + torch.arange(segments * SEGMENT)
        logits = model(ids[places - 1])[:, -SEGMENT:]
        asked = places[:, -SEGMENT:]
        whole[asked.flatten()] = F.cross_entropy(logits.transpose(1, 2).float(), ids[asked], reduction="none").flatten()
    return whole


@torch.no_grad()
def pace(run: Run, ids: Tensor, first: int, segments: int = 4) -> dict[str, float]:
    """Milliseconds a token of one stream: with a memory of so many segments, and by a window that slides by one token
    and sees as much, for which every token is read again and again."""
    model: Any = problem_of_run(run).load(run)
    long = (segments + 1) * SEGMENT
    memories = model.memories(segments * SEGMENT)
    whole, count = ids[first : first + 2 * long][None], 8

    def read() -> None:
        memories.begin()
        model(whole[:, :SEGMENT], caches=memories)

    def slide() -> None:
        for place in range(count):
            model(whole[:, place : place + long])

    for _ in range(segments + 1):
        read()  # until the memory is full
    times = take_turns({"memory": read, "window": slide}, seconds=5)
    return {"memory": 1e3 * times["memory"] / SEGMENT, "window": 1e3 * times["window"] / count}


def by_distance(losses: Tensor, far: np.ndarray) -> dict[str, list[Any]]:
    """Bits, and how many tokens, in each bin of distances; then of those from nowhere, and of all."""
    bits, known = losses.numpy() / math.log(2), ~np.isnan(losses.numpy())
    bins = [known & (far > low) & (far <= high) for low, high in pairwise(EDGES)]
    each = [*bins, known & (far > EDGES[-1]), known & (far < 0), known]
    return {
        "bits": [float(bits[part].mean()) if part.any() else None for part in each],
        "count": [int(part.sum()) for part in each],
    }


def judge(task: Task, work: Path, sizes: dict[str, Any]) -> dict[str, Any]:
    """All that is measured of one text, kept as it comes."""
    kept = work / f"{task.name}.json"
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    text = task.path.read_text(encoding="utf-8")
    far = task.far(text)
    for memory in TRAINED:
        run = learn(task, memory, work, sizes)
        corpus = run.config.counts
        assert corpus is not None
        first = corpus["tokens"] - corpus["test"]
        tokenizer = tokenizers.load(run.verify("tokenizer.json"))
        ids = torch.from_numpy(np.asarray(tokenizer.encode(text)).astype(np.int64))
        stretch = 8 * 4 * max(TRAINED)  # the same for all, so that all are asked the same
        ways = {f"{memory}, {other}": other for other in dict.fromkeys((0, 128, 512, memory, 4 * memory))}
        for name, other in ways.items():
            if name not in found:
                found[name] = by_distance(losses_of(run, ids, first, other, stretch), far)
                write_json(kept, found)
                print(
                    f"{task.name}: trained {memory}, judged with {other}: {found[name]['bits'][-1]:.3f} bits",
                    flush=True,
                )
        name = f"{memory}, one pass of 5 segments"
        if memory == 4 * SEGMENT and name not in found:
            found[name] = by_distance(one_pass(run, ids, first, 5), far) | {"pace": pace(run, ids, first)}
            write_json(kept, found)
    return found


# ── report ──────────────────────────────────────────────────────────────────────────────────────────────────


def columns() -> list[str]:
    between = [f"{low + 1:,}–{high:,}" for low, high in pairwise(EDGES)]
    return [*between, f"> {EDGES[-1]:,}", "nowhere", "all"]


def report(found: dict[str, dict[str, Any]], arguments: argparse.Namespace) -> str:
    parts = [
        f"`python benchmarks/memory_xl.py work/ --steps {arguments.steps} --made-steps {arguments.made_steps}`: decoders that "
        f"read segments of {SEGMENT} tokens, {BATCH} streams; bits a token of the test split, by how far back it was needed "
        "from. *128, 512*: trained with a memory of 128, judged with one of 512."
    ]
    for name, measured in found.items():
        counts = next(iter(measured.values()))["count"]
        rows = [
            [way, *("–" if value is None else f"{value:.3f}" for value in each["bits"])]
            for way, each in measured.items()
        ]
        paces = [each["pace"] for each in measured.values() if "pace" in each]
        speed = [
            f"Milliseconds a token of one stream: {each['memory']:.2f} with a memory of 4 segments, {each['window']:.1f} by a "
            f"window of 5 that slides by one token, {each['window'] / each['memory']:.0f} × as long."
            for each in paces
        ]
        parts += [
            f"{name}:",
            table(["trained, judged", *columns()], [["tokens", *(f"{n:,}" for n in counts)], *rows]),
            *speed,
        ]
    return "\n\n".join(parts)


def draw(found: dict[str, dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(found), figsize=(5.5 * len(found), 4.4), layout="constrained", squeeze=False)
    for axis, (name, measured) in zip(axes[0], found.items(), strict=True):
        shown = [f"{memory}, {memory}" for memory in TRAINED] + [f"{TRAINED[-1]}, {4 * TRAINED[-1]}"]
        for way, colour in zip(shown, COLOURS, strict=True):
            bits = measured[way]["bits"][: len(EDGES) - 1]
            points = [(edge, value) for edge, value in zip(EDGES[1:], bits, strict=True) if value is not None]
            axis.plot(*zip(*points, strict=True), "o-", color=colour, label=way)
        axis.set(xscale="log", xlabel="tokens back, up to", title=name)
        axis.set_xticks(EDGES[1:], [f"{edge:,}" for edge in EDGES[1:]])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("bits a token")
    axes[0][0].legend(title="memory: trained, judged", frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="a folder for runs and figures; what is there is not done again")
    parser.add_argument("--text", type=Path, help="a real text (UTF-8); without it only the made one")
    parser.add_argument("--steps", type=int, default=3000, help="of each model, on the real text")
    parser.add_argument("--made-steps", type=int, default=3000, help="of each model, on the made text")
    parser.add_argument("--characters", type=int, default=4_000_000, help="of each text, at most")
    parser.add_argument("--minimal", action="store_true", help="tiny models, to try the script")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    sizes: dict[str, Any] = {"model.dim": 256, "model.depth": 4, "model.heads": 4, "model.ngrams": 1}
    if arguments.minimal:
        sizes |= {"model.dim": 32, "model.depth": 2, "model.heads": 2}
    made = arguments.work / "made.txt"
    symbols, far = make_text(arguments.characters)
    made.write_text(symbols, encoding="utf-8")
    tasks = [Task("copies", made, arguments.made_steps, lambda text: far)]
    if arguments.text is not None:
        real = arguments.work / "real.txt"
        # as the recipe reads it: universal newlines would shift the characters
        whole = decode_text(arguments.text.read_bytes(), str(arguments.text)).replace("\r\n", "\n")
        real.write_text(whole[: arguments.characters], encoding="utf-8")
        tasks.append(Task("real text", real, arguments.steps, last_time))
    found = {task.name: judge(task, arguments.work, sizes) for task in tasks}
    if not arguments.minimal:
        keep(HERE / "results.md", "Memory across segments", report(found, arguments))
        draw(found, HERE / "memory_xl.png")
    else:
        draw(found, arguments.work / "memory_xl.png")
    print(report(found, arguments))


if __name__ == "__main__":
    main()
