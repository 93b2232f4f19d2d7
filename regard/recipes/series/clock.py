"""Times of a series: numbers or dates become steps, and steps become dates again.

Months have 28 to 31 days, but are equal steps: dates on the same day of each month, or on its last day, are
counted in months.
"""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError

YEAR_MONTH = re.compile(r"^(\d{4})-(\d{1,2})$")
QUARTER = re.compile(r"^(\d{4})[- ]?[Qq]([1-4])$")
DIGITS = re.compile(r"^(1[6-9]|20|21)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$")  # 19580329
NEARLY = 1e-3  # of a step: what counts as equal
DAY, HOUR, MINUTE = 86_400.0, 3_600.0, 60.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WORDS = {DAY: "day", 7 * DAY: "week", HOUR: "hour", MINUTE: "minute", 1.0: "second"}


@dataclass(frozen=True, kw_only=True)
class Clock:
    """What one step is, and how a time is written."""

    unit: Literal["steps", "numbers", "seconds", "months"] = "steps"
    step: float = 1.0  # of these units
    day: int | None = None  # months: the day of each; None: the last one
    dates: bool = False  # seconds: days without a time of day
    zone: bool = False  # seconds: times had an offset from UTC, in which they are written

    def to_steps(self, raw: Array) -> Array:
        """Times as read, in steps."""
        found: Array = raw / self.step
        whole = np.round(found)
        return np.where(np.abs(found - whole) < NEARLY, whole, found)

    def write(self, step: float) -> str:
        """A time in steps, as a person writes it."""
        raw = step * self.step
        if self.unit == "months":
            year, month = divmod(round(raw), 12)
            last = calendar.monthrange(year, month + 1)[1]
            return date(year, month + 1, last if self.day is None else min(self.day, last)).isoformat()
        if self.unit == "seconds":
            moment = EPOCH + timedelta(seconds=round(raw, 3))
            if self.dates:
                return moment.date().isoformat()
            return (moment if self.zone else moment.replace(tzinfo=None)).isoformat()
        return f"{raw:.10g}"

    @property
    def word(self) -> str:
        """What a step is called."""
        if self.unit == "months":
            return {1: "month", 3: "quarter", 12: "year"}.get(round(self.step), f"{self.step:g} months")
        if self.unit == "seconds":
            return WORDS.get(self.step, f"{timedelta(seconds=self.step)}")
        return "step"

    @property
    def season(self) -> int | None:
        """Steps after which people's and nature's habits come back; None: nobody knows."""
        if self.unit == "months":
            return max(1, round(12 / self.step))
        if self.unit != "seconds":
            return None
        if self.step == DAY:
            return 7
        if 6 * DAY < self.step < 8 * DAY:
            return 52
        if self.step < DAY and abs(DAY / self.step - round(DAY / self.step)) < NEARLY:
            return round(DAY / self.step)
        return None


def read_moments(cells: Sequence[Any], path: str, lines: Sequence[int], column: str) -> tuple[Array, bool]:
    """The times of a column as numbers, or dates as seconds since 1970; and whether they are dates.
    Raises for the first cell that is neither."""
    texts = [cell if isinstance(cell, datetime | date) else str(cell).strip() for cell in cells]
    if all(isinstance(text, str) and DIGITS.match(text) for text in texts):
        texts = [f"{text[:4]}-{text[4:6]}-{text[6:]}" for text in texts]  # type: ignore[index]
    numbers = _as_numbers(texts)
    if numbers is not None:
        return numbers, False
    found: list[datetime] = []
    for text, line in zip(texts, lines, strict=True):
        moment = _as_moment(text)
        if moment is None:
            raise RegardError(
                f"line {line} of {path} has '{text}' in column '{column}', expected a time: a number, or a date such "
                "as 2024-03-31, 2024-03-31T18:00 or 2024-03"
            )
        found.append(moment)
    aware = [moment.tzinfo is not None for moment in found]
    if any(aware) and not all(aware):
        line = lines[aware.index(aware[0] is False)]
        raise RegardError(
            f"line {line} of {path} has a time with an offset from UTC in column '{column}' where others have none, or "
            "the other way round; write all of them in one way"
        )
    seconds = [
        ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH).total_seconds()
        for moment in found
    ]
    return np.array(seconds, dtype=np.float64), True


def looks_like_moments(cells: Sequence[Any]) -> bool:
    """Are these all dates, and no plain numbers?"""
    return bool(cells) and all(
        _as_moment(cell if isinstance(cell, datetime | date) else str(cell).strip()) for cell in cells
    )


def _as_numbers(texts: Sequence[Any]) -> Array | None:
    try:
        found = np.array([float(text) for text in texts])
    except (TypeError, ValueError):
        return None
    if np.isfinite(found).all():
        return found
    return None


def _as_moment(text: Any) -> datetime | None:
    if isinstance(text, datetime):
        return text
    if isinstance(text, date):
        return datetime(text.year, text.month, text.day)
    if match := YEAR_MONTH.match(text):
        text = f"{match[1]}-{int(match[2]):02d}-01"
    elif match := QUARTER.match(text):
        text = f"{match[1]}-{3 * int(match[2]) - 2:02d}-01"
    if text.replace(".", "").isdigit():
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def make_clock(series: Sequence[Array], *, dates: bool, zone: bool = False) -> tuple[Clock, list[Array]]:
    """The clock of some series of times as read, and their times as numbers of its unit.

    A step is the median difference of times that follow each other.
    """
    if dates and (found := _count_months(series)) is not None:
        months, day = found
        return Clock(unit="months", step=_typical(months), day=day), months
    step = _typical(series)
    if not dates:
        return Clock(unit="numbers", step=step), list(series)
    everything = np.concatenate(list(series))
    midnight = bool((everything % DAY == 0).all())
    return Clock(unit="seconds", step=step, dates=midnight, zone=zone), list(series)


def _typical(series: Sequence[Array]) -> float:
    apart = np.concatenate([np.diff(np.sort(each)) for each in series]) if series else np.zeros(0)
    apart = apart[apart > 0]
    if not len(apart):
        return 1.0
    return float(np.median(apart))


def _count_months(series: Sequence[Array]) -> tuple[list[Array], int | None] | None:
    """Times as numbers of months, if all are on one day of the month or all on its last day, at midnight."""
    everything = np.concatenate(list(series))
    if len(everything) < 3 or (everything % DAY != 0).any():
        return None
    moments = [EPOCH + timedelta(seconds=float(each)) for each in everything]
    days = {moment.day for moment in moments}
    last = all(moment.day == calendar.monthrange(moment.year, moment.month)[1] for moment in moments)
    if len(days) > 1 and not last:
        return None
    months = np.array([12 * moment.year + moment.month - 1 for moment in moments], dtype=np.float64)
    if len(np.unique(months)) < 2:
        return None
    ends = np.cumsum([len(each) for each in series])[:-1]
    return list(np.split(months, ends)), None if last and len(days) > 1 else next(iter(days))


def with_step(clock: Clock, known: Clock) -> Clock:
    """The clock of other data in the steps that a model knows, where both count the same unit."""
    same = clock.unit == known.unit
    if not same or math.isclose(clock.step, known.step):
        return clock
    return Clock(unit=clock.unit, step=known.step, day=clock.day, dates=clock.dates, zone=clock.zone)
