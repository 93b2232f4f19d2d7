"""How series are read, and how they become tensors: those that go on, and those with labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import torch
from pydantic import Field

from regard.config import Length, Size, config
from regard.data.array import Array
from regard.data.batch import Batch
from regard.errors import RegardError
from regard.recipes.example import Example, Examples
from regard.recipes.processor import Encoded, Processor, Want
from regard.recipes.series.clock import Clock
from regard.recipes.series.read_series import UNNAMED, read_series
from regard.recipes.series.series import Scale, Series, SeriesFile, make_tensors

LONGEST = 512  # steps of a series with a label that a model reads; of more, some are averaged
OTHER = 0.1  # of a step: rows that are this much closer or farther than in training


@config
class SeriesFitted:
    """How series are read."""

    channels: tuple[str, ...]
    clock: Clock


@config
class TimeFitted(SeriesFitted):
    """What a model of series that go on knows of them."""

    horizon: Size
    season: Size
    context: Length
    lags: Annotated[int, Field(ge=1, le=2**14)]


@config
class LabelledFitted(SeriesFitted):
    """The steps of series with labels, and the scale of the train split."""

    every: Size  # so many steps are averaged to one
    longest: Length  # steps of the longest series, averaged
    centre: tuple[float, ...]  # mean and deviation of each channel
    scale: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class SeriesProcessor(Processor[Any, Any]):
    """An example is a series, encoded as the steps that a model reads, and their scale. A batch is padded: x b n c, NaN
    where missing, where b n, real b n."""

    labelled: ClassVar[bool] = False  # has each series a label?

    def read(self, data: Any, *, want: Want) -> Examples:
        file = self.read_file(data)
        return Examples(
            what=file.path or "made hours",
            source=file.path,
            titles=lambda i: file.series[i].name,
            count=len(file.series),
            inputs=lambda i: {"series": file.series[i]},
            names=lambda i: file.series[i].name,
            part="step",
            rows=pa.table({"series": [each.name for each in file.series]}),
            about={"file": file},
            notes=file.notes,
        )

    def read_file(self, data: Any) -> SeriesFile:
        """The series of a path, a table or arrays; None: the made ones. In use: with the channels and in the steps that the
        model knows."""
        fitted: SeriesFitted | None = self.fitted
        names = () if fitted is None or fitted.channels == UNNAMED else fitted.channels
        file = read_series(data, self.config, labelled=self.labelled, channels=names)
        if fitted is None:
            return file
        if len(file.channels) != len(fitted.channels):
            raise RegardError(
                f"{file.path} has {len(file.channels)} channels ({', '.join(file.channels[:5])}), and the model was "
                f"trained on {len(fitted.channels)}: {', '.join(fitted.channels[:5])}"
            )
        file = file.in_steps_of(fitted.clock)
        return replace(file, notes=(*file.notes, *_note_pace(file)))

    def length_of(self, encoded: Encoded) -> int:
        return len(encoded["series"])

    def collate(self, rows: Sequence[Encoded], random: np.random.Generator | None = None) -> Batch:
        x, where, real = make_tensors([row["series"] for row in rows], [row["scale"] for row in rows])
        inputs = {"x": x, "real": None if bool(real.all()) else real, "where": where}
        return Batch(inputs, size=torch.numel(real))


def _note_pace(file: SeriesFile) -> tuple[str, ...]:
    """A note if most steps are not as long as those of the training, which are 1."""
    apart = np.concatenate([np.diff(each.times) for each in file.series])
    if not len(apart) or abs(np.median(apart) - 1) < OTHER:
        return ()
    return (
        f"{file.path}: each step is {np.median(apart):.3g} times one {file.clock.word}, the step that the model learned "
        "from; what it says is for such steps, and may be far off",
    )


class TimeProcessor(SeriesProcessor):
    """Series that go on: a model reads their last steps, in units of these."""

    Fitted: ClassVar[type] = TimeFitted

    def encode(self, example: Example) -> Encoded:
        series: Series = example.inputs["series"].last(self.fitted.context)
        return {"series": series, "scale": Scale.measure(series.values)}


class LabelledProcessor(SeriesProcessor):
    """Series with a class or a number each: a model reads a whole one, in units of the train split."""

    Fitted: ClassVar[type] = LabelledFitted
    labelled = True

    def read(self, data: Any, *, want: Want) -> Examples:
        examples = super().read(data, want=want)
        labels = [each.label for each in examples.about["file"].series]
        notes = examples.notes
        if want != "use":
            if labels.count(None) == len(labels):
                raise RegardError(
                    f"{examples.source or 'the made series of hours'} has no labels; name their column with "
                    "--data.label, give series that have some, or forecast with --task forecast"
                )
            if self.target is not None and self.target.labels is not None:
                labels = [label if label in self.target.classes else None for label in labels]
            if left := labels.count(None):
                notes += (f"{left:,} series without a known label are left out",)
        return replace(
            examples, cells=pa.array(labels, pa.string()), target_names=(self.config.label or "label",), notes=notes
        )

    def fit(self, examples: Examples, train: Array, model: Any, start: Self | None) -> Self:
        file: SeriesFile = examples.about["file"]
        known = [each for each in file.series if each.label is not None]
        every = max(1, -(-max(len(each) for each in known) // (self.config.context or LONGEST)))
        scale = Scale.measure(np.concatenate([file.series[i].shorten(every).values for i in train]))
        fitted = LabelledFitted(
            channels=file.channels,
            clock=file.clock,
            every=every,
            longest=max(len(each.shorten(every)) for each in known),
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
        return replace(model, channels=len(self.fitted.channels), task="classify", classes=self.target.outputs)

    def encode(self, example: Example) -> Encoded:
        scale = Scale(np.array(self.fitted.centre), np.array(self.fitted.scale))
        return {"series": example.inputs["series"].shorten(self.fitted.every), "scale": scale}
