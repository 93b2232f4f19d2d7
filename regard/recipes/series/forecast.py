"""Forecasts of a trained model for any series: quantiles of as many steps ahead as are asked for, in its units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from regard.data.array import Array
from regard.errors import RegardError
from regard.models.series_model import SeriesModel
from regard.recipes.series.series import Scale, Series

TOGETHER = 64  # series that are read at once


@torch.no_grad()
def forecast(model: SeriesModel, past: Sequence[Series], horizon: int, context: int) -> list[Array]:
    """Quantiles of the next steps of each series.   -> horizon q c each

    Beyond the horizon that the model was trained for, it goes on from its own median, and the band is as wide as
    if the errors of both parts were independent.
    """
    found: list[Array] = []
    for k in range(0, len(past), TOGETHER):
        found += _forecast_some(model, past[k : k + TOGETHER], horizon, context)
    return found


def _forecast_some(model: SeriesModel, past: Sequence[Series], horizon: int, context: int) -> list[Array]:
    scales = [Scale.measure(each.values[-context:]) for each in past]
    parts = [run_model(model, past, scales, context)]
    while sum(part.shape[1] for part in parts) < horizon:
        before = parts[-1]
        middle = model.config.quantiles.index(0.5)
        past = [_grow(each, before[row, :, middle]) for row, each in enumerate(past)]
        parts.append(_widen(run_model(model, past, scales, context), before[:, -1], middle))
    whole = np.concatenate(parts, 1)[:, :horizon]
    return list(whole)


def run_model(model: SeriesModel, past: Sequence[Series], scales: Sequence[Scale], context: int) -> Array:
    """One forecast after the end of each series.   -> b h q c"""
    for each in past:
        if np.isnan(each.values).all():
            raise RegardError(f"'{each.name}' has no known value, so nothing can be forecast")
    x, where, real = make_tensors([each.part(max(0, len(each) - context), len(each)) for each in past], scales)
    asked = real.sum(1)[:, None] - 1
    like = next(model.parameters())
    out = model(x.to(like), where=where, real=None if bool(real.all()) else real, asked=asked)
    found = out[:, 0].float().cpu().numpy()
    return np.stack([scale.restore(each) for scale, each in zip(scales, found, strict=True)])


def make_tensors(
    past: Sequence[Series], scales: Sequence[Scale]
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """Series side by side, as a model reads them: values b n c, times b n (None: equal steps), real b n."""
    longest = max(len(each) for each in past)
    x = np.zeros((len(past), longest, past[0].values.shape[1]), dtype=np.float32)
    where, real = np.zeros((len(past), longest)), np.zeros((len(past), longest), dtype=bool)
    for row, (each, scale) in enumerate(zip(past, scales, strict=True)):
        n = len(each)
        x[row, :n], real[row, :n], where[row, :n] = scale.apply(each.values), True, each.times - each.times[0]
    equal = all(each.equal for each in past)
    return torch.from_numpy(x), None if equal else torch.from_numpy(where), torch.from_numpy(real)


def _grow(series: Series, values: Array) -> Series:
    """The series with steps after its end.   h c"""
    times = series.times[-1] + 1 + np.arange(len(values))
    return replace(series, times=np.concatenate((series.times, times)), values=np.concatenate((series.values, values)))


def _widen(part: Array, before: Array, middle: int) -> Array:
    """Widths grow as roots of sums of squares.   b h q c, b q c"""
    centre = part[:, :, middle : middle + 1]
    width, more = part - centre, (before - before[:, middle : middle + 1])[:, None]
    return centre + np.sign(width) * np.sqrt(np.square(width) + np.square(more))
