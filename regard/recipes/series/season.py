"""After how many steps a series repeats itself, and the forecast that says nothing more than that."""

from __future__ import annotations

import numpy as np

from regard.data.array import Array
from regard.recipes.series.series import Series, SeriesFile

SURE = 0.3  # autocorrelation from which a season is believed
LONGEST = 400  # steps of a season that is looked for


def guess_season(file: SeriesFile, ends: list[int]) -> int:
    """From the dates if they say it, else from the autocorrelation of the training part; 1: there is none.
    ends: where the training part of each series ends"""
    known = file.clock.season
    parts = [series.part(0, end) for series, end in zip(file.series, ends, strict=True)]
    longest = max((len(part) for part in parts), default=0)
    if known is not None and known > 1 and longest >= 2 * known:
        return known
    candidates = sorted(parts, key=len, reverse=True)[:5]
    votes = [_autocorrelated(part) for part in candidates if len(part) >= 12]
    return int(np.median([vote for vote in votes if vote > 1])) if any(vote > 1 for vote in votes) else 1


def _autocorrelated(series: Series) -> int:
    """The lag with the highest peak of the autocorrelation of the first channel, without its straight line."""
    n = len(series)
    x = _at_steps(series)[:, 0]
    line = np.polyfit(np.arange(len(x)), x, 1) if len(x) > 2 else (0.0, 0.0)
    x = x - np.polyval(line, np.arange(len(x)))
    power = float(np.square(x).sum())
    most = min(LONGEST, len(x) // 3)
    if power <= 1e-20 or most < 4 or n < 12:
        return 1
    size = 1 << (2 * len(x) - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(x, size)) ** 2
    r = np.fft.irfft(spectrum)[: most + 2] / power
    r *= len(x) / (len(x) - np.arange(len(r)))  # as many pairs for each lag
    peaks = [k for k in range(2, most + 1) if r[k] >= r[k - 1] and r[k] >= r[k + 1] and r[k] > SURE]
    if not peaks:
        return 1
    highest = max(r[k] for k in peaks)
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
