"""Predictions for files of series: what comes, what is missing, or which class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from regard.config import Size, config
from regard.data.array import Array
from regard.errors import RegardError
from regard.models.series_model import SeriesModel
from regard.recipes.prediction import Prediction, predict_each
from regard.recipes.series.forecast import forecast
from regard.recipes.series.gaps import fill_gaps, missing_cells
from regard.recipes.series.job import config_of, read_info
from regard.recipes.series.read_series import read_like
from regard.recipes.series.series import Series, SeriesFile
from regard.recipes.series.settings import SeriesInfo
from regard.runs.load import load_model
from regard.runs.run import Run


@config
class PredictOptions:
    """What is asked of series."""

    horizon: Size | None = None  # steps ahead that are forecast; None: as many as in training


def read_file(run: Run, path: str | None) -> SeriesFile:
    """Other series, read as a run reads its own: the same channels and steps."""
    info, config = read_info(run), run.section(config_of(run), "data")
    return read_like(replace(config, path=path), info.task, clock=info.clock, channels=info.channels)


@torch.no_grad()
def predict(run: Run, inputs: Sequence[str], options: PredictOptions) -> Iterator[Prediction]:
    """A prediction for each series of each file."""
    model, info = load_model(run), read_info(run)
    assert isinstance(model, SeriesModel)
    if options.horizon is not None and info.task != "forecast":
        raise RegardError(f"--horizon is for forecasts, and {run.path} was trained to {info.task}; leave it out")

    def predict_file(path: str) -> list[Prediction]:
        file = read_file(run, path)
        if info.task == "fill":
            found = [_fill(model, file, each, info) for each in file.series]
            return [*found[:-1], replace(found[-1], notes=(*found[-1].notes, *file.notes))]
        return _forecast(model, file, info, options.horizon or info.horizon)

    return predict_each(inputs, predict_file)


def _identity(file: SeriesFile, series: Series, channel: int, step: float) -> dict[str, str | float]:
    """What says which number it is: the series and the channel if there are several, and the time."""
    found: dict[str, str | float] = {}
    if len(file.series) > 1:
        found["series"] = series.name
    found["time"] = file.clock.write(step)
    if len(file.channels) > 1:
        found["channel"] = file.channels[channel]
    return found


def _numbers(
    file: SeriesFile, series: Series, channel: int, step: float, values: Array, quantiles: Sequence[float]
) -> Prediction:
    row = _identity(file, series, channel, step)
    named = {f"q{q:g}": float(value) for q, value in zip(quantiles, values, strict=True)}
    return Prediction(input=" ".join(map(str, row.values())), values=named, row=row)


def _whole(file: SeriesFile, series: Series) -> str:
    path = file.path or "made"
    return f"{path}, {series.name}" if len(file.series) > 1 else path


def _forecast(model: SeriesModel, file: SeriesFile, info: SeriesInfo, horizon: int) -> list[Prediction]:
    notes: tuple[str, ...] = file.notes
    if horizon > info.horizon:
        notes += (
            f"the model was trained for {info.horizon} steps ahead; beyond them it goes on from its own median, and the "
            f"band is only a guess; train with --data.horizon {horizon} for more",
        )
    short = [each.name for each in file.series if len(each) < info.context // 4]
    if short:
        notes += (f"'{short[0]}' has few steps; the model learned from {info.context} at a time",)
    found = []
    quantiles = model.config.quantiles
    for each, values in zip(file.series, _careful(model, file, horizon, info.context), strict=True):
        if isinstance(values, str):
            found.append(Prediction(input=_whole(file, each), error=values, notes=notes))
            notes = ()
            continue
        steps = each.times[-1] + 1 + np.arange(horizon)
        parts = tuple(
            _numbers(file, each, k, steps[h], values[h, :, k], quantiles)
            for h in range(horizon)
            for k in range(len(file.channels))
        )
        found.append(Prediction(input=_whole(file, each), source=file.path, each=parts, notes=notes))
        notes = ()
    return found


def _careful(model: SeriesModel, file: SeriesFile, horizon: int, context: int) -> list[Array | str]:
    """A forecast for each series; a series that has none has the reason."""
    empty = [bool(np.isnan(each.values).all()) for each in file.series]
    good = iter(forecast(model, [s for s, gone in zip(file.series, empty, strict=True) if not gone], horizon, context))
    return ["it has no known value, so nothing can be forecast" if gone else next(good) for gone in empty]


def _fill(model: SeriesModel, file: SeriesFile, series: Series, info: SeriesInfo) -> Prediction:
    cells = missing_cells(series)
    if not cells:
        return Prediction(input=_whole(file, series), notes=(f"'{series.name}' has no missing values",))
    values = fill_gaps(model, series, info.context)
    parts = tuple(_numbers(file, series, k, series.times[i], values[i, :, k], model.config.quantiles) for i, k in cells)
    return Prediction(input=_whole(file, series), source=file.path, each=parts)
