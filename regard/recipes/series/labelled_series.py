"""Series with labels: whole series are examples, so whole series are held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import torch

from regard.config import Length, Size, config
from regard.data.array import Array
from regard.data.batch import Batch
from regard.data.tables import table_of
from regard.errors import RegardError
from regard.recipes.example import Example, Examples
from regard.recipes.processor import Encoded, Processor, Want
from regard.recipes.series.clock import Clock
from regard.recipes.series.forecast import make_tensors
from regard.recipes.series.read_arrays import series_of_arrays
from regard.recipes.series.read_series import read_like, read_series, table_of_series
from regard.recipes.series.series import Scale, Series, SeriesFile
from regard.recipes.series.settings import SeriesFileConfig
from regard.recipes.supervised import SupervisedConfig
from regard.recipes.target import Asks

LONGEST = 512  # steps of a series that a classifier reads; of more, some are averaged
MEMORY = "the arrays"  # what series in memory are called


@config
class LabelledSeriesConfig(SeriesFileConfig, SupervisedConfig):
    """Which series to read, and their labels: whole series are held out."""

    unit: ClassVar[str] = "series"

    asks: Asks = "classes"  # what labels are: classes


@config
class LabelledFitted:
    """How series are read: their channels and steps, and the scale of the train split."""

    channels: tuple[str, ...]
    clock: Clock
    every: Size  # so many steps are averaged to one
    longest: Length  # steps of the longest series, averaged
    centre: tuple[float, ...]  # mean and deviation of each channel
    scale: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class LabelledProcessor(Processor[LabelledSeriesConfig, LabelledFitted]):
    """An example is a series: x n channels, NaN where missing. A batch is padded: x b n c, where b n, real b n."""

    Fitted: ClassVar[type] = LabelledFitted

    # ── reading

    def read(self, data: Any, *, want: Want) -> Examples:
        file = self._read_file(data)
        labels = [each.label for each in file.series]
        if want != "use" and labels.count(None) == len(labels):
            raise RegardError(
                f"{file.path or 'the made series of hours'} has no labels; name their column with --data.label, give "
                "series that have some, or forecast with --task forecast"
            )
        notes = file.notes
        if want != "use":
            known = set(labels) if self.target is None else set(self.target.classes)
            labels = [label if label in known else None for label in labels]
            if left := labels.count(None):
                notes += (f"{left:,} series without a known label are left out",)
        return Examples(
            what=file.path or "made hours",
            source=file.path,
            titles=lambda i: file.series[i].name,
            count=len(file.series),
            inputs=lambda i: {"series": file.series[i]},
            names=lambda i: file.series[i].name,
            cells=pa.array(labels, pa.string()),
            target_names=("label",),
            part="step",
            rows=pa.table({"series": [each.name for each in file.series]}),
            about={"file": file},
            notes=notes,
        )

    def _read_file(self, data: Any) -> SeriesFile:
        """Series of a path, of a table in memory, or of a pair of arrays: values and labels."""
        if isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[0], np.ndarray):
            arrays = {"values": data[0], "labels": np.asarray(data[1])}
            return series_of_arrays(arrays, MEMORY, "classify")
        table = None if data is None or isinstance(data, str) else table_of(data, self.config)
        if table is not None:
            known = None if self.fitted is None else self.fitted.clock
            return table_of_series(table, self.config, "classify", known, ())
        config = replace(self.config, path=data)
        if self.fitted is None:
            return read_series(config, "classify")
        return read_like(config, "classify", clock=self.fitted.clock, channels=self.fitted.channels)

    def is_readable(self) -> bool:
        return self.config.path is not None

    # ── fitting

    def fit(self, examples: Examples, train: Array, model: Any, start: Self | None) -> Self:
        file: SeriesFile = examples.about["file"]
        known = [each for each in file.series if each.label is not None]
        every = max(1, -(-max(len(each) for each in known) // (self.config.context or LONGEST)))
        scale = Scale.measure(np.concatenate([shorten(file.series[i], every).values for i in train]))
        fitted = LabelledFitted(
            channels=file.channels,
            clock=file.clock,
            every=every,
            longest=max(len(shorten(each, every)) for each in known),
            centre=tuple(map(float, scale.centre)),
            scale=tuple(map(float, scale.scale)),
        )
        return replace(self, fitted=fitted)

    def notes(self, examples: Examples, train: Array) -> tuple[str, ...]:
        if self.fitted.every == 1:
            return ()
        most, every = self.config.context or LONGEST, self.fitted.every
        return (f"each {every} steps are averaged to one, because the longest series has more than {most} steps",)

    def counts(self, examples: Examples) -> Mapping[str, int]:
        return {"steps": sum(len(each) for each in examples.about["file"].series)}

    def model_config(self, model: Any) -> Any:
        if self.target.labels is None:
            raise RegardError("a model of series tells classes, one for each series; use --data.asks classes")
        return replace(model, channels=len(self.fitted.channels), classes=self.target.outputs)

    # ── one batch

    def encode(self, example: Example) -> Encoded:
        return {"series": shorten(example.inputs["series"], self.fitted.every)}

    def length_of(self, encoded: Encoded) -> int:
        return len(encoded["series"])

    def collate(self, rows: Sequence[Encoded], random: np.random.Generator | None = None) -> Batch:
        scale = Scale(np.array(self.fitted.centre), np.array(self.fitted.scale))
        x, where, real = make_tensors([row["series"] for row in rows], [scale] * len(rows))
        inputs = {"x": x, "real": None if bool(real.all()) else real, "where": where}
        return Batch(inputs, size=torch.numel(real))


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
