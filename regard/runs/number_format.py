"""Figures in words, the same wherever they are written: in a terminal, in a file, and on a page, whose
web/scripts/02-numbers.js has the same rules. A half is rounded up, as browsers do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Context, Decimal

SMALLEST, LARGEST = 0.001, 100_000  # between these a number is written without a power of ten
SMALLEST_LOSS = 0.0001  # the same for a loss
HUGE = 1e15  # and more has no decimals that count
PERCENTS = frozenset({"accuracy", "balanced accuracy", "majority share", "exact"})  # measures that are shares
LOSSES = frozenset({"loss", "log loss"})


def say_percent(share: float) -> str:
    """87.6%: one decimal, and two if it is closer than 1 to 0 or to 100. Only 0 is 0%, and only 1 is 100%."""
    if not math.isfinite(share):
        return "–"
    hundred = 100 * share
    if share in (0, 1):
        return f"{hundred:.0f}%"
    if 0 < hundred < 0.01:
        return "<0.01%"
    if 99.99 < hundred < 100:
        return ">99.99%"
    if abs(hundred) < 1 or 99 < hundred < 100:
        return f"{_fixed(hundred, 2)}%"
    return f"{_fixed(hundred, 1)}%"


def say_number(x: float, digits: int = 4) -> str:
    """35.21: so many significant digits. Large whole numbers keep all of theirs; what is very small or very
    large has a power of ten, and one digit less."""
    if not math.isfinite(x):
        return "–" if math.isnan(x) else f"{'-' * (x < 0)}∞"
    if x == 0:
        return "0"
    size = abs(x)
    if SMALLEST <= size < max(LARGEST, 10**digits):
        text = _significant(size, digits)
    else:
        text = _power(size, digits - 1)
    return "-" * (x < 0) + text


def say_loss(loss: float) -> str:
    """1.8804: four decimals, or as many as show three digits of a small one."""
    if not abs(loss) < HUGE:
        return f"{loss:.4f}"
    if loss == 0 or abs(loss) >= 0.01:
        return _fixed(loss, 4)
    if abs(loss) >= SMALLEST_LOSS:
        return "-" * (loss < 0) + _significant(abs(loss), 3)
    return say_number(loss, 4)


def say_value(measure: str, value: float) -> str:
    """A measure without its name: 87.6% of an accuracy, 1.8804 of a loss, 1.204 of anything else."""
    if isinstance(value, int):
        return f"{value:,}"
    if measure in PERCENTS:
        return say_percent(value)
    if measure in LOSSES:
        return say_loss(value)
    return say_number(value)


def say_measure(measure: str, value: float, ends: tuple[float, float] | None = None) -> str:
    """accuracy 87.6%; with the ends of its interval, accuracy 87.6% (82.1% to 91.7%)"""
    said = f"{measure} {say_value(measure, value)}"
    if ends is None:
        return said
    return f"{said} ({' to '.join(say_value(measure, end) for end in ends)})"


def say_measures(measures: Mapping[str, float], loss: str = "loss ") -> str:
    """loss 0.2371  accuracy 87.6%. loss: what stands before a loss that comes first; nothing behind the word for its
    split"""
    said = [say_measure(name, value) for name, value in measures.items()]
    if next(iter(measures), None) == "loss":
        said[0] = f"{loss}{say_loss(measures['loss'])}"
    return "  ".join(said)


def say_time(seconds: float) -> str:
    """1:05, 1:00:05"""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def say_difference(measure: str, value: float) -> str:
    """+1.2 points of an accuracy, -0.0123 of a loss; with its sign."""
    if measure in PERCENTS:
        text = f"{_fixed(abs(100 * value), 2)} points"
    else:
        text = say_value(measure, abs(value))
    return f"{'-' if value < 0 else '+'}{text}"


def _significant(size: float, digits: int) -> str:
    """So many digits, without a power of ten."""
    rounded = Decimal(size).normalize(Context(prec=digits, rounding=ROUND_HALF_UP))
    return _fixed(size, max(0, digits - 1 - rounded.adjusted()))


def _fixed(x: float, decimals: int) -> str:
    """So many decimals, a half rounded up."""
    return str(Decimal(x).quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP))


def _power(x: float, digits: int) -> str:
    """1.2e-07"""
    rounded = Decimal(x).normalize(Context(prec=digits, rounding=ROUND_HALF_UP))
    power = rounded.adjusted()
    return f"{rounded.scaleb(-power):.{digits - 1}f}e{power:+03d}"
