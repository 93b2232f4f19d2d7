"""Forecasts of a trained model for any series, in its units: quantiles of as many steps ahead as are asked for, and futures
that are sampled from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from regard.data.array import Array
from regard.data.batch import generator
from regard.errors import RegardError
from regard.models.series import SeriesModel
from regard.recipes.series.series import Scale, Series, make_tensors

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
    parts = [_run_model(model, past, scales, context)]
    while sum(part.shape[1] for part in parts) < horizon:
        before = parts[-1]
        middle = model.config.quantiles.index(0.5)
        past = [_grow(each, before[row, :, middle]) for row, each in enumerate(past)]
        parts.append(_widen(_run_model(model, past, scales, context), before[:, -1], middle))
    whole = np.concatenate(parts, 1)[:, :horizon]
    return list(whole)


def _run_model(model: SeriesModel, past: Sequence[Series], scales: Sequence[Scale], context: int) -> Array:
    """One forecast after the end of each series.   -> b h q c"""
    for each in past:
        if each.empty:
            raise RegardError(f"'{each.name}' has no known value, so nothing can be forecast")
    x, where, real = make_tensors([each.last(context) for each in past], scales)
    asked = real.sum(1)[:, None] - 1
    like = next(model.parameters())
    out = model(x.to(like), where=where, real=None if bool(real.all()) else real, asked=asked)
    found = out[:, 0].float().cpu().numpy()
    return np.stack([scale.restore(each) for scale, each in zip(scales, found, strict=True)])


def _grow(series: Series, values: Array) -> Series:
    """The series with steps after its end.   h c"""
    times = series.times[-1] + 1 + np.arange(len(values))
    return replace(series, times=np.concatenate((series.times, times)), values=np.concatenate((series.values, values)))


def _widen(part: Array, before: Array, middle: int) -> Array:
    """Widths grow as roots of sums of squares.   b h q c, b q c"""
    centre = part[:, :, middle : middle + 1]
    width, more = part - centre, (before - before[:, middle : middle + 1])[:, None]
    return centre + np.sign(width) * np.sqrt(np.square(width) + np.square(more))


# ── sampled futures: one step is drawn from its quantiles, read as if it had come, and so on


@torch.no_grad()
def sample_futures(model: SeriesModel, past: Series, count: int, horizon: int, context: int, seed: int) -> Array:
    """Futures of one series.   -> count horizon c"""
    random = generator(seed, 47)
    past = past.last(context)
    scale = Scale.measure(past.values)
    rows = [past] * count
    found = []
    for _ in range(horizon):
        quantiles = _run_model(model, rows, [scale] * count, context)[:, 0]  # count q c
        drawn = _draw(quantiles, np.array(model.config.quantiles), random)
        found.append(drawn)
        rows = [_grow(each, drawn[row, None]).last(context) for row, each in enumerate(rows)]
    return np.stack(found, 1)


def _draw(quantiles: Array, shares: Array, random: np.random.Generator) -> Array:
    """A number between two neighbouring quantiles; the outer ones go on as far again.   b q c -> b c"""
    b, _, c = quantiles.shape
    low, high = 2 * quantiles[:, :1] - quantiles[:, 1:2], 2 * quantiles[:, -1:] - quantiles[:, -2:-1]
    values = np.concatenate((low, quantiles, high), 1)
    places = np.concatenate(([0.0], shares, [1.0]))
    u = random.random((b, c))
    out = np.empty((b, c))
    for row, channel in np.ndindex(b, c):
        out[row, channel] = np.interp(u[row, channel], places, values[row, :, channel])
    return out
