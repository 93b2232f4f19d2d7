"""What can be set of series: where they come from, what is asked of them, and what is held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regard.config import check_positive, check_sizes
from regard.data.dialect import TableConfig
from regard.data.splits import SplitConfig, check_splits
from regard.errors import RegardError
from regard.recipes.series.clock import Clock

DEFAULT = "hours"  # the made series


@dataclass(frozen=True, kw_only=True)
class SeriesDataConfig(TableConfig, SplitConfig):
    """Which series, and what is asked of them. Forecasts and gaps hold out the last part of each series in time,
    classes hold out whole series."""

    # a table (.csv, .tsv, .parquet, .jsonl) or arrays (.npz, .npy); None: a made series with a day and a week in it
    path: str | None = None
    # column of the times, numbers or ISO dates; None: time, date, ..., or a first column of dates; else the rows
    # are equal steps
    time: str | None = None
    # column that names the series of each row, in a table of several; None: series, unique_id, ..., else there is one
    id: str | None = None
    label: str | None = None  # column of the class of each series; None: label or class
    columns: tuple[str, ...] = ()  # columns of the numbers, one for each channel; none: all others
    horizon: int | None = None  # steps ahead that are forecast; None: a season, or what fits
    # steps after which the series repeats itself, for the seasonal naive forecast; None: from dates or the data
    season: int | None = None
    context: int | None = None  # steps that the model sees; None: what fits two seasons or two horizons
    lags: int | None = None  # steps back that the linear part reads; None: two seasons, or what fits
    hidden: float = 0.2  # gaps: share of the known steps that are hidden in training, and asked for

    paths: ClassVar[tuple[str, ...]] = ("path",)

    def __post_init__(self) -> None:
        check_sizes(self)
        check_splits(self, "series")
        names = ("horizon", "season", "context", "lags")
        check_positive(self, *(name for name in names if getattr(self, name) is not None))
        if not 0 < self.hidden < 1:
            raise RegardError(f"hidden is a share of the steps, above 0 and below 1, got {self.hidden}")
        if len(set(self.columns)) < len(self.columns):
            raise RegardError(f"columns names one twice: {' '.join(self.columns)}")


@dataclass(frozen=True, kw_only=True)
class SeriesInfo:
    """What later commands need to know of the data: `corpus` in config.json."""

    path: str | None
    task: str
    channels: tuple[str, ...]
    series: int
    steps: int  # of all series
    clock: Clock
    horizon: int
    season: int
    context: int
    labels: tuple[str, ...] | None = None
    every: int = 1  # classes: so many steps are averaged to one
    centre: tuple[float, ...] = ()  # classes: mean and deviation of each channel in training
    scale: tuple[float, ...] = ()
    train: int = 0  # steps, or series, of each split
    validation: int = 0
    test: int = 0
