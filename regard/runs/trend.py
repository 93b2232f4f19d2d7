"""Where a training was going when it ended: it overfitted, or it was still improving."""

from __future__ import annotations

from collections.abc import Sequence

from regard.runs.best import Look, best_look
from regard.runs.figures import say_loss, say_percent

TOO_MANY = 3  # evaluations without better weights
TOO_LONG = 0.25  # smallest share of the steps after the best one
CLEARLY_WORSE = 0.05  # smallest relative rise of the validation loss
CLEARLY_BETTER = 0.03  # smallest relative fall in the last fifth of the steps
FEWEST = 4  # evaluations that tell anything


def read_trend(looks: Sequence[Look], keep: str | None) -> str | None:
    """Advice in a sentence or two; None: there is none to give.   looks: evaluations, in order"""
    best = best_look(looks, keep)
    if best is None or len(looks) < FEWEST:
        return None
    last, after = looks[-1], len(looks) - 1 - list(looks).index(best)
    then, now = float(best["loss"]), float(last["loss"])
    late = last["step"] - best["step"] >= TOO_LONG * last["step"]
    as_often_right = "accuracy" in best and last["accuracy"] >= best["accuracy"]
    if after >= TOO_MANY and late and now - then >= CLEARLY_WORSE * abs(then) and not as_often_right:
        return (
            f"It overfitted after step {best['step']:,}: since then the validation loss rose from "
            f"{say_loss(then)} to {say_loss(now)}. The weights of step {best['step']:,} were kept. More data "
            f"or a smaller model would help; --train.patience {TOO_MANY} stops in time."
        )
    earlier = [look for look in looks if look["step"] <= 0.8 * last["step"]]
    if after == 0 and earlier:
        fall = (float(earlier[-1]["loss"]) - now) / max(abs(float(earlier[-1]["loss"])), 1e-12)
        more_right = "accuracy" not in last or last["accuracy"] > earlier[-1]["accuracy"]
        if fall >= CLEARLY_BETTER and more_right:
            return (
                f"It was still improving: the validation loss fell by {say_percent(fall)} in the last fifth "
                "of the steps. A longer training may help: --train.minutes, or --train.steps."
            )
    return None
