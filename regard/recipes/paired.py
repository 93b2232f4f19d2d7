"""The difference of two models that were asked the same examples, with a 95 % interval.

Both meet the same hard and easy examples, so that only the examples on which they differ tell anything: the
interval is much shorter than the two intervals of the models themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from regard.runs.evaluations import RISING
from regard.training.scores import Scores

Z = 1.959963984540054  # of a 95 % interval of a normal distribution
RESAMPLES = 2_000  # of the bootstrap
AT_ONCE = 2**22  # numbers that are drawn at once
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
        low, high = score_interval(*only, len(counts))
        known: dict[str, Any] = {"low": low, "high": high, "method": SCORE, "only": only}
    else:
        ends = bootstrap_interval(mine - theirs, counts, seed)
        known = {"low": ends[0], "high": ends[1], "method": BOOTSTRAP}
    return Difference(measure=measure, value=value, count=len(counts), targets=int(counts.sum()), **known)


def _discordant(this: Tensor, other: Tensor) -> tuple[int, int]:
    return int((this & ~other).sum()), int((~this & other).sum())


def score_interval(b: int, c: int, n: int) -> tuple[float, float]:
    """95 % interval of (b − c) / n, where b and c of n pairs differ in one way or the other (Tango 1998).

    It has every difference d that a score test does not reject: (b − c − n d)² = z² n (2 q + d − d²), where q
    is the likeliest share of c if the difference is d. It stays in −1 … 1 and has a length even if b = c = 0.
    """

    def statistic(d: float) -> float:
        first = -b - c + (2 * n - b + c) * d
        second = -c * d * (1 - d)
        q = (math.sqrt(max(0.0, first**2 - 8 * n * second)) - first) / (4 * n)
        spread = n * max(0.0, 2 * q + d - d * d)
        apart = b - c - n * d
        if spread == 0:
            return math.copysign(math.inf, apart) if abs(apart) > 1e-12 * n else 0.0
        return apart / math.sqrt(spread)

    middle = (b - c) / n
    return _crossing(statistic, Z, -1.0, middle), _crossing(statistic, -Z, middle, 1.0)


def _crossing(statistic: Any, level: float, low: float, high: float) -> float:
    """Where a falling function crosses a level, by halving."""
    for _ in range(60):
        middle = (low + high) / 2
        if statistic(middle) > level:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def bootstrap_interval(
    apart: np.ndarray[Any, Any], counts: np.ndarray[Any, Any], seed: int = 0
) -> tuple[float | None, float | None]:
    """95 % interval of Σ apart / Σ counts, from examples drawn with replacement.   n, n"""
    n = len(apart)
    if n < 2:
        return None, None
    random = np.random.default_rng(seed)
    rows = max(1, AT_ONCE // n)
    found = []
    for start in range(0, RESAMPLES, rows):
        drawn = random.integers(0, n, (min(rows, RESAMPLES - start), n))
        found.append(apart[drawn].sum(1) / counts[drawn].sum(1))
    low, high = np.quantile(np.concatenate(found), [0.025, 0.975])
    return float(low), float(high)
