"""Correct models of all kinds: a checker that raises an alarm for one of them is wrong.

Each is a function that makes `(model, inputs, options of check)`, with the laws that must be seen to hold, so that a checker
which measures nothing cannot pass. Weights come from torch's random numbers: another seed is another model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Made = tuple[nn.Module, Any, dict[str, Any]]


@dataclass(frozen=True)
class Correct:
    """One correct model."""

    make: Callable[[], Made]
    holds: frozenset[str]  # laws that must be measured, and hold
    seldom: bool = False  # much like another one: for benchmarks/alarms.py, and too many for the tests

    def made(self, seed: int) -> Made:
        """The model and its inputs; the same for the same seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model, inputs, options = self.make()
        return model.eval(), inputs, options


Table = dict[str, Correct]
EVERY = "determinism precision"  # what every model keeps,
ROW = f"{EVERY} neighbours"  # with a batch,
TOKENS = f"{ROW} reach"  # with tokens


def adder(table: Table) -> Callable[..., Any]:
    """Puts a function into a table, under its own name or another, with the laws that must be seen to hold.

    What neighbours and padding do not change they must not change in training either, unless a batch norm mixes rows.
    """

    def add(
        holds: str, *, name: str | None = None, mixes: bool = False, seldom: bool = False, **options: Any
    ) -> Callable[[Callable[..., Made]], Callable[..., Made]]:
        laws = holds.split()
        trained = [] if mixes else [f"{law} in training" for law in laws if law in ("neighbours", "padding")]

        def put(make: Callable[..., Made]) -> Callable[..., Made]:
            key = name or make.__name__.replace("_", " ")
            assert key not in table, key
            table[key] = Correct(lambda: make(**options), frozenset(laws + trained), seldom)
            return make

        return put

    return add


def vectors(b: int = 3, n: int = 9, d: int = 16) -> Tensor:
    return torch.randn(b, n, d)


def ids(vocab: int, b: int = 3, n: int = 9, first: int = 4) -> Tensor:
    """Random tokens, none of them special in any library (padding, start, end come first in a vocabulary)."""
    return torch.randint(first, vocab, (b, n))


def everything() -> Table:
    """All of them. Other people's packages are imported when a model is made."""
    from tests.symmetry import (
        correct_geometric,
        correct_huggingface,
        correct_ours,
        correct_plain,
        correct_torch,
        correct_x_transformers,
    )

    parts = (correct_ours, correct_torch, correct_plain, correct_huggingface, correct_x_transformers, correct_geometric)
    return {f"{part.LIBRARY}: {name}": each for part in parts for name, each in part.TABLE.items()}
