"""Series in memory: times in steps, numbers of each step, and perhaps a label."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from regard.data.array import Array
from regard.recipes.series.clock import Clock


@dataclass(frozen=True, eq=False, kw_only=True)
class Series:
    """One series."""

    name: str
    times: Array  # n, in steps, rising
    values: Array  # n c, NaN where missing
    label: str | None = None

    def __len__(self) -> int:
        return len(self.times)

    def part(self, start: int, stop: int) -> Series:
        """Some of its steps."""
        return replace(self, times=self.times[start:stop], values=self.values[start:stop])

    @property
    def equal(self) -> bool:
        """Does each step come 1 after the one before?"""
        return bool((np.diff(self.times) == 1).all())


@dataclass(frozen=True, eq=False, kw_only=True)
class SeriesFile:
    """The series of one file."""

    path: str | None
    channels: tuple[str, ...]
    series: tuple[Series, ...]
    clock: Clock
    notes: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        return all(each.equal for each in self.series)

    @property
    def longest(self) -> int:
        return max(len(each) for each in self.series)


@dataclass(frozen=True, eq=False)
class Scale:
    """(x − centre) / scale, channel by channel: only the digits of float32 need it, for models follow any scale."""

    centre: Array  # c
    scale: Array  # c

    @classmethod
    def measure(cls, values: Array) -> Scale:
        """Of the known values.   n c"""
        known = ~np.isnan(values)
        count = np.maximum(known.sum(0), 1)
        filled = np.where(known, values, 0.0)
        # halves first: a sum of large numbers may be infinite
        centre = (filled / count).sum(0)
        apart = np.where(known, values - centre, 0.0)
        largest = np.maximum(np.abs(apart).max(0, initial=0.0), 1e-300)
        deviation = largest * np.sqrt(np.square(apart / largest).sum(0) / count)
        return cls(centre, np.where(deviation > 1e-12 * (np.abs(centre) + 1e-300), deviation, 1.0))

    def apply(self, values: Array) -> Array:
        """In deviations, float32."""
        found: Array = ((values - self.centre) / self.scale).astype(np.float32)
        return found

    def restore(self, values: Array) -> Array:
        """In the units of the data; channels are the last axis."""
        found: Array = values.astype(np.float64) * self.scale + self.centre
        return found
