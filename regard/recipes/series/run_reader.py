"""How a run reads series, to be looked at: of a file, or its own from where it was not learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from regard.errors import RegardError
from regard.look.model_input import ModelInput
from regard.look.reader import GONE, Control, Reader, at_path
from regard.models.series_model import SeriesModel
from regard.recipes.series.job import config_of, read_info
from regard.recipes.series.model_input import SeriesInput
from regard.recipes.series.predict import read_file
from regard.recipes.series.series import Series, SeriesFile
from regard.recipes.series.settings import SeriesDataConfig
from regard.recipes.series.time_splits import split_by_time
from regard.recipes.series.views.ahead import AheadView
from regard.recipes.series.views.series import SeriesView
from regard.runs.run import Run

FINEST = 1000  # a value is asked for in thousandths of a deviation
FILE = Control(
    name="file",
    type="file",
    label="series",
    accept=".csv,.npz",  # bytes without a name say no more than that
    example="text/csv",
)
SERIES = Control(name="series", type="number", label="series")
ORIGIN = Control(name="origin", type="number", label="moment")
VALUES = Control(name="values", type="numbers", label="changed values")


class SeriesReader(Reader):
    """Reads the first series of a file; without one, the run's own, from the part that was held out. A served page
    can show other series and moments, and change values."""

    views = (SeriesView(), AheadView())
    controls = (FILE, SERIES, ORIGIN, VALUES)

    def __init__(self, run: Run, model: SeriesModel) -> None:
        self.run, self.model = run, model
        self.info = read_info(run)
        self.last: tuple[str | bytes | None, SeriesInput] | None = None  # what was read, and what it became

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> SeriesInput:
        if self.last is None or self.last[0] != given:
            self.last = given, self._open(given)
        return self.last[1]

    def change(self, given: ModelInput, values: Mapping[str, Any]) -> ModelInput:
        assert isinstance(given, SeriesInput)
        if "series" in values:
            given = given.choose(values["series"])
        if "origin" in values and self.info.task == "forecast":
            given = given.choose(given.chosen, values["origin"])
        if "values" in values:
            given = given.change(read_changes(values["values"], given))
        return given

    def _open(self, given: str | bytes | None) -> SeriesInput:
        if given is None:
            return self._own()
        with at_path(given) as path:
            file = read_file(self.run, str(path))
        if isinstance(given, bytes):
            file = replace(file, path="the file")
        return self._make(file, (), file.notes)

    def _own(self) -> SeriesInput:
        """The run's own series, which may be gone."""
        data = self.run.section(config_of(self.run), "data")
        try:
            file = read_file(self.run, data.path)
            if self.info.task == "classify":
                return self._make(file, (), ())
            assert isinstance(data, SeriesDataConfig)
            splits = split_by_time(file, data)
        except (OSError, ValueError):
            return self._make(self._drawn(), (), (GONE,))
        file = replace(file, series=tuple(each.series for each in splits.held))
        starts = tuple(each.validation if self.info.test else each.train for each in splits.held)
        return self._make(file, starts, ())

    def _drawn(self) -> SeriesFile:
        """A series that nobody measured, where there is no other."""
        x = self.model.sample_inputs(tokens=self.info.context + self.info.horizon, rows=1)["x"][0]
        series = Series(name="drawn at random", times=np.arange(len(x), dtype=np.float64), values=x.double().numpy())
        return SeriesFile(path="drawn at random", channels=self.info.channels, series=(series,), clock=self.info.clock)

    def _make(self, file: SeriesFile, held: tuple[int, ...], notes: tuple[str, ...]) -> SeriesInput:
        known = [k for k, each in enumerate(file.series) if not np.isnan(each.values).all()]
        if not known:
            raise RegardError(f"{file.path} has no known value, so there is nothing to look at")
        labels = self.info.labels
        made = SeriesInput(
            inputs={"x": torch.zeros(1, 0, 0)},
            file=file,
            info=self.info,
            held=held,
            notes=notes,
            answers="classes" if self.info.task == "classify" else None,
            called=None if labels is None else labels.__getitem__,
        )
        return made.choose(self._first(file, known))

    def _first(self, file: SeriesFile, known: Sequence[int]) -> int:
        """The series to begin with; to fill gaps, one that has some."""
        if self.info.task == "fill":
            return next((k for k in known if np.isnan(file.series[k].values).any()), known[0])
        return known[0]


def read_changes(asked: Sequence[int], given: SeriesInput) -> dict[tuple[int, int], float]:
    """Step, channel and value, over and over; steps of the window are counted from 0, values are in thousandths of
    a deviation from the mean of the window."""
    n, c = given.window.values.shape
    if len(asked) % 3:
        raise RegardError(f"values must be groups of 3 whole numbers, a step, a channel and a value, got {len(asked)}")
    found: dict[tuple[int, int], float] = {}
    for k in range(0, len(asked), 3):
        step, channel, value = asked[k : k + 3]
        if not (0 <= step < n and 0 <= channel < c):
            raise RegardError(f"steps are 0 … {n - 1} and channels 0 … {c - 1}, got {step} and {channel}")
        if abs(value) > 100 * FINEST:
            raise RegardError(f"a value is at most 100 deviations from the mean, got {value / FINEST:g}")
        found[step, channel] = value / FINEST
    return found
