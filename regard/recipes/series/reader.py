"""How a run reads series, to be looked at: of a file, or its own from where it was not learned. What is shown are some steps of
one of them as the model reads them, with what came after where that is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import torch
from torch import nn

from regard.data.array import Array
from regard.errors import RegardError
from regard.look.model_input import Kept, ModelInput, Tokens
from regard.look.reader import GONE, Control, Reader, at_path
from regard.look.view import View
from regard.models.series import SeriesModel
from regard.recipes.example import Example
from regard.recipes.series.clock import Clock
from regard.recipes.series.processor import SeriesProcessor
from regard.recipes.series.series import Scale, Series, SeriesFile, make_tensors
from regard.recipes.series.time_splits import split_by_time
from regard.recipes.supervised_reader import explain_output
from regard.runs.run import Run

if TYPE_CHECKING:
    from regard.look.scene import Scene

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
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class SeriesInput(ModelInput):
    """Some steps of one of some series."""

    kind = "series"
    part = "step"

    file: SeriesFile
    processor: SeriesProcessor
    task: Literal["forecast", "fill", "classify"]
    chosen: int = 0  # which of the series is shown
    origin: int = 0  # how many of its steps are in the past
    held: tuple[int, ...] = ()  # of each series, the first step that was not learned from; none: nobody knows
    changes: Mapping[tuple[int, int], float] = field(default_factory=dict)  # (step, channel) -> deviations
    # what was computed before, for a served page that asks again and again
    kept: Kept = field(default_factory=Kept, repr=False)

    @property
    def series(self) -> Series:
        return self.file.series[self.chosen]

    @property
    def every(self) -> int:
        """So many steps are averaged to one."""
        return self.processor.fitted.every if self.task == "classify" else 1

    @property
    def season(self) -> int:
        return 1 if self.task == "classify" else self.processor.fitted.season

    @property
    def ahead(self) -> int:
        """Steps that are forecast."""
        return self.processor.fitted.horizon if self.task == "forecast" else 0

    def _encoded(self) -> Mapping[str, Any]:
        return self.processor.encode(Example({"series": self.series.part(0, self.origin)}))

    @property
    def window(self) -> Series:
        """The steps that the model reads, as they were."""
        found: Series = self._encoded()["series"]
        return found

    @property
    def scale(self) -> Scale:
        found: Scale = self._encoded()["scale"]
        return found

    @property
    def future(self) -> Series:
        """What came after them, as far as it is known."""
        return self.series.part(self.origin, min(len(self.series), self.origin + self.ahead))

    @property
    def values(self) -> Array:
        """What the model reads: the window with the changes of a reader, in the units of the data.   n c"""
        found, scale = self.window.values.copy(), self.scale
        for (step, channel), deviations in self.changes.items():
            found[step, channel] = scale.centre[channel] + deviations * scale.scale[channel]
        return found

    def once(self, scene: Scene, name: str, make: Callable[[], T]) -> T:
        """What `make` gives, computed once for the same series and the same silenced heads."""
        return self.kept.once((name, tuple(scene.silence)), make)

    def choose(self, number: int, origin: int | None = None) -> SeriesInput:
        """Another one of the series, or another moment of it. origin: None: the first forecast that was held out,
        or the last with a known future"""
        if not 0 <= number < len(self.file.series):
            raise RegardError(f"series are numbered 0 … {len(self.file.series) - 1}, got {number}")
        series = self.file.series[number]
        n = len(series)
        if origin is None:
            origin = n - self.ahead if n > 2 * self.ahead else n
            if self.held and self.task == "forecast":
                origin = min(self.held[number], origin)
        if not 1 <= origin <= n:
            raise RegardError(f"a moment of this series is 1 … {n}, got {origin}")
        name = series.name
        if len(self.file.series) == 1:
            name = "made hours" if self.file.path is None else self.file.path.rpartition("/")[2]
        return replace(self, chosen=number, origin=origin, changes={}, name=name).with_inputs()

    def change(self, changes: Mapping[tuple[int, int], float]) -> SeriesInput:
        """The same with other values of some steps."""
        return replace(self, changes=changes).with_inputs()

    def with_inputs(self) -> SeriesInput:
        """The tensors of what is chosen."""
        window = replace(self.window, values=self.values)
        x, where, _ = make_tensors([window], [self.scale])
        inputs = {"x": x} if where is None else {"x": x, "where": where}
        labels = tuple(self.file.clock.write(step * self.every) for step in window.times)
        truth = self.series.label if self.answers == "classes" else None
        return replace(self, inputs=inputs, streams=(Tokens("steps", labels, "items"),), truth=truth)


def _is_same(before: Any, given: Any) -> bool:
    """Is the same given again? Objects in memory are not compared, but for being one."""
    return before is given or (isinstance(given, str | bytes) and isinstance(before, str | bytes) and before == given)


class SeriesReader(Reader):
    """Reads the first series of a file; without one, the run's own, from the part that was held out. A served page
    can show other series and moments, and change values."""

    controls = (FILE, SERIES, ORIGIN, VALUES)
    takes_objects = True

    def __init__(
        self,
        run: Run,
        model: nn.Module,
        processor: Any,
        task: Literal["forecast", "fill", "classify"],
        views: tuple[View, ...],
    ) -> None:
        assert isinstance(model, SeriesModel) and isinstance(processor, SeriesProcessor)
        self.run, self.model, self.processor, self.task, self.views = run, model, processor, task, views
        self.last: tuple[Any, SeriesInput] | None = None  # what was read, and what it became

    def read(self, given: Any = None, target: str | bytes | None = None) -> SeriesInput:
        if self.last is None or not _is_same(self.last[0], given):
            self.last = given, self._open(given)
        return self.last[1]

    def change(self, given: ModelInput, values: Mapping[str, Any]) -> ModelInput:
        assert isinstance(given, SeriesInput)
        if "series" in values:
            given = given.choose(values["series"])
        if "origin" in values and self.task == "forecast":
            given = given.choose(given.chosen, values["origin"])
        if "values" in values:
            given = given.change(read_changes(values["values"], given))
        return given

    def _open(self, given: Any) -> SeriesInput:
        if given is None:
            return self._own()
        if not isinstance(given, str | bytes):
            file = self.processor.read_file(given)
            return self._make(file, (), file.notes)
        with at_path(given) as path:
            file = self.processor.read_file(str(path))
        if isinstance(given, bytes):
            file = replace(file, path="the file")
        return self._make(file, (), file.notes)

    def _own(self) -> SeriesInput:
        """The run's own series, which may be gone."""
        config, counts = self.processor.config, self.run.config.counts or {}
        try:
            if self.run.config.given is not None:
                raise FileNotFoundError(f"the data of {self.run.path} was in memory")
            file = self.processor.read_file(config.path)
            if self.task == "classify":
                return self._make(file, (), ())
            splits = split_by_time(file, replace(config, horizon=self.processor.fitted.horizon))
        except (OSError, ValueError):
            return self._make(self._drawn(), (), (GONE,))
        file = replace(file, series=tuple(each.series for each in splits.parts))
        starts = tuple(each.validation if counts.get("test") else each.train for each in splits.parts)
        return self._make(file, starts, ())

    def _drawn(self) -> SeriesFile:
        """A series that nobody measured, where there is no other."""
        fitted = self.processor.fitted
        steps = fitted.longest if self.task == "classify" else fitted.context + fitted.horizon
        x = self.model.sample_inputs(tokens=steps, rows=1)["x"][0]
        series = Series(name="drawn at random", times=np.arange(len(x), dtype=np.float64), values=x.double().numpy())
        return SeriesFile(path="drawn at random", channels=fitted.channels, series=(series,), clock=Clock())

    def _make(self, file: SeriesFile, held: tuple[int, ...], notes: tuple[str, ...]) -> SeriesInput:
        known = [k for k, each in enumerate(file.series) if not each.empty]
        if not known:
            raise RegardError(f"{file.path} has no known value, so there is nothing to look at")
        first = known[0]
        if self.task == "fill":  # one that has gaps
            first = next((k for k in known if np.isnan(file.series[k].values).any()), first)
        found = SeriesInput(
            inputs={"x": torch.zeros(1, 0, 0)},
            file=file,
            processor=self.processor,
            task=self.task,
            held=held,
            notes=notes,
        )
        return explain_output(found, self.processor.target).choose(first)


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
