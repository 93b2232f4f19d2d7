"""The five memories of regard/nn/memory.py, trained: whom their gates attend to, and what they remember of the first token.

    python benchmarks/memories.py gates       half a minute of one core
    python benchmarks/memories.py recall      two minutes of one core

A token is a random vector for its symbol plus a mark, if it has one. A memory sums up the sequence in one vector, and a small
network reads the answer from it. Nothing but the memory can tell tokens apart: there is no layer before it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from alternate import keep, table
from torch import Tensor, nn

from regard.nn.memory import Composite, Fading, Forgetting, Gated, Memory, Softmax

RESULTS = Path(__file__).parent / "results.md"
SYMBOLS, INPUTS, DIM, ROWS, JUDGED = 16, 32, 64, 128, 2000
MEMORIES: dict[str, Callable[[], Memory]] = {
    "composite": lambda: Composite(INPUTS, DIM),
    "fading, γ learned": lambda: Fading(INPUTS, DIM, gamma=0.99, learned=True),
    "forgetting": lambda: Forgetting(INPUTS, DIM),
    "gated (sigmoid)": lambda: Gated(INPUTS, DIM),
    "softmax": lambda: Softmax(INPUTS, DIM),
}
LENGTHS = (2, 4, 8, 16, 32, 64, 128)
TASKS = ("which symbol is marked", "how many are marked", "which symbols occur")
SHORTEST, LENGTH, MOST = 8, 24, 8  # tokens of the tasks about gates, and marked ones at most


class Reader(nn.Module):
    """memory, then relu, then logits.   tokens b n inputs -> b classes"""

    def __init__(self, memory: Memory, classes: int) -> None:
        super().__init__()
        self.memory = memory
        self.head = nn.Sequential(nn.Linear(DIM, 256), nn.ReLU(), nn.Linear(256, classes))

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        return self.head(self.memory(x, real))


class Asked(NamedTuple):
    """A batch."""

    x: Tensor  # b n inputs
    answer: Tensor  # b classes, or b numbers of classes
    matters: Tensor  # bool b n: the answer depends on these tokens
    real: Tensor | None = None  # bool b n, False for padding


class World:
    """Vectors of symbols and of the mark, the same in all tasks."""

    def __init__(self, seed: int = 0) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.table = F.normalize(torch.randn(SYMBOLS, INPUTS, generator=draw), dim=-1) * 2
        self.mark = F.normalize(torch.randn(INPUTS, generator=draw), dim=-1) * 2

    def tokens(self, symbols: Tensor, marked: Tensor) -> Tensor:
        """b n, bool b n -> b n inputs"""
        return self.table[symbols] + marked[..., None] * self.mark

    def recall(self, rows: int, length: int, draw: torch.Generator) -> Asked:
        """The first token has the mark, and its symbol is asked for."""
        symbols = torch.randint(SYMBOLS, (rows, length), generator=draw)
        marked = torch.zeros(rows, length, dtype=torch.bool)
        marked[:, 0] = True
        return Asked(self.tokens(symbols, marked), symbols[:, 0], marked)

    def task(self, name: str, rows: int, draw: torch.Generator) -> Asked:
        """Sequences of different lengths: tokens, answer, and which tokens it depends on."""
        lengths = torch.randint(SHORTEST, LENGTH + 1, (rows, 1), generator=draw)
        real = torch.arange(LENGTH) < lengths
        symbols = torch.randint(SYMBOLS, (rows, LENGTH), generator=draw)
        drawn = torch.rand(rows, LENGTH, generator=draw).masked_fill(~real, 2)
        rank = drawn.argsort(1).argsort(1)
        if name == "which symbol is marked":
            marked = rank < 1
            return Asked(self.tokens(symbols, marked), symbols[marked], marked, real)
        if name == "how many are marked":
            count = torch.randint(MOST, (rows,), generator=draw)
            marked = rank < count[:, None]
            return Asked(self.tokens(symbols, marked), count, marked, real)
        few = torch.randint(SYMBOLS, (rows, LENGTH // 4), generator=draw)  # so that not every symbol occurs
        symbols = few.gather(1, torch.randint(LENGTH // 4, (rows, LENGTH), generator=draw))
        present = (F.one_hot(symbols, SYMBOLS) * real[..., None]).amax(1).float()
        return Asked(self.tokens(symbols, torch.zeros_like(real)), present, real, real)


def loss_of(logits: Tensor, answer: Tensor) -> Tensor:
    if answer.is_floating_point():
        return F.binary_cross_entropy_with_logits(logits, answer)
    return F.cross_entropy(logits, answer)


def accuracy_of(logits: Tensor, answer: Tensor) -> float:
    if answer.is_floating_point():
        return float(((logits > 0) == (answer > 0.5)).float().mean())
    return float((logits.argmax(-1) == answer).float().mean())


def learn(model: Reader, make: Callable[[int, torch.Generator], Asked], steps: int, seed: int) -> None:
    """Adam, with a rate that falls to 0."""
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    draw = torch.Generator().manual_seed(1000 + seed)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 3e-3 * min(1.0, 2 * (steps - step) / steps)
        asked = make(ROWS, draw)
        optimiser.zero_grad()
        loss_of(model(asked.x, asked.real), asked.answer).backward()
        optimiser.step()


def train_gates(steps: int, seed: int) -> str:
    """Gates of sigmoid and softmax memories after each task."""
    world, rows = World(), []
    for task in TASKS:
        for name in ("gated (sigmoid)", "softmax"):

            def make(count: int, draw: torch.Generator, task: str = task) -> Asked:
                return world.task(task, count, draw)

            torch.manual_seed(seed)
            model = Reader(MEMORIES[name](), MOST if "many" in task else SYMBOLS)
            learn(model, make, steps, seed)
            with torch.no_grad():
                x, answer, matters, real = make(JUDGED, torch.Generator().manual_seed(7))
                assert real is not None
                weights = model.memory.weights(x, real)  # b n
                right = accuracy_of(model(x, real), answer)
            total, idle = weights.sum(1), real & ~matters
            share = weights / total[:, None].clamp(min=1e-9)
            reached = torch.exp(-(share * share.clamp(min=1e-30).log()).sum(1)).mean()
            others = weights[idle].mean() if idle.any() else torch.tensor(math.nan)
            rows.append(
                [
                    *(task, name, f"{right:.1%}", _number(weights[matters].mean()), _number(others)),
                    *(f"{total.mean():.2f}", f"{reached:.1f} of {real.sum(1).float().mean():.1f}"),
                ]
            )
    headers = ["task", "memory", "right", "weight of a token that matters", "of one that does not"]
    return table([*headers, "sum of the weights", "tokens that are attended to"], rows)


def _number(x: Tensor) -> str:
    return "–" if bool(x.isnan()) else f"{float(x):.3f}"


def train_recall(steps: int, seed: int) -> str:
    """The share of first tokens that are recalled, by length."""
    world, rows = World(), []
    for name, made in MEMORIES.items():
        row = []
        for length in LENGTHS:

            def make(count: int, draw: torch.Generator, length: int = length) -> Asked:
                return world.recall(count, length, draw)

            torch.manual_seed(seed)
            model = Reader(made(), SYMBOLS)
            learn(model, make, steps, seed)
            with torch.no_grad():
                asked = make(JUDGED, torch.Generator().manual_seed(7))
                row.append(f"{accuracy_of(model(asked.x), asked.answer):.1%}")
        rows.append([name, *row])
        print(" ".join(rows[-1]), flush=True)
    rows.append(["the best that counts of symbols allow", *(f"{_by_counts(length):.1%}" for length in LENGTHS)])
    return table(["memory", *(f"{length} tokens" for length in LENGTHS)], rows)


def _by_counts(length: int) -> float:
    """Whoever knows only how often each symbol occurs guesses the most frequent: E max count / length."""
    draw = torch.Generator().manual_seed(0)
    symbols = torch.randint(SYMBOLS, (20_000, length), generator=draw)
    return float(F.one_hot(symbols, SYMBOLS).sum(1).amax(1).float().mean() / length)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["gates", "recall"])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    command = f"`python benchmarks/memories.py {asked.part} --steps {asked.steps}`"
    if asked.part == "gates":
        text = train_gates(asked.steps, asked.seed)
        title = "Memories: do gates attend to everyone?"
        said = (
            f"{command}: {SHORTEST} to {LENGTH} tokens of {SYMBOLS} symbols, one seed. Tokens that "
            "are attended to: the exponential of the entropy of the weights, divided by their sum."
        )
    else:
        text = train_recall(asked.steps, asked.seed)
        title = "Memories: recall of the first token"
        said = (
            f"{command}: {SYMBOLS} symbols; the first token has a mark, and its symbol is asked for. Each memory is trained "
            f"anew for each length; chance is {1 / SYMBOLS:.1%}."
        )
    print(text)
    keep(RESULTS, title, f"{said}\n\n{text}")


if __name__ == "__main__":
    main()
