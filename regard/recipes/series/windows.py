"""Windows of series as batches: what a model sees, and what is asked of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import torch

from regard.data.array import Array
from regard.data.batch import Batch, Source, generator
from regard.recipes.series.time_splits import SplitSeries

ORIGINS = 16  # moments of a window after which a forecast is asked for
MOST = 256  # windows of a split that are measured in training
TOGETHER = 64  # windows of a batch of an evaluation


class Window(NamedTuple):
    """Steps start … stop − 1 of a series, and of which of them something is asked: what comes after, or what they are."""

    part: SplitSeries
    start: int
    stop: int
    asked: Array


class WindowSource(Source):
    """Windows of the training parts, drawn by (seed, step). ahead: steps after a window that must be known"""

    key: ClassVar[int]  # of the random numbers

    def __init__(
        self, parts: Sequence[SplitSeries], *, context: int, ahead: int = 0, batch: int = 1, seed: int = 0
    ) -> None:
        self.parts, self.context, self.ahead, self.rows, self.seed = parts, context, ahead, batch, seed
        self.equal = all(each.series.equal for each in parts)
        # how many windows start in each series
        self.starts = np.array([max(1, each.train - ahead - context + 1) for each in parts])

    def batch(self, step: int) -> Batch:
        random = generator(self.seed, self.key, step)
        which = random.choice(len(self.parts), self.rows, p=self.starts / self.starts.sum())
        windows = []
        for number in which:
            start = int(random.integers(self.starts[number]))
            windows.append(self.train_window(self.parts[number], start, random))
        return self.make(windows)

    @abstractmethod
    def train_window(self, part: SplitSeries, start: int, random: np.random.Generator | None) -> Window:
        """The window of a training part from a step on. random: None: all that can be asked is asked"""

    @abstractmethod
    def windows(self, split: str) -> list[Window]:
        """The windows on which a split is judged."""

    def validation(self) -> Iterator[Batch]:
        return self.of("validation")

    def of(self, split: str) -> Iterator[Batch]:
        """A split, to be judged."""
        return self.batches(self.windows(split))

    def batches(self, windows: Sequence[Window]) -> Iterator[Batch]:
        for k in range(0, len(windows), TOGETHER):
            yield self.make(windows[k : k + TOGETHER])

    def make(self, windows: Sequence[Window]) -> Batch:
        """A batch of windows."""
        longest = max(each.stop - each.start for each in windows)
        b, c = len(windows), windows[0].part.x.shape[1]
        x = np.zeros((b, longest, c), dtype=np.float32)
        real = np.zeros((b, longest), dtype=bool)
        where = np.zeros((b, longest))
        for row, (part, start, stop, _) in enumerate(windows):
            n, times = stop - start, part.series.times
            x[row, :n], real[row, :n] = part.x[start:stop], True
            where[row, :n] = times[start:stop] - times[start]
        inputs = {
            "x": torch.from_numpy(x),
            "real": None if real.all() else torch.from_numpy(real),
            "where": None if self.equal else torch.from_numpy(where),
        }
        return self.ask(Batch(inputs, size=b * longest), windows)

    @abstractmethod
    def ask(self, batch: Batch, windows: Sequence[Window]) -> Batch:
        """The batch with its targets."""


class ForecastSource(WindowSource):
    """Forecasts are asked for after some steps of each window.   asked b p, target b p h (c + 1), the last a time"""

    key = 41

    def train_window(self, part: SplitSeries, start: int, random: np.random.Generator | None) -> Window:
        stop = min(start + self.context, part.train - self.ahead)
        first = start + min(max(1, (stop - start) // 4), stop - start - 1)
        if random is None:
            return Window(part, start, stop, np.arange(first, stop))
        return Window(part, start, stop, np.sort(random.integers(first, stop, ORIGINS)))

    def in_order(self, stride: int) -> Iterator[Batch]:
        """All training windows, in the order of their times."""
        pairs = zip(self.parts, self.starts.tolist(), strict=True)
        starts = [(part, start) for part, stop in pairs for start in range(0, stop, stride)]
        return self.batches([self.train_window(part, start, None) for part, start in starts])

    def windows(self, split: str, most: int = MOST) -> list[Window]:
        """One forecast from each moment of a split, whose horizon lies in it; evenly chosen if there are many."""
        found = []
        for part in self.parts:
            start, stop = part.bounds(split)
            found += [(part, origin) for origin in range(start - 1, stop - self.ahead)]
        if len(found) > most:
            found = [found[k] for k in np.linspace(0, len(found) - 1, most).astype(int)]
        return [Window(part, max(0, at + 1 - self.context), at + 1, np.array([at])) for part, at in found]

    def ask(self, batch: Batch, windows: Sequence[Window]) -> Batch:
        b, most, c = len(windows), max(len(each.asked) for each in windows), batch["x"].shape[-1]
        asked = np.zeros((b, most), dtype=np.int64)
        target = np.full((b, most, self.ahead, c + 1), np.nan, dtype=np.float32)
        for row, (part, start, _, origins) in enumerate(windows):
            p, times = len(origins), part.series.times
            asked[row, :p] = origins - start
            after = origins[:, None] + 1 + np.arange(self.ahead)
            target[row, :p, :, :c] = part.x[after]
            target[row, :p, :, c] = times[after] - times[origins][:, None]
        return batch.replace(target=torch.from_numpy(target), asked=torch.from_numpy(asked))


class GapSource(WindowSource):
    """Steps of each window may be hidden by the task, and are asked for then.   target b n c"""

    key = 43

    def train_window(self, part: SplitSeries, start: int, random: np.random.Generator | None) -> Window:
        stop = min(start + self.context, part.train)
        return Window(part, start, stop, np.arange(start, stop))

    def windows(self, split: str) -> list[Window]:
        """A split in windows side by side; steps before it are read, too, but never asked for."""
        found = []
        for part in self.parts:
            first, last = part.bounds(split)
            for start in range(first, last, self.context):
                stop = min(start + self.context, last)
                found.append(Window(part, max(0, stop - self.context), stop, np.arange(start, stop)))
        return found

    def ask(self, batch: Batch, windows: Sequence[Window]) -> Batch:
        target = np.full(batch["x"].shape, np.nan, dtype=np.float32)
        for row, (part, start, _, steps) in enumerate(windows):
            target[row, steps - start] = part.x[steps]
        return batch.replace(target=torch.from_numpy(target))
