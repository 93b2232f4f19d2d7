"""The difference of two models that were asked the same examples, with a 95 % interval.

Both meet the same hard and easy examples, so that only the examples on which they differ tell anything: the
interval is much shorter than the two intervals of the models themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.recipes.intervals import RESAMPLES, bootstrap_interval, tango_interval
from regard.runs.evaluations import RISING
from regard.training.scores import Scores

SCORE = "Tango's score interval for paired proportions"
BOOTSTRAP = f"percentile interval of {RESAMPLES:,} paired bootstrap resamples"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One measure of a model minus that of another, on the same examples."""

    measure: str
    value: float
    low: float | None  # of the 95 % interval; None: there are too few examples
    high: float | None
    count: int  # examples
    targets: int  # of all of them: an example of a long text has many
    method: str  # how the interval was computed
    only: tuple[int, int] | None = None  # examples that only this one, or only the other, predicts correctly

    @property
    def better(self) -> bool | None:
        """Is this model better than the other? None: the interval has 0 in it."""
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return None
        return (self.value > 0) == (self.measure in RISING)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        found: dict[str, Any] = {"measure": self.measure, "difference": self.value}
        found |= {
            "low": self.low,
            "high": self.high,
            "count": self.count,
            "targets": self.targets,
            "method": self.method,
        }
        if self.only is not None:
            found["only"] = list(self.only)
        return found | {"better": self.better}


def differ(this: Scores, other: Scores, measure: str, seed: int = 0) -> Difference:
    """A measure of `this` minus that of `other`. Both are of the same examples, in the same order."""
    mine, theirs = (each.sums[measure].numpy() for each in (this, other))
    counts = this.counts.numpy()
    value = float(mine.sum() - theirs.sum()) / float(counts.sum())
    right, right_too = this.right(), other.right()
    if measure == "accuracy" and right is not None and right_too is not None:
        only = _discordant(right, right_too)
        low, high = tango_interval(*only, len(counts))
        known: dict[str, Any] = {"low": low, "high": high, "method": SCORE, "only": only}
    else:
        apart = mine - theirs
        ends = bootstrap_interval(lambda drawn: apart[drawn].sum(1) / counts[drawn].sum(1), len(apart), seed)
        known = {"low": ends and ends[0], "high": ends and ends[1], "method": BOOTSTRAP}
    return Difference(measure=measure, value=value, count=len(counts), targets=int(counts.sum()), **known)


def _discordant(this: Tensor, other: Tensor) -> tuple[int, int]:
    return int((this & ~other).sum()), int((~this & other).sum())
