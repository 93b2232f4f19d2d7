"""Gaps of series: filled by a trained model, and judged beside a straight line and the same moment of other seasons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from regard.data.array import Array
from regard.data.batch import Batch
from regard.errors import RegardError
from regard.models.series import SeriesModel
from regard.nn.lags import bridge_gaps
from regard.recipes.series.evaluation import SeriesEvaluation
from regard.recipes.series.series import Scale, Series, make_tensors, value_at
from regard.recipes.series.task import ImputeTask, pinball


@torch.no_grad()
def fill_gaps(model: SeriesModel, series: Series, context: int) -> Array:
    """Quantiles of every step of a series, of which only the missing ones are asked for.   -> n q c

    A long series is read in windows that overlap by half; each step is taken from the window in whose middle it is.
    """
    n, c = series.values.shape
    found = np.zeros((n, len(model.config.quantiles), c))
    stride = max(1, context // 2)
    starts = sorted({min(start, max(0, n - context)) for start in range(0, n, stride)})
    scale = Scale.measure(series.values)
    for start in starts:
        part = series.part(start, min(n, start + context))
        x, where, _ = make_tensors([part], [scale])
        out = model(x.to(next(model.parameters())), where=where)[0].float().cpu().numpy()
        first = 0 if start == 0 else context // 4
        found[start + first : start + len(part)] = scale.restore(out[first:])
    return found


@torch.no_grad()
def evaluate_gaps(
    model: SeriesModel, task: ImputeTask, batches: Iterable[Batch], season: int, split: str
) -> SeriesEvaluation:
    """Hidden steps in deviations of each series, beside a straight line and seasonal means."""
    model.eval()
    errors: dict[str, list[Array]] = {"model": [], "line": [], "naive": []}
    lost = inside = count = 0.0
    middle = model.config.quantiles.index(0.5)
    for batch in task.ask_always(batches):
        out, wanted, hidden = task.compare(model, batch)
        lost += float(pinball(out, wanted, hidden, task.quantiles).sum())
        inside += float(((wanted >= out[..., 0, :]) & (wanted <= out[..., -1, :]) & hidden).sum())
        count += float(hidden.sum())
        for name, found in (("model", out[..., middle, :]), ("line", _line(batch)), ("naive", _naive(batch, season))):
            errors[name].append((found - wanted)[hidden].abs().numpy())
    if not count:
        raise RegardError(f"cannot evaluate: nothing is hidden in the {split} split, which has no known values")
    rivals: dict[str, dict[str, float]] = {}
    for name, parts in errors.items():
        apart = np.concatenate(parts)
        rivals[name] = {"MAE": float(apart.mean()), "RMSE": float(np.sqrt(np.square(apart).mean()))}
    wide = task.quantiles[-1] - task.quantiles[0]
    measures = rivals.pop("model") | {"loss": lost / count, f"{wide:.0%} band covers": inside / count}
    called = {"straight line": rivals["line"], "naive": rivals["naive"]}
    return SeriesEvaluation(
        split=split,
        count=int(count),
        unit="hidden values, in deviations of their series",
        measures=measures,
        rivals=called,
        season=season,
    )


def _times(batch: Batch) -> torch.Tensor:
    b, n, _ = batch["x"].shape
    if "where" in batch:
        where: torch.Tensor = batch["where"]
        return where
    return torch.arange(n, dtype=torch.float64).expand(b, n)


def _line(batch: Batch) -> torch.Tensor:
    known = ~batch["x"].isnan()
    if "real" in batch:
        known &= batch["real"][..., None]
    return bridge_gaps(batch["x"], known, _times(batch))


def _naive(batch: Batch, season: int) -> torch.Tensor:
    """The mean of the same moment one season before and after, where the window has it; else the straight line."""
    x, times, line = batch["x"].numpy(), _times(batch).numpy(), _line(batch).numpy()
    found: Any = line.copy()
    if season < 2:
        return torch.from_numpy(found)
    for row, channel in np.ndindex(x.shape[0], x.shape[2]):
        n = int(batch["real"][row].sum()) if "real" in batch else x.shape[1]
        at, values = times[row, :n], x[row, :n, channel]
        sides = [_same_moment(at, values, at + by) for by in (-season, season)]
        both = np.stack(sides)
        there = ~np.isnan(both)
        mean = np.where(there, both, 0.0).sum(0) / np.maximum(there.sum(0), 1)
        found[row, :n, channel] = np.where(there.any(0), mean, line[row, :n, channel])
    return torch.from_numpy(found)


def _same_moment(times: Array, values: Array, asked: Array) -> Array:
    inside = (asked >= times[0]) & (asked <= times[-1])
    return np.where(inside, value_at(times, values, asked), np.nan)
