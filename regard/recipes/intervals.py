"""95 % intervals: of a share, of the difference of two shares, and of anything else by drawing the examples again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from regard.data.array import Array

Z = 1.959963984540054  # of a 95 % interval of a normal distribution
RESAMPLES = 2_000  # of the bootstrap
AT_ONCE = 2**22  # numbers that are drawn at once
Interval = tuple[float, float]


def wilson_interval(k: int, n: int) -> Interval:
    """Of the share k / n (Wilson 1927). It stays in 0 … 1, and has a length even if k is 0 or n."""
    p = k / n
    middle = p + Z**2 / (2 * n)
    half = Z * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    whole = 1 + Z**2 / n
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)


def bootstrap_interval(statistic: Callable[[Array], Array], n: int, seed: int = 0) -> Interval | None:
    """Of a statistic of n examples, which are drawn with replacement; None: there are too few, or it has no value.

    statistic: rows of examples by their numbers -> a number of each row.   r n -> r
    """
    if n < 2:
        return None
    random = np.random.default_rng(seed)
    rows = max(1, AT_ONCE // n)
    found = []
    for start in range(0, RESAMPLES, rows):
        found.append(statistic(random.integers(0, n, (min(rows, RESAMPLES - start), n))))
    values = np.concatenate(found)
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def tango_interval(b: int, c: int, n: int) -> Interval:
    """Of (b − c) / n, where b and c of n pairs differ in one way or the other (Tango 1998).

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
