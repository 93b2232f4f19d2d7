"""Translation: BLEU after some minutes on Multi30k (English to German) and on JoeyNMT's reverse task.

    python benchmarks/translation.py --data multi30k [--out FOLDER] [--minutes 15] [--seeds 3] [--only lstm]

multi30k is a folder with train.en, train.de, val.en and val.de (gzip too). The weights are chosen by 1,000 pairs that are
held out of its training file; its validation file is translated once, at the end. Measures are sacrebleu's.
Runs are kept in --out: what is finished is not trained again, and what was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from alternate import keep, table

import regard
from regard.recipes.translation.pairs import Pair
from regard.recipes.translation.read_pairs import read_pairs

RESULTS = Path(__file__).parent / "results.md"
HELD_OUT = 1000  # pairs of the training file, by which the weights are chosen
REFERENCE = {
    "Multi30k": "41.02 (tokenised), 40.78 (13a): Transformer-Tiny, 177 epochs",
    "reverse": "95.19, greedy",
}


class Contest(NamedTuple):
    """One line of the table."""

    task: str
    name: str
    model: str
    options: dict[str, Any]
    beams: int


CONTESTS = (
    Contest("Multi30k", "transformer", "transformer", {}, 5),
    Contest("Multi30k", "lstm, general", "lstm", {}, 5),
    Contest("Multi30k", "lstm, additive", "lstm", {"model.score": "additive"}, 5),
    Contest("Multi30k", "lstm, no attention", "lstm", {"model.score": "none"}, 5),
    Contest("Multi30k", "gru, general", "gru", {}, 5),
    Contest("Multi30k", "conv", "conv", {}, 5),
    Contest("reverse", "lstm, general", "lstm", {}, 1),
    Contest("reverse", "lstm, no attention", "lstm", {"model.score": "none"}, 1),
    Contest("reverse", "transformer", "transformer", {}, 1),
)


def prepare(data: str, out: Path, most: int | None) -> tuple[str, str]:
    """A folder with train.jsonl and val.jsonl made of the training file, and a table of the validation file."""
    found = read_pairs(data, None, "en", "de")
    assert found.splits is not None
    train, test = ([found.pairs[i] for i in np.flatnonzero(found.splits == split)] for split in (0, 1))
    order = np.random.default_rng(0).permutation(len(train))
    held = HELD_OUT
    if most is not None:
        held = max(20, most // 5)
        order, test = order[: most + held], test[:held]
    folder = out / "pairs"
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "val.jsonl", [train[i] for i in order[:held]])
    write(folder / "train.jsonl", [train[i] for i in order[held:]])
    write(out / "validation-file.jsonl", test)
    return str(folder), str(out / "validation-file.jsonl")


def write(path: Path, pairs: list[Pair]) -> None:
    lines = [json.dumps({"source": pair.source, "target": pair.target}, ensure_ascii=False) for pair in pairs]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def run_contest(
    contest: Contest, seed: int, data: str, test: str | None, asked: argparse.Namespace
) -> dict[str, Any]:
    """Train or go on, then translate once."""
    name = f"{contest.task} {contest.name} {asked.minutes:g} {seed}".replace(",", "").replace(" ", "-")
    out = asked.out / name
    how: dict[str, Any] = {"out": out, "report": False, "model": contest.model}
    if out.exists():
        run = regard.train("translation", resume=True, **how)
    else:
        options = contest.options | {"train.seed": seed, "data.seed": 0}
        run = regard.train("translation", data=data, minutes=asked.minutes, options=options, **how)
    began = time.perf_counter()
    found = regard.evaluate(run.path, test, options={"beams": contest.beams})
    seconds = time.perf_counter() - began
    size = sum(parameter.numel() for parameter in regard.load(run.path).parameters())
    return {
        "key": name,
        "task": contest.task,
        "name": contest.name,
        "parameters": size,
        "seconds": seconds,
        "count": found.count,
        **{measure: found.measures.get(measure) for measure in ("BLEU", "BLEU lower-cased", "chrF", "exact")},
    }


def rows_of(done: list[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for contest in CONTESTS:
        mine = [each for each in done if (each["task"], each["name"]) == contest[:2]]
        if not mine:
            continue
        middle = {
            name: statistics.mean(each[name] for each in mine)
            for name in ("BLEU", "BLEU lower-cased", "chrF")
        }
        exact = statistics.mean(each["exact"] for each in mine)
        bleu = f"{middle['BLEU']:.2f}"
        if len(mine) > 1:
            bleu += f" ± {statistics.stdev(each['BLEU'] for each in mine):.2f}"
        cells = [f"{mine[0]['parameters'] / 1e6:.2f} M", bleu, f"{middle['BLEU lower-cased']:.2f}"]
        rows.append(
            [contest.task, contest.name, *cells, f"{middle['chrF']:.1f}", f"{exact:.1%}", str(len(mine))]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="the folder of Multi30k; without it only the reverse task")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark-translation"))
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--pairs", type=int, help="take only so many pairs of Multi30k, to try this out")
    parser.add_argument("--only", default="", help="lines whose task and name hold this")
    parser.add_argument("--keep", action="store_true", help="write the table to results.md")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    places = {"reverse": ("reverse", None)}
    if asked.data is not None:
        places["Multi30k"] = prepare(asked.data, asked.out, asked.pairs)
    file = asked.out / "done.jsonl"
    done = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for seed in range(asked.seeds):
        for contest in CONTESTS:
            name = f"{contest.task} {contest.name} {asked.minutes:g} {seed}".replace(",", "").replace(
                " ", "-"
            )
            if contest.task not in places or asked.only not in f"{contest.task} {contest.name}":
                continue
            if name not in {each["key"] for each in done}:
                done.append(run_contest(contest, seed, *places[contest.task], asked))
                with file.open("a") as log:
                    log.write(json.dumps(done[-1]) + "\n")
    headers = ["task", "model", "parameters", "BLEU", "lower-cased", "chrF", "exactly right", "seeds"]
    text = table(headers, rows_of([each for each in done if f"-{asked.minutes:g}-" in each["key"]]))
    said = "; ".join(f"{task}: {figure}" for task, figure in REFERENCE.items())
    machine = f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"
    print(f"{text}\n\npublished: {said}")
    if asked.keep:
        title = f"Translation: BLEU after {asked.minutes:g} minutes"
        command = f"`python benchmarks/translation.py --minutes {asked.minutes:g} --seeds {asked.seeds}` ({machine})"
        keep(RESULTS, title, f"{command}\n\n{text}\n\nPublished: {said}.")


if __name__ == "__main__":
    main()
