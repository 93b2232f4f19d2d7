"""Series with labels: whole series are examples, so whole series are held out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from regard.data.array import Array
from regard.data.batch import Batch, Epochs, Source
from regard.data.labels import sort_labels
from regard.data.splits import TEST, TRAIN, VALIDATION, draw_splits, note_missing
from regard.errors import RegardError
from regard.recipes.series.forecast import make_tensors
from regard.recipes.series.series import Scale, Series, SeriesFile
from regard.recipes.series.settings import SeriesDataConfig

LONGEST = 512  # steps of a series that a classifier reads; of more, some are averaged


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelledSeries:
    """Series with their classes and splits."""

    series: tuple[Series, ...]  # shortened
    target: Array
    labels: tuple[str, ...]
    splits: Array
    every: int
    scale: Scale
    notes: tuple[str, ...]

    def rows(self, split: int) -> Array:
        return np.flatnonzero(self.splits == split)


def label_series(file: SeriesFile, config: SeriesDataConfig, seed: int) -> LabelledSeries:
    """The classes and splits of the series of a file."""
    known = [each for each in file.series if each.label is not None]
    if not known:
        raise RegardError(
            f"{file.path} has no labels; name their column with --data.label, or forecast with --task forecast"
        )
    notes = []
    if len(known) < len(file.series):
        notes.append(f"{len(file.series) - len(known):,} series have no label and are left out")
    labels = sort_labels(str(each.label) for each in known)
    if len(labels) < 2:
        raise RegardError(
            f"all series of {file.path} have the label '{labels[0]}'; a classifier needs two classes"
        )
    target = np.array([labels.index(str(each.label)) for each in known])
    splits = draw_splits(
        len(known),
        config,
        config.seed_of(seed),
        unit="series",
        classes=target,
        names=labels,
    )
    most = config.context or LONGEST
    every = max(1, -(-max(len(each) for each in known) // most))
    if every > 1:
        notes.append(
            f"each {every} steps are averaged to one, because the longest series has more than {most} steps"
        )
    series = tuple(shorten(each, every) for each in known)
    train = np.concatenate(
        [each.values for each, split in zip(series, splits, strict=True) if split == TRAIN]
    )
    return LabelledSeries(
        series=series,
        target=target,
        labels=labels,
        splits=splits,
        every=every,
        scale=Scale.measure(train),
        notes=(*notes, *note_missing(splits, target, labels, "series")),
    )


def shorten(series: Series, every: int) -> Series:
    """The mean of the known values of each so many steps."""
    if every == 1:
        return series
    n = -(-len(series) // every)
    more = n * every - len(series)
    values = np.concatenate((series.values, np.full((more, series.values.shape[1]), np.nan)))
    values = values.reshape(n, every, -1)
    known = ~np.isnan(values)
    count = known.sum(1)
    mean = np.where(known, values, 0.0).sum(1) / np.maximum(count, 1)
    return replace(series, times=series.times[::every] / every, values=np.where(count > 0, mean, np.nan))


class LabelledSource(Source):
    """Series of one split in shuffled batches, those of like length together."""

    def __init__(self, data: LabelledSeries, batch: int, seed: int) -> None:
        self.data, self.size = data, batch
        lengths = np.array([len(each) for each in data.series])
        self.epochs = Epochs(data.rows(TRAIN), batch, seed, lengths)

    def batch(self, step: int) -> Batch:
        return self._take(self.epochs.rows(step))

    def validation(self) -> Iterator[Batch]:
        return self.of(VALIDATION)

    def test(self) -> Iterator[Batch]:
        """The whole test split."""
        return self.of(TEST)

    def of(self, split: int) -> Iterator[Batch]:
        rows = self.data.rows(split)
        for start in range(0, len(rows), self.size):
            yield self._take(rows[start : start + self.size])

    def _take(self, rows: Array) -> Batch:
        return batch_series([self.data.series[row] for row in rows], self.data.scale, self.data.target[rows])


def batch_series(series: Sequence[Series], scale: Scale, target: Array) -> Batch:
    """Whole series side by side, with their classes."""
    x, where, real = make_tensors(series, [scale] * len(series))
    inputs = {"x": x, "real": None if bool(real.all()) else real, "where": where}
    return Batch(inputs, torch.from_numpy(target), size=real.numel())
