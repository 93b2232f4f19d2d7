"""Sampled futures: one step is drawn from its quantiles, read as if it had come, and so on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from regard.config import Seed, Size, config
from regard.data.array import Array
from regard.data.batch import generator
from regard.errors import RegardError
from regard.models.series_model import SeriesModel
from regard.recipes.series.forecast import run_model
from regard.recipes.series.job import read_info
from regard.recipes.series.predict import read_file
from regard.recipes.series.series import Scale, Series
from regard.runs.run import Run


@config
class SampleOptions:
    """Sampled futures of a series, as lines of CSV."""

    data: str | None = None  # a file of series; None: that of the run, from its end on
    series: str | None = None  # the name of one of several series; None: the first
    count: Annotated[int, Field(ge=1, le=2**12)] = 5  # futures
    horizon: Size | None = None  # steps of each; None: as many as in training
    seed: Seed = 0  # the same seed gives the same futures


def sample_lines(run: Run, model: SeriesModel, options: SampleOptions) -> Iterator[str]:
    """A header, then a line for each future, step and channel."""
    info = read_info(run)
    if info.task != "forecast":
        raise RegardError(f"{run.path} was trained to {info.task}; futures are sampled by a forecast, --task forecast")
    file = read_file(run, options.data or info.path)
    names = [each.name for each in file.series]
    if options.series is not None and options.series not in names:
        raise RegardError(f"there is no series '{options.series}'; there are {', '.join(names[:5])}")
    past = file.series[names.index(options.series) if options.series is not None else 0]
    futures = sample_futures(model, past, options.count, options.horizon or info.horizon, info.context, options.seed)
    yield "future,time," + ",".join(file.channels) + "\n"
    for number, future in enumerate(futures, start=1):
        for h, values in enumerate(future):
            time = file.clock.write(past.times[-1] + 1 + h)
            yield f"{number},{time}," + ",".join(f"{value:.6g}" for value in values) + "\n"


@torch.no_grad()
def sample_futures(model: SeriesModel, past: Series, count: int, horizon: int, context: int, seed: int) -> Array:
    """Futures of one series.   -> count horizon c"""
    random = generator(seed, 47)
    past = past.part(max(0, len(past) - context), len(past))
    scale = Scale.measure(past.values)
    rows = [past] * count
    found = []
    for _ in range(horizon):
        quantiles = run_model(model, rows, [scale] * count, context)[:, 0]  # count q c
        drawn = _draw(quantiles, np.array(model.config.quantiles), random)
        found.append(drawn)
        rows = [
            replace(
                each,
                times=np.append(each.times[-context + 1 :], each.times[-1] + 1),
                values=np.concatenate((each.values[-context + 1 :], drawn[row, None])),
            )
            for row, each in enumerate(rows)
        ]
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
