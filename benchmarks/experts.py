"""Experts beside a dense MLP of the same active size: speed of a layer and of a training step, and loss on text.

    python benchmarks/experts.py speed                          half a minute
    python benchmarks/experts.py text enwik8.txt --steps 300    some ten minutes of one core; --minutes 3: equal time

A token passes 2 of 8 experts, each half as wide as the dense MLP, so both cost it the same products; the experts have four
times the parameters. Runs of `text` are kept in --out: what is finished is not trained again, and what was stopped goes on.
The row of translation is in benchmarks/translation.py (--only 'Multi30k transformer' 'Multi30k transformer, experts').
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from alternate import keep, table, take_turns
from torch import nn

import regard
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.experts import ExpertsMLP, PlainMLP
from regard.nn.mlp import MLP
from regard.nn.moe import Experts, count_active

RESULTS = Path(__file__).parent / "results.md"
TOKENS = 4096
WIDTHS = (128, 256, 512)
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CONTESTS: dict[str, dict[str, Any]] = {
    "dense": {},
    "experts, 2 of 8": {"model.mlp": "experts"},
    "experts, 1 of 8": {"model.mlp": "experts", "model.mlp.chosen": 1},
    "experts, 2 of 8, no balance": {"model.mlp": "experts", "model.mlp.balance": 0.0},
    "dense, 4 × as wide": {"model.mlp.hidden": 16 * 128},
}
# small enough for minutes of one core; runs of tokens would hide what the blocks learn
SMALL: dict[str, Any] = {
    "model.dim": 128,
    "model.depth": 4,
    "model.heads": 4,
    "model.ngrams": 1,
    "data.context": 128,
    "train.batch": 16,
}


# ── speed


def forward_and_back(layer: nn.Module, x: torch.Tensor, gradient: torch.Tensor) -> Callable[[], None]:
    def run() -> None:
        layer.zero_grad()
        layer(x).backward(gradient)

    return run


def step_of(mlp: PlainMLP | ExpertsMLP) -> Callable[[], None]:
    """A training step of a decoder without its optimiser, in bfloat16 where the processor has it."""
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(vocab=256, context=256, dim=256, depth=4, heads=4, mlp=mlp))
    tokens = torch.randint(256, (8, 256))

    def run() -> None:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(tokens)
        nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten()).backward()

    return run


def measure_speed(seconds: float) -> None:
    rows = []
    for width in WIDTHS:
        for name, dtype in TYPES.items():
            torch.manual_seed(0)
            dense, experts = MLP(width, activation="relu2", bias=False).to(dtype), Experts(width).to(dtype)
            x, gradient = torch.randn(2, 1, TOKENS, width, dtype=dtype).unbind()
            x.requires_grad_(True)
            work = {each: forward_and_back(layer, x, gradient) for each, layer in (("d", dense), ("e", experts))}
            found = take_turns(work, seconds=seconds)
            rows.append([f"layer of {width}, {name}", *_speeds(found, TOKENS)])
    found = take_turns({"d": step_of(PlainMLP()), "e": step_of(ExpertsMLP())}, seconds=2 * seconds)
    rows.append(["decoder of 256 × 4, bfloat16", *_speeds(found, 8 * 256)])
    text = table(["what", "dense, tokens/s", "experts, tokens/s", "experts / dense"], rows)
    print(text)
    command = f"`python benchmarks/experts.py speed` ({torch.get_num_threads()} threads)"
    keep(RESULTS, "Experts: speed", f"{command}: forward and backward, 2 of 8 experts, in turns.\n\n{text}")


def _speeds(found: dict[str, float], tokens: int) -> list[str]:
    return [f"{tokens / found['d']:,.0f}", f"{tokens / found['e']:,.0f}", f"{found['d'] / found['e']:.2f}"]


# ── text


def run_contest(name: str, seed: int, asked: argparse.Namespace) -> dict[str, Any]:
    """Train or go on; the figures of the run."""
    budget = f"{asked.steps} steps" if asked.minutes is None else f"{asked.minutes:g} minutes"
    out = asked.out / f"{name} {budget} {seed}".replace(",", "").replace(" ", "-")
    if out.exists():
        run = regard.train("text", resume=True, out=out, report=False)
    else:
        options = SMALL | CONTESTS[name] | {"train.seed": seed, "data.seed": 0}
        if asked.minutes is None:
            options["train.evaluate_every"] = max(1, asked.steps // 3)
        how = {"steps": asked.steps} if asked.minutes is None else {"minutes": asked.minutes}
        run = regard.train("text", data=asked.data, out=out, options=options, report=False, **how)
    events = list(run.metrics())
    evaluations = [event for event in events if event["event"] == "validation"]
    steps = [event for event in events if event["event"] == "step"]
    model = regard.load(run.path)
    return {
        "name": name,
        "budget": budget,
        "loss": min(each["loss"] for each in evaluations),
        "busiest": evaluations[-1].get("busiest expert"),
        "steps": steps[-1]["step"],
        "finished": run.config.steps is None or steps[-1]["step"] >= run.config.steps,
        "speed": statistics.median(
            later["tokens"] / max(later["seconds"] - before["seconds"], 1e-9)
            for before, later in itertools.pairwise(steps)
        ),
        "parameters": sum(p.numel() for p in model.parameters()),
        "active": count_active(model),
    }


def measure_text(asked: argparse.Namespace) -> None:
    asked.out.mkdir(parents=True, exist_ok=True)
    file = asked.out / "done.jsonl"
    done = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    budget = f"{asked.steps} steps" if asked.minutes is None else f"{asked.minutes:g} minutes"
    for seed in range(asked.seeds):
        for name in CONTESTS:
            if any((each["name"], each["seed"], each["budget"]) == (name, seed, budget) for each in done):
                continue
            if asked.only is not None and name not in asked.only:
                continue
            found = run_contest(name, seed, asked) | {"seed": seed}
            if not found["finished"]:
                print(f"{name} was stopped after {found['steps']} steps; the same command goes on")
                continue
            done.append(found)
            with file.open("a") as log:
                log.write(json.dumps(found) + "\n")
    rows = [
        _row(name, [each for each in done if each["name"] == name and each["budget"] == budget]) for name in CONTESTS
    ]
    text = table(
        ["model", "parameters", "a token passes", "validation loss", "steps", "tokens/s", "busiest expert", "seeds"],
        [row for row in rows if row],
    )
    print(text)
    said = f"--steps {asked.steps}" if asked.minutes is None else f"--minutes {asked.minutes:g}"
    command = f"`python benchmarks/experts.py text {Path(asked.data).name} {said} --seeds {asked.seeds}`"
    title = "equal active compute" if asked.minutes is None else "equal time"
    keep(
        RESULTS,
        f"Experts: loss on text at {title}",
        f"{command} ({torch.get_num_threads()} threads): characters, width 128, 4 blocks, context 128, batch 16; the lowest "
        f"validation loss in nats. Busiest expert: its share of the tokens, as a multiple of an equal share.\n\n{text}",
    )


def _row(name: str, mine: list[dict[str, Any]]) -> list[str]:
    if not mine:
        return []
    losses = [each["loss"] for each in mine]
    spread = f" ± {statistics.stdev(losses):.4f}" if len(losses) > 1 else ""
    busiest = [each["busiest"] for each in mine if each["busiest"] is not None]
    return [
        name,
        f"{mine[0]['parameters'] / 1e6:.2f} M",
        f"{mine[0]['active'] / 1e6:.2f} M",
        f"{statistics.mean(losses):.4f}{spread}",
        f"{statistics.mean(each['steps'] for each in mine):,.0f}",
        f"{statistics.mean(each['speed'] for each in mine):,.0f}",
        f"{statistics.mean(busiest):.2f}" if busiest else "–",
        str(len(mine)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    speed = parts.add_parser("speed")
    speed.add_argument("--seconds", type=float, default=3.0)
    text = parts.add_parser("text")
    text.add_argument("data", help="a text file")
    text.add_argument("--steps", type=int, default=300, help="the same for all: equal active compute")
    text.add_argument("--minutes", type=float, help="a budget in minutes; it replaces steps")
    text.add_argument("--seeds", type=int, default=1)
    text.add_argument("--only", nargs="+", help="names of models")
    text.add_argument("--out", type=Path, default=Path("runs/benchmark-experts"))
    asked = parser.parse_args()
    if asked.part == "speed":
        measure_speed(asked.seconds)
    else:
        measure_text(asked)


if __name__ == "__main__":
    main()
