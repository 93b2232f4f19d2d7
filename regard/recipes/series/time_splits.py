"""What is held out of series that go on: the last part of each, in time. Nothing is shuffled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.errors import RegardError
from regard.recipes.series.season import guess_season
from regard.recipes.series.series import Series, SeriesFile
from regard.recipes.series.settings import SeriesDataConfig

USUAL_TEST = 0.1
FEWEST = 8  # steps to learn from, at least
LONGEST = 384  # steps that a model sees, unless somebody says otherwise


@dataclass(frozen=True, eq=False, kw_only=True)
class Held:
    """One series, and where its training and validation parts end."""

    series: Series
    train: int
    validation: int


@dataclass(frozen=True, eq=False, kw_only=True)
class TimeSplits:
    """All series with their parts, and the sizes that follow from them."""

    held: tuple[Held, ...]
    horizon: int
    season: int
    context: int
    lags: int
    notes: tuple[str, ...]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Steps of the three parts."""
        train = sum(each.train for each in self.held)
        validation = sum(each.validation - each.train for each in self.held)
        return train, validation, sum(len(each.series) - each.validation for each in self.held)


def split_by_time(file: SeriesFile, config: SeriesDataConfig) -> TimeSplits:
    """Cut each series in time."""
    if config.folds is not None:
        raise RegardError(
            f"{config.folds} folds would learn from what comes after the fold that is tested; the last part of a series "
            f"is its test split. For several runs, use --train.seeds {config.folds}"
        )
    longest = file.longest
    season = config.season
    if season is None:
        season = guess_season(file, [max(1, int(0.7 * len(each))) for each in file.series])
    horizon = config.horizon
    if horizon is None:
        horizon = season if 2 <= season <= longest // 8 else max(1, min(24, longest // 12))
    held = [found for each in file.series if (found := _cut(each, config, horizon)) is not None]
    if not held:
        fits = _largest_horizon(longest, config)
        advice = f"use --data.horizon {fits} or less" if fits else f"give at least {_needed(1, config)} steps"
        raise RegardError(
            f"{file.path}: the longest series has {longest:,} steps, and a horizon of {horizon} needs "
            f"{_needed(horizon, config):,} for training, validation and test; {advice}"
        )
    if all(np.isnan(each.series.values[: each.train]).all() for each in held):
        raise RegardError(f"{file.path} has no known value in the part that is learned from; fill some in")
    notes = []
    if len(held) < len(file.series):
        gone = len(file.series) - len(held)
        notes.append(f"{gone:,} of {len(file.series):,} series are too short for a horizon of {horizon} and left out")
    train = max(each.train for each in held)
    lags = config.lags or min(max(2 * season, 24), max(2, train // 4), 512)
    context = config.context or min(max(2 * lags, 2 * horizon, 64), LONGEST + lags)
    context = max(2, min(context, train - horizon))
    return TimeSplits(
        held=tuple(held),
        horizon=horizon,
        season=season,
        context=context,
        lags=min(lags, context),
        notes=(*notes, *_constant_channels(file, held)),
    )


def _shares(config: SeriesDataConfig) -> tuple[float, float]:
    return config.validation, USUAL_TEST if config.test is None else config.test


def _sizes(n: int, config: SeriesDataConfig, horizon: int) -> list[int]:
    """Steps of validation and test: a share, but two horizons if they fit a fifth of the series, and one at least."""
    least = max(horizon, min(2 * horizon, n // 5))
    return [max(least, round(share * n)) if share else 0 for share in _shares(config)]


def _cut(series: Series, config: SeriesDataConfig, horizon: int) -> Held | None:
    n = len(series)
    validation, test = _sizes(n, config, horizon)
    train = n - validation - test
    if train < max(FEWEST, 2 * horizon):
        return None
    return Held(series=series, train=train, validation=n - test)


def _needed(horizon: int, config: SeriesDataConfig) -> int:
    n = max(FEWEST, 2 * horizon)
    while n - sum(_sizes(n, config, horizon)) < max(FEWEST, 2 * horizon):
        n += 1
    return n


def _largest_horizon(n: int, config: SeriesDataConfig) -> int | None:
    fits = [h for h in range(1, n // 2) if n - sum(_sizes(n, config, h)) >= max(FEWEST, 2 * h)]
    return max(fits, default=None)


def _constant_channels(file: SeriesFile, held: list[Held]) -> list[str]:
    notes = []
    for k, name in enumerate(file.channels):
        parts = [each.series.values[: each.train, k] for each in held]
        values = np.concatenate(parts)
        values = values[~np.isnan(values)]
        if not len(values):
            notes.append(f"'{name}' has no known value in the training part; its forecasts mean nothing")
        elif values.min() == values.max():
            notes.append(f"'{name}' never changes in the training part; it is forecast as it is")
    return notes
