"""A made series, for a first look without any file: hours with a day and a week in them."""

from __future__ import annotations

import numpy as np

from regard.recipes.series.clock import HOUR, Clock
from regard.recipes.series.series import Series, SeriesFile

WEEKS = 12


def make_hours() -> SeriesFile:
    """Twelve weeks of hours: people use less at night and on weekends, more when it is cold, and no two days are
    alike. Channels: load, which follows the weather of the hours before, and temperature."""
    random = np.random.default_rng(34)
    n = WEEKS * 7 * 24
    hour = np.arange(n)
    of_day, of_week = hour % 24, hour // 24 % 7
    weather = np.zeros(n)
    for k in range(1, n):
        weather[k] = 0.97 * weather[k - 1] + random.normal(0, 0.5)
    temperature = 8 + 4 * np.sin(2 * np.pi * (of_day - 9) / 24) + 6 * hour / n + 2 * weather
    day = np.exp(-((of_day - 8) ** 2) / 8) + 1.3 * np.exp(-((of_day - 19) ** 2) / 10)
    day = day * np.where(of_week < 5, 1.0, 0.6)
    felt = np.convolve(temperature, np.ones(6) / 6)[:n]
    load = 40 + 18 * day - 0.8 * felt + random.normal(0, 1.0, n)
    start = (np.datetime64("2024-01-01") - np.datetime64("1970-01-01")).astype("timedelta64[s]").astype(float)
    clock = Clock(unit="seconds", step=HOUR)
    series = Series(name="made", times=hour + start / HOUR, values=np.stack([load, temperature], 1))
    return SeriesFile(path=None, channels=("load", "temperature"), series=(series,), clock=clock)
