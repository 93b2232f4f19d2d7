"""After how many steps a series repeats itself, and the forecast that says nothing more than that."""

from __future__ import annotations

import numpy as np

from regard.data.array import Array
from regard.recipes.series.series import Series, SeriesFile

SURE = 0.3  # autocorrelation from which a season is believed
LONGEST = 400  # steps of a season that is looked for


def guess_season(file: SeriesFile, ends: list[int]) -> int:
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
    most = min(LONGEST, n // 3)
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


def value_at(times: Array, values: Array, asked: Array) -> Array:
    """Values at other times, on straight lines between the known ones; NaN if none is known.   n, n, m -> m"""
    known = ~np.isnan(values)
    if not known.any():
        return np.full(len(asked), np.nan)
    found: Array = np.interp(asked, times[known], values[known])
    return found


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
