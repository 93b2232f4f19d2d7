"""A window of a series as the model reads it, with what came after it where that is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError
from regard.look.model_input import ModelInput, Tokens
from regard.recipes.series.forecast import make_tensors
from regard.recipes.series.labelled_series import shorten
from regard.recipes.series.series import Scale, Series, SeriesFile
from regard.recipes.series.settings import SeriesInfo

if TYPE_CHECKING:
    from regard.look.scene import Scene

KEPT = 24  # things that are kept
LISTED = 500  # series that can be chosen
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class SeriesInput(ModelInput):
    """Some steps of one of some series."""

    kind = "series"
    part = "step"

    file: SeriesFile
    info: SeriesInfo
    chosen: int = 0  # which of the series is shown
    origin: int = 0  # how many of its steps are in the past
    held: tuple[int, ...] = ()  # of each series, the first step that was not learned from; none: nobody knows
    changes: Mapping[tuple[int, int], float] = field(default_factory=dict)  # (step, channel) -> deviations
    # what was computed before, for a served page that asks again and again
    kept: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def series(self) -> Series:
        return self.file.series[self.chosen]

    @property
    def window(self) -> Series:
        """The steps that the model reads, as they were."""
        whole = self.series
        if self.info.task == "classify":
            return shorten(whole, self.info.every)
        return whole.part(max(0, self.origin - self.info.context), self.origin)

    @property
    def future(self) -> Series:
        """What came after them, as far as it is known."""
        end = self.origin + (self.info.horizon if self.info.task == "forecast" else 0)
        return self.series.part(self.origin, min(len(self.series), end))

    @property
    def scale(self) -> Scale:
        if self.info.task == "classify":
            return Scale(np.array(self.info.centre), np.array(self.info.scale))
        return Scale.measure(self.window.values)

    @property
    def values(self) -> Array:
        """What the model reads: the window with the changes of a reader, in the units of the data.   n c"""
        found = self.window.values.copy()
        scale = self.scale
        for (step, channel), deviations in self.changes.items():
            found[step, channel] = scale.centre[channel] + deviations * scale.scale[channel]
        return found

    def once(self, scene: Scene, name: str, make: Callable[[], T]) -> T:
        """What `make` gives, computed once for the same series and the same silenced heads."""
        key = (name, tuple(scene.silence))
        if key not in self.kept:
            if len(self.kept) >= KEPT:
                self.kept.clear()
            self.kept[key] = make()
        found: T = self.kept[key]
        return found

    def choose(self, number: int, origin: int | None = None) -> SeriesInput:
        """Another one of the series, or another moment of it. origin: None: the first forecast that was held out,
        or the last with a known future"""
        if not 0 <= number < len(self.file.series):
            raise RegardError(f"series are numbered 0 … {len(self.file.series) - 1}, got {number}")
        series = self.file.series[number]
        n, ahead = len(series), self.info.horizon
        if origin is None:
            origin = n - ahead if n > 2 * ahead else n
            if self.held:
                origin = min(self.held[number], origin)
        if self.info.task != "forecast":
            origin = n
        if not 1 <= origin <= n:
            raise RegardError(f"a moment of this series is 1 … {n}, got {origin}")
        found = replace(self, chosen=number, origin=origin, changes={}, name=self._called(series))
        return found.with_inputs()

    def _called(self, series: Series) -> str:
        if len(self.file.series) > 1:
            return series.name
        return "made hours" if self.file.path is None else self.file.path.rpartition("/")[2]

    def change(self, changes: Mapping[tuple[int, int], float]) -> SeriesInput:
        """The same with other values of some steps."""
        return replace(self, changes=changes).with_inputs()

    def with_inputs(self) -> SeriesInput:
        """The tensors of what is chosen."""
        window = replace(self.window, values=self.values)
        x, where, _ = make_tensors([window], [self.scale])
        inputs: dict[str, Any] = {"x": x}
        if where is not None:
            inputs["where"] = where
        every = self.info.every if self.info.task == "classify" else 1
        labels = tuple(self.file.clock.write(step * every) for step in window.times)
        truth = self.series.label if self.info.task == "classify" else None
        return replace(self, inputs=inputs, streams=(Tokens("steps", labels, "items"),), truth=truth)
