"""Windows of series as batches: what a model sees, and what comes after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.data.array import Array
from regard.data.batch import Batch, Source, generator
from regard.recipes.series.series import Scale, Series
from regard.recipes.series.time_splits import Held

ORIGINS = 16  # moments of a window after which a forecast is asked for
MOST = 256  # windows of a split that are measured in training
TOGETHER = 64  # windows of a batch of an evaluation


@dataclass(frozen=True, eq=False)
class Track:
    """One series as a model reads it: in units of its own past."""

    series: Series
    scale: Scale
    x: Array  # n c float32, NaN where missing
    times: Array  # n float64
    train: int
    validation: int

    @classmethod
    def of(cls, held: Held) -> Track:
        scale = Scale.measure(held.series.values[: held.train])
        values = scale.apply(held.series.values)
        return cls(held.series, scale, values, held.series.times, held.train, held.validation)


class ForecastSource(Source):
    """Windows of the training parts, drawn by (seed, step), with forecasts asked for after some of their steps."""

    def __init__(self, held: Sequence[Held], *, context: int, horizon: int, batch: int, seed: int, equal: bool) -> None:
        self.tracks = [Track.of(each) for each in held]
        self.context, self.horizon, self.rows, self.seed, self.equal = context, horizon, batch, seed, equal
        # how many windows start in each series
        self.starts = np.array([max(1, each.train - horizon - context + 1) for each in self.tracks])

    def batch(self, step: int) -> Batch:
        random = generator(self.seed, 41, step)
        which = random.choice(len(self.tracks), self.rows, p=self.starts / self.starts.sum())
        windows = []
        for number in which:
            track = self.tracks[number]
            start = int(random.integers(self.starts[number]))
            stop = min(start + self.context, track.train - self.horizon)
            low = max(1, (stop - start) // 4)
            origins = start + random.integers(min(low, stop - start - 1), stop - start, ORIGINS)
            windows.append((track, start, stop, np.sort(origins)))
        return self.make(windows)

    def in_order(self, stride: int) -> Iterator[Batch]:
        """All training windows, in the order of their times, with a forecast after each step from a quarter on."""
        windows = []
        for number, track in enumerate(self.tracks):
            for start in range(0, int(self.starts[number]), stride):
                stop = min(start + self.context, track.train - self.horizon)
                first = start + min(max(1, (stop - start) // 4), stop - start - 1)
                windows.append((track, start, stop, np.arange(first, stop)))
        for k in range(0, len(windows), TOGETHER):
            yield self.make(windows[k : k + TOGETHER])

    def validation(self) -> Iterator[Batch]:
        return self.forecasts("validation", MOST)

    def forecasts(self, split: str, most: int) -> Iterator[Batch]:
        """One forecast from each moment of a split."""
        found = self.moments(split, most)
        for k in range(0, len(found), TOGETHER):
            windows = []
            for track, origin in found[k : k + TOGETHER]:
                start = max(0, origin + 1 - self.context)
                windows.append((track, start, origin + 1, np.array([origin])))
            yield self.make(windows)

    def moments(self, split: str, most: int) -> list[tuple[Track, int]]:
        """The last steps before each forecast of a split, whose horizon lies in it; evenly chosen if there are
        many."""
        found = []
        for track in self.tracks:
            start, stop = (track.train, track.validation)
            if split == "test":
                start, stop = (track.validation, len(track.x))
            found += [(track, origin) for origin in range(start - 1, stop - self.horizon)]
        if len(found) > most:
            found = [found[k] for k in np.linspace(0, len(found) - 1, most).astype(int)]
        return found

    def make(self, windows: Sequence[tuple[Track, int, int, Array]]) -> Batch:
        """A batch of windows: steps start … stop − 1 of a series, asked after some of them."""
        longest = max(stop - start for _, start, stop, _ in windows)
        most = max(len(origins) for *_, origins in windows)
        b, c = len(windows), windows[0][0].x.shape[1]
        x = np.zeros((b, longest, c), dtype=np.float32)
        real = np.zeros((b, longest), dtype=bool)
        where = np.zeros((b, longest))
        asked = np.zeros((b, most), dtype=np.int64)
        target = np.full((b, most, self.horizon, c + 1), np.nan, dtype=np.float32)
        for row, (track, start, stop, origins) in enumerate(windows):
            n = stop - start
            x[row, :n], real[row, :n] = track.x[start:stop], True
            where[row, :n] = track.times[start:stop] - track.times[start]
            asked[row, : len(origins)] = origins - start
            after = origins[:, None] + 1 + np.arange(self.horizon)
            target[row, : len(origins), :, :c] = track.x[after]
            target[row, : len(origins), :, c] = track.times[after] - track.times[origins][:, None]
        inputs = {
            "x": torch.from_numpy(x),
            "real": None if real.all() else torch.from_numpy(real),
            "where": None if self.equal else torch.from_numpy(where),
            "asked": torch.from_numpy(asked),
        }
        return Batch(inputs, torch.from_numpy(target), size=b * longest)


class GapSource(Source):
    """Windows of the training parts, drawn by (seed, step); the task hides some of their steps."""

    def __init__(self, held: Sequence[Held], *, context: int, batch: int, seed: int, equal: bool) -> None:
        self.tracks = [Track.of(each) for each in held]
        self.context, self.rows, self.seed, self.equal = context, batch, seed, equal
        self.starts = np.array([max(1, each.train - context + 1) for each in self.tracks])

    def batch(self, step: int) -> Batch:
        random = generator(self.seed, 43, step)
        which = random.choice(len(self.tracks), self.rows, p=self.starts / self.starts.sum())
        windows = []
        for number in which:
            start = int(random.integers(self.starts[number]))
            stop = min(start + self.context, self.tracks[number].train)
            windows.append((self.tracks[number], start, stop, start))
        return self.make(windows)

    def validation(self) -> Iterator[Batch]:
        return self.windows("validation")

    def windows(self, split: str) -> Iterator[Batch]:
        """A split in windows side by side; steps before it are read, too, but never asked for."""
        found = []
        for track in self.tracks:
            first, last = (track.train, track.validation)
            if split == "test":
                first, last = (track.validation, len(track.x))
            for start in range(first, last, self.context):
                stop = min(start + self.context, last)
                found.append((track, max(0, stop - self.context), stop, start))
        for k in range(0, len(found), TOGETHER):
            yield self.make(found[k : k + TOGETHER])

    def make(self, windows: Sequence[tuple[Track, int, int, int]]) -> Batch:
        """A batch of windows: steps start … stop − 1 of a series, of which those from a step on may be asked for."""
        longest = max(stop - start for _, start, stop, _ in windows)
        b, c = len(windows), windows[0][0].x.shape[1]
        x = np.zeros((b, longest, c), dtype=np.float32)
        real = np.zeros((b, longest), dtype=bool)
        where = np.zeros((b, longest))
        target = np.full_like(x, np.nan)
        for row, (track, start, stop, asked) in enumerate(windows):
            n = stop - start
            x[row, :n], real[row, :n] = track.x[start:stop], True
            target[row, asked - start : n] = track.x[asked:stop]
            where[row, :n] = track.times[start:stop] - track.times[start]
        inputs = {
            "x": torch.from_numpy(x),
            "real": None if real.all() else torch.from_numpy(real),
            "where": None if self.equal else torch.from_numpy(where),
        }
        return Batch(inputs, torch.from_numpy(target), size=b * longest)
