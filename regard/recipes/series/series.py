"""Series in memory: times in steps, numbers of each step, and perhaps a label; and how a model reads them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

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

    def last(self, steps: int) -> Series:
        """So many steps at its end, or all."""
        return self.part(max(0, len(self) - steps), len(self))

    def shorten(self, every: int) -> Series:
        """The mean of the known values of each so many steps."""
        if every == 1:
            return self
        n = -(-len(self) // every)
        more = n * every - len(self)
        values = np.concatenate((self.values, np.full((more, self.values.shape[1]), np.nan)))
        values = values.reshape(n, every, -1)
        known = ~np.isnan(values)
        count = known.sum(1)
        mean = np.where(known, values, 0.0).sum(1) / np.maximum(count, 1)
        return replace(self, times=self.times[::every] / every, values=np.where(count > 0, mean, np.nan))

    @property
    def equal(self) -> bool:
        """Does each step come 1 after the one before?"""
        return bool((np.diff(self.times) == 1).all())

    @property
    def empty(self) -> bool:
        """Is no value known?"""
        return bool(np.isnan(self.values).all())


@dataclass(frozen=True, eq=False, kw_only=True)
class SeriesFile:
    """The series of one file, or of a table or arrays in memory."""

    path: str | None  # or what it is called; None: made
    channels: tuple[str, ...]
    series: tuple[Series, ...]
    clock: Clock
    notes: tuple[str, ...] = ()

    @property
    def longest(self) -> int:
        return max(len(each) for each in self.series)

    def in_steps_of(self, known: Clock) -> SeriesFile:
        """The same in the steps that a model knows, where both clocks count the same unit."""
        own = self.clock
        if own.unit != known.unit or math.isclose(own.step, known.step):
            return self
        clock = replace(own, step=known.step)
        series = tuple(replace(each, times=clock.to_steps(each.times * own.step)) for each in self.series)
        return replace(self, series=series, clock=clock)


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


def value_at(times: Array, values: Array, asked: Array) -> Array:
    """Values at other times, on straight lines between the known ones; NaN if none is known.   n, n, m -> m"""
    known = ~np.isnan(values)
    if not known.any():
        return np.full(len(asked), np.nan)
    found: Array = np.interp(asked, times[known], values[known])
    return found


def make_tensors(series: Sequence[Series], scales: Sequence[Scale]) -> tuple[Tensor, Tensor | None, Tensor]:
    """Series side by side, as a model reads them: values b n c, times b n (None: equal steps), real b n."""
    longest = max(len(each) for each in series)
    x = np.zeros((len(series), longest, series[0].values.shape[1]), dtype=np.float32)
    where, real = np.zeros((len(series), longest)), np.zeros((len(series), longest), dtype=bool)
    for row, (each, scale) in enumerate(zip(series, scales, strict=True)):
        n = len(each)
        x[row, :n], real[row, :n], where[row, :n] = scale.apply(each.values), True, each.times - each.times[0]
    equal = all(each.equal for each in series)
    return torch.from_numpy(x), None if equal else torch.from_numpy(where), torch.from_numpy(real)
