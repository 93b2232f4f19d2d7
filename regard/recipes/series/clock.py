"""Times of a series: numbers or dates become steps, and steps become dates again.

Months have 28 to 31 days, but are equal steps: dates on the same day of each month, or on its last day, are
counted in months.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

import numpy as np

from regard.data.array import Array
from regard.data.tables import Table
from regard.errors import RegardError

YEAR_MONTH = re.compile(r"^(\d{4})-(\d{1,2})$")
QUARTER = re.compile(r"^(\d{4})[- ]?[Qq]([1-4])$")
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


def read_moments(table: Table, column: str) -> tuple[Array, bool, bool]:
    """The times of a column as numbers, or dates as seconds since 1970; whether they are dates, and whether they had an
    offset from UTC. Raises for the first cell that is neither."""
    kind = table.kinds[column]
    if kind.dates or kind.word == "date":
        moments, zone = table.times(column)
        return moments.cast("int64").to_numpy() / 1e6, True, zone
    if kind.word in ("number", "id"):
        return table.numbers([column])[:, 0], False, False
    days = [_month(text or "") for text in table.texts(column)]
    wrong = next((row for row, day in enumerate(days) if day is None), None)
    if wrong is not None:
        raise RegardError(
            f"{table.where(wrong)} has '{table.cells(column)[wrong]}' in column '{column}', expected a time: a number, or a "
            f"date such as 2024-03-31, 2024-03-31T18:00 or 2024-03; the column {kind.doubt}"
        )
    return np.array(days, dtype="datetime64[s]").astype(np.float64), True, False


def are_moments(table: Table, column: str) -> bool:
    """Are the cells of a column all dates, and no plain numbers?"""
    if table.kinds[column].word == "date":
        return True
    texts = table.texts(column)[:20] if table.kinds[column].word == "text" else []
    return bool(texts) and all(_month(text or "") for text in texts)


def _month(text: str) -> str | None:
    """The first day of 2024-03 or 2024Q1."""
    if match := YEAR_MONTH.match(text):
        return f"{match[1]}-{int(match[2]):02d}-01" if 1 <= int(match[2]) <= 12 else None
    if match := QUARTER.match(text):
        return f"{match[1]}-{3 * int(match[2]) - 2:02d}-01"
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
