"""Translation: BLEU after some minutes on Multi30k (English to German) and on JoeyNMT's reverse task.

    python benchmarks/translation.py --data multi30k [--out FOLDER] [--minutes 15] [--seeds 3] [--only reverse 'Multi30k conv']

Each line has the operations of its training (multiplications and additions of matrix products) and the time to
translate one sentence. Two transformers of different seeds, or with one seed a transformer and an LSTM, are also
judged together, as an ensemble. --steps instead of --minutes: then other work on the machine changes no BLEU.

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
from regard.models.cost import count_operations
from regard.recipes.translation.config import PairsConfig
from regard.recipes.translation.pairs import pair_of
from regard.recipes.translation.problem import Translate
from regard.recipes.translation.read_pairs import read_pairs
from regard.recipes.translation.search import SearchOptions, translate
from regard.runs.run import Run

RESULTS = Path(__file__).parent / "results.md"
HELD_OUT = 1000  # pairs of the training file, by which the weights are chosen
REFERENCE = {"Multi30k": "41.02 (tokenised), 40.78 (13a): Transformer-Tiny, 177 epochs", "reverse": "95.19, greedy"}
HEADERS = [
    *("task", "model", "parameters", "operations of the training", "BLEU", "lower-cased", "chrF"),
    *("exactly right", "one sentence", "seeds"),
]
# under half a million parameters
SMALL = {"model.dim": 64, "model.depth": 2, "data.vocabulary": 4000}
SENTENCE = "A man in a blue shirt is standing on a ladder cleaning a window."


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
    Contest("Multi30k", "transformer, small", "transformer", SMALL, 5),
    Contest("Multi30k", "transformer, experts", "transformer", {"model.mlp": "experts"}, 5),
    Contest("reverse", "lstm, general", "lstm", {}, 1),
    Contest("reverse", "lstm, no attention", "lstm", {"model.score": "none"}, 1),
    Contest("reverse", "transformer", "transformer", {}, 1),
)


def prepare(data: str, out: Path, most: int | None) -> tuple[str, str]:
    """A folder with train.jsonl and val.jsonl made of the training file, and a table of the validation file."""
    found = read_pairs(data, PairsConfig(path=data, source="en", target="de"), None)
    assert found.splits is not None
    train, test = ([pair_of(found, int(i)) for i in np.flatnonzero(found.splits == split)] for split in (0, 1))
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


def write(path: Path, pairs: list[tuple[str, str]]) -> None:
    lines = [json.dumps({"source": source, "target": target}, ensure_ascii=False) for source, target in pairs]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def run_contest(contest: Contest, seed: int, data: str, test: str | None, asked: argparse.Namespace) -> dict[str, Any]:
    """Train or go on, then translate once."""
    name = key_of(contest, seed, asked)
    out = asked.out / name
    how: dict[str, Any] = {"out": out, "report": False, "model": contest.model}
    if out.exists():
        run = regard.train("translation", resume=True, **how)
    else:
        options = contest.options | {"train.seed": seed, "data.seed": 0}
        if asked.steps is not None:
            how["steps"] = asked.steps
        else:
            how["minutes"] = asked.minutes
        run = regard.train("translation", data=data, options=options, **how)
    began = time.perf_counter()
    found = regard.evaluate(run.path, test, options={"beams": contest.beams})
    seconds = time.perf_counter() - began
    model = regard.load(run.path)
    size = sum(parameter.numel() for parameter in model.parameters())
    return {
        "key": name,
        "budget": budget_of(asked),
        "task": contest.task,
        "name": contest.name,
        "parameters": size,
        "seconds": seconds,
        "operations": count_training(model, run),
        "latency": time_sentence(run),
        **measures_of(found),
    }


def judge_ensemble(done: list[dict[str, Any]], test: str, asked: argparse.Namespace) -> dict[str, Any] | None:
    """Two transformers, or a transformer and an LSTM, translate together."""
    mine = [each for each in done if each["task"] == "Multi30k" and each["budget"] == budget_of(asked)]
    names = ("transformer", "lstm, general")
    runs = [each["key"] for name in names for each in mine if each["name"] == name][:2]
    if len(runs) < 2:
        return None
    other = str(asked.out / runs[1])
    found = regard.evaluate(asked.out / runs[0], test, options={"beams": 5, "ensemble": [other]})
    both = [each for each in mine if each["key"] in runs]
    return {
        "key": f"ensemble {' '.join(runs)}",
        "task": "Multi30k",
        "name": "ensemble of two",
        "budget": budget_of(asked),
        "parameters": sum(each["parameters"] for each in both),
        "operations": sum(each["operations"] for each in both),
        "latency": None,
        **measures_of(found),
    }


def measures_of(found: Any) -> dict[str, Any]:
    names = ("BLEU", "BLEU lower-cased", "chrF", "exact")
    return {"count": found.count, **{name: found.measures.get(name) for name in names}}


def count_training(model: Any, run: Run) -> float:
    """Multiplications and additions of the whole training: three times those of the forward."""
    tokens = sum(each["tokens"] for each in run.metrics() if each["event"] == "step")
    length = 16
    inputs = {name: torch.zeros(1, length, dtype=torch.long) for name in ("source", "target")}
    return 3.0 * count_operations(model, **inputs) / length * tokens


def time_sentence(run: Run) -> float:
    """Seconds to translate one sentence with five beams, the median of ten."""
    options = SearchOptions()
    processor = Translate().open(run)
    models = Translate().load_models(run, processor, options)
    source = processor.vocabulary.encode_source(SENTENCE)
    found = []
    for _ in range(11):
        began = time.perf_counter()
        translate(models, processor, [source], options)
        found.append(time.perf_counter() - began)
    return statistics.median(found[1:])


def is_asked(contest: Contest, only: list[str] | None) -> bool:
    return only is None or contest.task in only or f"{contest.task} {contest.name}" in only


def budget_of(asked: argparse.Namespace) -> str:
    if asked.steps is not None:
        return f"{asked.steps} steps"
    return f"{asked.minutes:g} minutes"


def key_of(contest: Contest, seed: int, asked: argparse.Namespace) -> str:
    return f"{contest.task} {contest.name} {budget_of(asked)} {seed}".replace(",", "").replace(" ", "-")


def rows_of(done: list[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for task, name in dict.fromkeys((each["task"], each["name"]) for each in done):
        mine = [each for each in done if (each["task"], each["name"]) == (task, name)]

        def mean(measure: str, mine: list[dict[str, Any]] = mine) -> float:
            return statistics.mean(each[measure] for each in mine)

        bleu = f"{mean('BLEU'):.2f}"
        if len(mine) > 1:
            bleu += f" ± {statistics.stdev(each['BLEU'] for each in mine):.2f}"
        rows.append(
            [
                task,
                name,
                f"{mine[0]['parameters'] / 1e6:.2f} M",
                f"{mean('operations'):.1e}",
                bleu,
                f"{mean('BLEU lower-cased'):.2f}",
                f"{mean('chrF'):.1f}",
                f"{mean('exact'):.1%}",
                "–" if mine[0]["latency"] is None else f"{1e3 * mean('latency'):.0f} ms",
                str(len(mine)),
            ]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="the folder of Multi30k; without it only the reverse task")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark-translation"))
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--steps", type=int, help="a budget in steps; it replaces minutes")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--pairs", type=int, help="take only so many pairs of Multi30k, to try this out")
    parser.add_argument("--only", nargs="+", help="tasks, or lines by task and name: 'Multi30k conv' reverse")
    parser.add_argument("--keep", action="store_true", help="write the table to results.md")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    places = {"reverse": ("reverse", None)}
    if asked.data is not None:
        places["Multi30k"] = prepare(asked.data, asked.out, asked.pairs)
    file = asked.out / "done.jsonl"
    done = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    known = {each["key"] for each in done}

    def add(found: dict[str, Any]) -> None:
        done.append(found)
        with file.open("a") as log:
            log.write(json.dumps(found) + "\n")

    for seed in range(asked.seeds):
        for contest in CONTESTS:
            if contest.task not in places or not is_asked(contest, asked.only):
                continue
            if key_of(contest, seed, asked) not in known:
                add(run_contest(contest, seed, *places[contest.task], asked))
    if "Multi30k" in places:
        together = judge_ensemble(done, str(places["Multi30k"][1]), asked)
        if together is not None and together["key"] not in known:
            add(together)
    shown = [each for each in done if each["budget"] == budget_of(asked)]
    text = table(HEADERS, rows_of(shown))
    said = "; ".join(f"{task}: {figure}" for task, figure in REFERENCE.items())
    machine = f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"
    print(f"{text}\n\npublished: {said}")
    if asked.keep:
        title = f"Translation: BLEU after {budget_of(asked)}"
        amount, unit = budget_of(asked).split()
        command = f"`python benchmarks/translation.py --{unit} {amount} --seeds {asked.seeds}` ({machine})"
        keep(RESULTS, title, f"{command}\n\n{text}\n\nPublished: {said}.")


if __name__ == "__main__":
    main()
