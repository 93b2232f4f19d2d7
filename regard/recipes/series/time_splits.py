"""What is held out of series that go on: the last part of each, in time. Nothing is shuffled. From what is left follow the
sizes that nobody asked for: the season, the horizon, and the steps that a model sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError
from regard.recipes.series.config import ForecastConfig
from regard.recipes.series.processor import TimeFitted
from regard.recipes.series.series import Scale, Series, SeriesFile, value_at

USUAL_TEST = 0.1
FEWEST = 8  # steps to learn from, at least
LONGEST = 384  # steps that a model sees, unless somebody says otherwise
SURE = 0.3  # autocorrelation from which a season is believed
LONGEST_SEASON = 400  # steps of a season that is looked for


@dataclass(frozen=True, eq=False, kw_only=True)
class SplitSeries:
    """One series, and where its training and validation parts end. A model reads it in units of its training part."""

    series: Series
    train: int
    validation: int

    @cached_property
    def scale(self) -> Scale:
        return Scale.measure(self.series.values[: self.train])

    @cached_property
    def x(self) -> Array:
        """The values as a model reads them.   n c float32, NaN where missing"""
        return self.scale.apply(self.series.values)

    def bounds(self, split: str) -> tuple[int, int]:
        """The first step of the validation or the test part, and where it ends."""
        return (self.validation, len(self.series)) if split == "test" else (self.train, self.validation)


@dataclass(frozen=True, eq=False, kw_only=True)
class TimeSplits:
    """All series with their parts, and what later commands need to know."""

    parts: tuple[SplitSeries, ...]
    fitted: TimeFitted
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> tuple[int, int, int]:
        """Steps of the three parts."""
        train = sum(each.train for each in self.parts)
        validation = sum(each.validation - each.train for each in self.parts)
        return train, validation, sum(len(each.series) - each.validation for each in self.parts)


def split_by_time(file: SeriesFile, config: ForecastConfig) -> TimeSplits:
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
    parts = []
    for each in file.series:
        if (sizes := _sizes(len(each), config, horizon)) is not None:
            parts.append(SplitSeries(series=each, train=sizes[0], validation=sizes[0] + sizes[1]))
    if not parts:
        fits = [h for h in range(1, longest // 2) if _sizes(longest, config, h) is not None]
        advice = f"use --data.horizon {fits[-1]} or less" if fits else f"give at least {_needed(1, config)} steps"
        raise RegardError(
            f"{file.path}: the longest series has {longest:,} steps, and a horizon of {horizon} needs "
            f"{_needed(horizon, config):,} for training, validation and test; {advice}"
        )
    if all(each.series.part(0, each.train).empty for each in parts):
        raise RegardError(f"{file.path} has no known value in the part that is learned from; fill some in")
    notes = []
    if len(parts) < len(file.series):
        gone = len(file.series) - len(parts)
        notes.append(f"{gone:,} of {len(file.series):,} series are too short for a horizon of {horizon} and left out")
    train = max(each.train for each in parts)
    lags = config.lags or min(max(2 * season, 24), max(2, train // 4), 512)
    context = config.context or min(max(2 * lags, 2 * horizon, 64), LONGEST + lags)
    context = max(2, min(context, train - horizon))
    fitted = TimeFitted(
        channels=file.channels,
        clock=file.clock,
        horizon=horizon,
        season=season,
        context=context,
        lags=min(lags, context),
    )
    return TimeSplits(parts=tuple(parts), fitted=fitted, notes=(*notes, *_constant_channels(file, parts)))


def hold_out_all(file: SeriesFile, fitted: TimeFitted, *, gaps: bool) -> TimeSplits:
    """Other series as a test: of forecasts all steps but those that a first one needs, of gaps all."""
    found = []
    for each in file.series:
        first = 0 if gaps else max(1, min(fitted.context, len(each) // 2))
        if gaps or len(each) - first >= fitted.horizon:
            found.append(SplitSeries(series=each, train=max(1, first), validation=first))
    if not found:
        raise RegardError(
            f"{file.path}: the longest series has {file.longest:,} steps; a forecast of {fitted.horizon} steps needs at "
            f"least {2 * fitted.horizon}"
        )
    return TimeSplits(parts=tuple(found), fitted=fitted)


def _sizes(n: int, config: ForecastConfig, horizon: int) -> tuple[int, int, int] | None:
    """Steps of training, validation and test; None: too few to learn from. The last two have a share, but two horizons if
    they fit a fifth of the series, and one at least."""
    least = max(horizon, min(2 * horizon, n // 5))
    shares = (config.validation, USUAL_TEST if config.test is None else config.test)
    validation, test = (max(least, round(share * n)) if share else 0 for share in shares)
    train = n - validation - test
    return (train, validation, test) if train >= max(FEWEST, 2 * horizon) else None


def _needed(horizon: int, config: ForecastConfig) -> int:
    """Steps that a series must have."""
    return next(n for n in count(1) if _sizes(n, config, horizon) is not None)


def _constant_channels(file: SeriesFile, parts: Sequence[SplitSeries]) -> list[str]:
    notes = []
    for k, name in enumerate(file.channels):
        values = np.concatenate([each.series.values[: each.train, k] for each in parts])
        values = values[~np.isnan(values)]
        if not len(values):
            notes.append(f"'{name}' has no known value in the training part; its forecasts mean nothing")
        elif values.min() == values.max():
            notes.append(f"'{name}' never changes in the training part; it is forecast as it is")
    return notes


# ── after how many steps a series repeats itself


def guess_season(file: SeriesFile, ends: Sequence[int]) -> int:
    """What the dates say, if the training part repeats itself so, else what it repeats itself by; 1: it does not.
    ends: where the training part of each series ends"""
    parts = [series.part(0, end) for series, end in zip(file.series, ends, strict=True)]
    longest = sorted(parts, key=len, reverse=True)[:5]
    votes = [_find_season(part, file.clock.season) for part in longest if len(part) >= 12]
    seasons = [vote for vote in votes if vote > 1]
    if 2 * len(seasons) <= len(votes):
        return 1
    return int(np.median(seasons))


def _find_season(series: Series, known: int | None) -> int:
    """The lag with the highest peak of the autocorrelation of the first channel, without its straight line."""
    x = _at_steps(series)[:, 0]
    n = len(x)
    x = x - np.polyval(np.polyfit(np.arange(n), x, 1), np.arange(n))
    power = float(np.square(x).sum())
    most = min(LONGEST_SEASON, n // 3)
    if not power > 1e-20 or most < 4:
        return 1
    size = 1 << (2 * n - 1).bit_length()
    r = np.fft.irfft(np.abs(np.fft.rfft(x, size)) ** 2)[: most + 2] / power
    r *= n / (n - np.arange(len(r)))  # as many pairs for each lag
    peaks = [k for k in range(2, most + 1) if r[k] >= r[k - 1] and r[k] >= r[k + 1] and r[k] > SURE]
    if not peaks:
        return 1
    highest = max(r[k] for k in peaks)
    if known is not None and 1 < known <= most and r[known] > 0.8 * highest:
        return known
    return next(k for k in peaks if r[k] > 0.9 * highest)


def _at_steps(series: Series) -> Array:
    """Its values at equal steps, on straight lines between those known.   m c"""
    times = series.times - series.times[0]
    grid = np.arange(min(int(times[-1]) + 1, 20_000), dtype=np.float64)
    return np.stack([value_at(times, series.values[:, k], grid) for k in range(series.values.shape[1])], 1)
