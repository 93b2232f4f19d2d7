"""Which evaluation of a run was the best, by the measure that decides it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regard.errors import RegardError, did_you_mean
from regard.runs.number_format import say_measure

Evaluation = Mapping[str, Any]  # the measures of an evaluation
# measures of which more is better; of all others less is
RISING = frozenset({"accuracy", "balanced accuracy", "exact", "BLEU", "chrF", "R²", "elbo", "return"})
# in place of a measure: the last weights are kept, because evaluations of one run cannot be compared
LAST = "last"


def main_measure(measures: Iterable[str], keep: str | None, *, classes: bool) -> str:
    """The measure that says most, which is told first: of classes the share of right answers, of numbers errors in
    the units of the data, otherwise what chose the weights. keep: the measure that chose them"""
    there = list(measures)
    if classes and "accuracy" in there:
        return "accuracy"
    errors = [name for name in there if name.startswith("MAE")]
    if errors:
        return errors[0]
    if keep is not None and keep in there:
        return keep
    return "loss"


def find_measure(keep: str, task: Any) -> str:
    """The measure that --train.keep means, in capitals or not; auto: the one that the task is best judged by."""
    if keep == "auto":
        usual: str = getattr(task, "best_by", "loss")
        return usual
    known: tuple[str, ...] | None = getattr(task, "measures", None)
    if known is None:  # its first evaluation will show
        return keep
    by_word = {name.lower(): name for name in known}
    if keep.lower() in by_word:
        return by_word[keep.lower()]
    words = ("auto", *by_word)
    raise RegardError(
        f"weights cannot be kept by {keep!r}; {did_you_mean(keep.lower(), words)}known here: {', '.join(words)}"
    )


def rank(measures: Evaluation, by: str) -> tuple[float, float]:
    """The larger, the better: by this measure, and by the loss where it is equal."""
    value = float(measures[by])
    return (value if by in RISING else -value, -float(measures["loss"]))


def best_evaluation(evaluations: Sequence[Evaluation], by: str | None) -> Evaluation | None:
    """The first of the best evaluations. by: the measure that decides; None: the loss"""
    if not evaluations:
        return None
    if by == LAST:
        return evaluations[-1]
    return max(evaluations, key=lambda each: rank(each, by or "loss"))


def say_best(evaluation: Evaluation, by: str | None) -> str:
    """The measure that decided, in words."""
    name = "loss" if by is None or by not in evaluation else by
    return say_measure(name, float(evaluation[name]))
