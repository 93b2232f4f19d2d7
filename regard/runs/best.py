"""Which evaluation of a run was the best, by the measure that decides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.runs.figures import say_measure

Look = Mapping[str, Any]  # the measures of an evaluation
RISING = frozenset({"accuracy"})  # measures of which more is better; of all others less is


def rank(measures: Look, by: str) -> tuple[float, float]:
    """The larger, the better: by this measure, and by the loss where it is equal."""
    value = float(measures[by])
    return (value if by in RISING else -value, -float(measures["loss"]))


def best_look(looks: Sequence[Look], by: str | None) -> Look | None:
    """The first of the best evaluations. by: the measure that decides; None: the loss"""
    if not looks:
        return None
    return max(looks, key=lambda look: rank(look, by or "loss"))


def say_best(look: Look, by: str | None) -> str:
    """The measure that decided, in words."""
    name = "accuracy" if by == "accuracy" else "loss"
    return say_measure(name, float(look[name]))
