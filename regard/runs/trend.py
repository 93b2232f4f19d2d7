"""Where a training was going when it ended: it overfitted, or it was still falling."""

from __future__ import annotations

from collections.abc import Sequence

from regard.runs.best import Look, best_look
from regard.runs.figures import say_loss

TOO_MANY = 3  # evaluations without better weights
TOO_LONG = 0.25  # smallest share of the steps after the best one
CLEARLY_WORSE = 0.05  # smallest relative rise of the validation loss
STILL_FALLING = 0.005  # smallest relative fall of the validation loss, from one evaluation to the next
FEWEST = 4  # evaluations that tell anything


def has_overfitted(best: Look, last: Look, *, since: int, best_step: int, step: int) -> bool:
    """Did the validation loss rise for long, and clearly? since: evaluations after the best"""
    if since < TOO_MANY or step - best_step < TOO_LONG * step:
        return False
    then, now = float(best["loss"]), float(last["loss"])
    as_often_right = "accuracy" in best and last["accuracy"] >= best["accuracy"]
    return now - then >= CLEARLY_WORSE * abs(then) and not as_often_right


def is_still_falling(before: float, now: float) -> bool:
    """Was the last validation loss clearly lower than the one before?"""
    return before - now >= STILL_FALLING * abs(before)


def read_trend(looks: Sequence[Look], keep: str | None) -> str | None:
    """Advice in a sentence or two; None: there is none to give.   looks: evaluations, in order"""
    best = best_look(looks, keep)
    if best is None or len(looks) < FEWEST:
        return None
    last, since = looks[-1], len(looks) - 1 - list(looks).index(best)
    then, now = float(best["loss"]), float(last["loss"])
    if has_overfitted(best, last, since=since, best_step=best["step"], step=last["step"]):
        return (
            f"It overfitted after step {best['step']:,}: since then the validation loss rose from "
            f"{say_loss(then)} to {say_loss(now)}. The weights of step {best['step']:,} were kept. More data "
            f"or a smaller model would help; --train.patience {TOO_MANY} stops in time."
        )
    before = float(looks[-2]["loss"])
    if since == 0 and is_still_falling(before, now):
        return (
            "The last evaluation was the best, and the validation loss was still falling (from "
            f"{say_loss(before)} to {say_loss(now)}). More minutes will help: --train.minutes, or --train.steps."
        )
    return None
