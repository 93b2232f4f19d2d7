"""How good forecasts are: errors of the median and of the band, beside a seasonal naive forecast, by steps ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard.data.array import Array
from regard.errors import RegardError
from regard.models.series import SeriesModel
from regard.recipes.describe import format_count
from regard.recipes.evaluation import Evaluation
from regard.recipes.series.series import Series, value_at
from regard.recipes.series.task import ForecastTask
from regard.recipes.series.windows import TOGETHER, ForecastSource, Window
from regard.runs.number_format import say_measures

MOST = 1024  # forecasts that are measured
RIVALS = {"model": "this model", "linear": "linear part", "naive": "seasonal naive"}


@dataclass(frozen=True, eq=False, kw_only=True)
class SeriesEvaluation(Evaluation):
    """Measures beside those of simple rivals."""

    rivals: dict[str, dict[str, float]] = field(default_factory=dict)  # name -> measures
    # rival -> mean absolute error 1, 2, … steps ahead; None: nothing came then
    by_step: dict[str, list[float | None]] = field(default_factory=dict)
    season: int = 1

    def to_json(self) -> dict[str, Any]:
        found = super().to_json() | {"rivals": self.rivals, "season": self.season}
        return found | ({"by_step": self.by_step} if self.by_step else {})

    def format(self) -> str:
        return "\n".join([super().format(), self.details()])

    def details(self) -> str:
        lines = [f"  {self._called(name)}: {say_measures(measures)}" for name, measures in self.rivals.items()]
        if len(self.by_step.get("model", ())) > 1:
            steps = _some_steps(len(self.by_step["model"]))
            for name, errors in self.by_step.items():
                known = [(k, error) for k in steps if (error := errors[k - 1]) is not None]
                said = "  ".join(f"{k}: {error:.3g}" for k, error in known)
                lines.append(f"  MAE after k steps, {RIVALS[name]:<14}  {said}")
        return "\n".join(lines)

    def _called(self, name: str) -> str:
        if name != "naive":
            return RIVALS.get(name, name)
        if self.season == 1:
            return "naive (the last value)"
        return f"seasonal naive ({format_count(self.season, 'steps')} before)"


def _some_steps(horizon: int) -> list[int]:
    """A few of 1 … horizon."""
    return sorted({1, *(round(horizon * share) for share in (0.25, 0.5, 0.75, 1.0))} - {0})


@dataclass(frozen=True, eq=False)
class Compared:
    """Forecasts beside what came, in the units of the data; NaN where that is not known."""

    truth: Array  # r h c
    quantiles: Array  # r h q c
    linear: Array  # r h c
    naive: Array  # r h c
    scaled: Array  # r c: the mean change over a season in the training part
    ahead: Array  # r h: how many steps later each came


@torch.no_grad()
def evaluate_forecasts(
    model: SeriesModel, source: ForecastSource, split: str, season: int, *, name: str | None = None, most: int = MOST
) -> SeriesEvaluation:
    """Forecasts from each moment of a split, judged; evenly chosen if there are more than `most`. name: of the split"""
    found = _compare_forecasts(model, source, source.windows(split, most), season)
    if np.isnan(found.truth).all():
        raise RegardError(f"cannot evaluate: the {split} split has no known value to compare with")
    rows = {"model": found.quantiles[:, :, model.config.quantiles.index(0.5)]}
    rows |= {"linear": found.linear, "naive": found.naive}
    rivals = {key: point_measures(found.truth, each, found.scaled) for key, each in rows.items()}
    measures = rivals.pop("model") | band_measures(found.truth, found.quantiles, model.config.quantiles)
    by_step = {key: _by_step(found, each) for key, each in rows.items()}
    return SeriesEvaluation(
        split=name or split,
        count=len(found.truth),
        unit=f"{source.ahead}-step forecasts",
        measures=measures,
        rivals=rivals,
        by_step=by_step,
        season=season,
    )


def _compare_forecasts(model: SeriesModel, source: ForecastSource, windows: Sequence[Window], season: int) -> Compared:
    """Forecasts after the end of some windows beside what came."""
    task = ForecastTask(model.config.quantiles, equal=source.equal)
    rows: list[tuple[Array, ...]] = []  # the fields of the result
    changes = {part: naive_errors(part.series.part(0, part.train), season) for part in source.parts}
    model.eval()
    for k in range(0, len(windows), TOGETHER):
        some = windows[k : k + TOGETHER]
        batch = source.make(some)
        out, _, _ = task.compare(model, batch)
        straight = model.linear(batch["x"], where=batch.get("where"), real=batch.get("real"))
        straight = torch.take_along_dim(straight, batch["asked"][..., None, None], 1)
        linear = task.at(straight[:, :, :, None], batch)[:, 0, :, 0]
        for row, (part, _, stop, _) in enumerate(some):
            series, after = part.series, np.arange(stop, stop + source.ahead)
            ahead = series.times[after] - series.times[stop - 1]
            truth = np.where((ahead <= source.ahead + 1e-6)[:, None], series.values[after], np.nan)
            found, straight_on = part.scale.restore(out[row, 0].numpy()), part.scale.restore(linear[row].numpy())
            naive = seasonal_naive(series.part(0, stop), season, ahead)
            rows.append((truth, found, straight_on, naive, changes[part], ahead))
    return Compared(*map(np.stack, zip(*rows, strict=True)))


def point_measures(truth: Array, found: Array, scaled: Array) -> dict[str, float]:
    """MAE, RMSE, and MASE: errors in units of the seasonal naive error of the training part.   r h c"""
    apart = np.abs(truth - found)
    measures = {"MAE": float(np.nanmean(apart)), "RMSE": float(np.sqrt(np.nanmean(np.square(apart))))}
    relative = apart / scaled[:, None]
    if not np.isnan(relative).all():
        measures["MASE"] = float(np.nanmean(relative))
    return measures


def band_measures(truth: Array, quantiles: Array, shares: Sequence[float]) -> dict[str, float]:
    """The weighted quantile loss, and how much of what came lies in the band from the lowest to the highest
    quantile.   r h c, r h q c"""
    q = np.array(shares)[:, None]
    apart = truth[:, :, None] - quantiles
    lost = 2 * np.maximum(q * apart, (q - 1) * apart).mean(2)
    size = float(np.nansum(np.abs(truth)))
    known = ~np.isnan(truth)
    inside = (truth >= quantiles[:, :, 0]) & (truth <= quantiles[:, :, -1])
    wide = shares[-1] - shares[0]
    found = {"weighted quantile loss": float(np.nansum(lost)) / size} if size > 0 else {}
    return found | {f"{wide:.0%} band covers": float(inside[known].mean())}


def _by_step(compared: Compared, found: Array) -> list[float | None]:
    """The mean over all that came in each step; of uneven steps, until its end."""
    apart = np.abs(compared.truth - found)
    step = np.ceil(compared.ahead - 1e-6).astype(int)
    errors: list[float | None] = []
    for k in range(1, apart.shape[1] + 1):
        some = apart[step == k]
        errors.append(float(np.nanmean(some)) if (~np.isnan(some)).any() else None)
    return errors


# ── what says nothing more than what was a season ago


def seasonal_naive(series: Series, season: int, ahead: Array) -> Array:
    """What was a whole number of seasons before; with no season or too short a past, the last value.   h -> h c

    ahead: steps after the last one
    """
    end = series.times[-1]
    back = season * np.ceil(ahead / season)
    asked = end + ahead - back
    asked = np.where(asked < series.times[0], end, asked)
    columns = [value_at(series.times, series.values[:, k], asked) for k in range(series.values.shape[1])]
    return np.stack(columns, 1)


def naive_errors(series: Series, season: int) -> Array:
    """The mean absolute change over one season, of each channel: what MASE divides by.   c, NaN: unknown"""
    before = series.times - season
    inside = before >= series.times[0]
    found = np.full(series.values.shape[1], np.nan)
    for k in range(len(found)):
        values = series.values[:, k]
        usable = inside & ~np.isnan(values)
        if usable.any():
            apart = np.abs(values[usable] - value_at(series.times, values, before[usable]))
            found[k] = apart.mean() if apart.mean() > 0 else np.nan
    return found
