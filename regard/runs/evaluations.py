"""The evaluations of a run: which was the best, by the measure that decides it, and where they were going at the end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any, Literal

from regard.errors import RegardError, did_you_mean
from regard.runs.number_format import say_loss, say_measure
from regard.runs.run import Run

Evaluation = Mapping[str, Any]  # the measures of an evaluation
# measures of which more is better; of all others less is
RISING = frozenset({"accuracy", "exact", "BLEU", "chrF", "R²", "elbo", "return"})
# of whole answers, such as translations: they say more than the share of right tokens, each after the right ones before
WHOLE = ("BLEU", "exact")
# in place of a measure: the last weights are kept, because evaluations of one run cannot be compared
LAST = "last"


def main_measure(measures: Iterable[str], keep: str | None, *, classes: bool) -> str:
    """The measure that says most, which is told first: of classes the share of right answers, of numbers errors in
    the units of the data, of whole answers BLEU or the share that is exact, otherwise what chose the weights. keep: the
    measure that chose them"""
    there = list(measures)
    whole = next((name for name in WHOLE if name in there), None)
    if whole is not None:
        return whole
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


# ── where a training was going when it ended: it overfitted, or its validation loss was still falling


FEWEST = 6  # evaluations that tell anything
FEW = 3  # evaluations in a row that are no chance
CLEARLY_WORSE = 0.05  # smallest relative rise of the validation loss
BEYOND_NOISE = 4  # smallest rise, in standard deviations of the noise
STILL_FALLING = 0.005  # smallest relative fall of the validation loss, from one evaluation to the next
LONGER = 3  # times the budget, where more will help

Events = Sequence[Mapping[str, Any]]
Trend = Literal["overfitted", "still falling"]


def advise(run: Run) -> str | None:
    """What the history of a run says about the next one, in a sentence or two; None: nothing that is sure."""
    events, keep, train = run.metrics(), run.config.keep, run.config.train or {}
    trend, evaluations = read_trend(events, keep), _evaluations(events, keep)
    if trend == "overfitted":
        best, last = best_evaluation(evaluations, keep), evaluations[-1]
        assert best is not None
        in_time = "" if train.get("patience") else f"; --train.patience {FEW} stops in time"
        return (
            f"It overfitted after step {best['step']:,}, whose weights were kept: since then the validation "
            f"loss rose from {say_loss(best['loss'])} to {say_loss(last['loss'])}, while the training loss "
            f"fell. More data or a smaller model would help{in_time}."
        )
    if trend == "still falling" and evaluations[-1]["step"] == run.config.steps:
        if train.get("steps") is None and train.get("minutes") is not None:
            option = f"--train.minutes {LONGER * train['minutes']:g}"
        else:
            option = f"--train.steps {LONGER * evaluations[-1]['step']}"
        return (
            f"The validation loss was still falling at the end (from {say_loss(evaluations[-2]['loss'])} to "
            f"{say_loss(evaluations[-1]['loss'])}): a longer training will help, the same command with {option}."
        )
    return None


def read_trend(events: Events, keep: str | None) -> Trend | None:
    """Where the evaluations were going; None: nowhere, or it cannot be told from so few, or such noisy ones.

    overfitted     the last evaluations are all clearly worse than the best, while the training loss fell
    still falling  each of the last evaluations was the best so far
    """
    evaluations = _evaluations(events, keep)
    if keep == LAST or len(evaluations) < FEWEST:  # of LAST evaluations cannot be compared
        return None
    if _overfitted(events, evaluations, keep):
        return "overfitted"
    if _still_falling(evaluations, keep):
        return "still falling"
    return None


def _evaluations(events: Events, keep: str | None) -> list[Evaluation]:
    """The evaluations whose measures are numbers, in order."""
    needed = {"loss"} if keep in (None, LAST) else {"loss", keep}
    found = [event for event in events if event["event"] == "validation"]
    return [each for each in found if all(_is_number(each.get(name)) for name in needed)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _overfitted(events: Events, evaluations: Sequence[Evaluation], keep: str | None) -> bool:
    best = best_evaluation(evaluations, keep)
    assert best is not None
    last = evaluations[-max(FEW, len(evaluations) // 4) :]
    clearly = max(CLEARLY_WORSE * abs(best["loss"]), BEYOND_NOISE * _noise([each["loss"] for each in evaluations]))
    if min(each["loss"] for each in last) - best["loss"] < clearly:
        return False
    if "accuracy" in best and max(each.get("accuracy", 0.0) for each in last) >= best["accuracy"]:
        return False
    return _training_loss_fell(events, best["step"], evaluations[-1]["step"])


def _noise(losses: Sequence[float]) -> float:
    """The standard deviation of what is no trend, by the median of second differences: of noise with standard
    deviation 1 these have √6, and half of them are smaller than 0.6745 times that."""
    bends = [abs(a - 2 * b + c) for a, b, c in zip(losses, losses[1:], losses[2:], strict=False)]
    return median(bends) / (0.6745 * math.sqrt(6))


def _training_loss_fell(events: Events, best: int, last: int) -> bool:
    """Was it lower in the last steps than in those before the best evaluation?"""
    some = max(1, min(best, last - best) // 2)
    losses = [(event["step"], event["loss"]) for event in events if event["event"] == "step"]
    then = [loss for step, loss in losses if best - some < step <= best]
    now = [loss for step, loss in losses if last - some < step <= last]
    return bool(then and now) and fmean(now) < fmean(then)


def _still_falling(evaluations: Sequence[Evaluation], keep: str | None) -> bool:
    losses = [each["loss"] for each in evaluations]
    each_was_lowest = all(losses[k] < min(losses[:k]) for k in range(len(losses) - FEW, len(losses)))
    fell = losses[-2] - losses[-1] >= STILL_FALLING * abs(losses[-2])
    return each_was_lowest and fell and best_evaluation(evaluations, keep) is evaluations[-1]
