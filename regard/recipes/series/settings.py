"""What can be set of series: where they come from, what is asked of them, and what is held out."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from regard.config import Length, Natural, Rare, Size, config
from regard.data.dialect import TableConfig
from regard.data.splits import SplitConfig, check_splits
from regard.errors import RegardError
from regard.recipes.series.clock import Clock

DEFAULT = "hours"  # the made series


@config
class SeriesFileConfig(TableConfig, SplitConfig):
    """Which series, and what the columns of their table are."""

    paths: ClassVar[tuple[str, ...]] = ("path",)

    # a table (.csv, .tsv, .parquet, .jsonl) or arrays (.npz, .npy); None: a made series with a day and a week in it
    path: str | None = None
    # column of the times, numbers or ISO dates; None: time, date, ..., or a first column of dates; else the rows
    # are equal steps
    time: str | None = None
    # column that names the series of each row, in a table of several; None: series, unique_id, ..., else there is one
    id: str | None = None
    label: str | None = None  # column of the class of each series; None: label or class
    columns: tuple[str, ...] = ()  # columns of the numbers, one for each channel; none: all others
    # steps that the model sees; None: what fits two seasons or two horizons; for classes 512
    context: Length | None = None

    def __post_init__(self) -> None:
        check_splits(self, "series")
        if len(set(self.columns)) < len(self.columns):
            raise RegardError(f"names one twice: {','.join(self.columns)}", option="columns")


@config
class SeriesDataConfig(SeriesFileConfig):
    """Series of which the last part in time is held out, to forecast it or to fill its gaps."""

    horizon: Size | None = None  # steps ahead that are forecast; None: a season, or what fits
    # steps after which the series repeats itself, for the seasonal naive forecast; None: from dates or the data
    season: Annotated[int, Field(ge=1, le=2**14)] | None = None
    # steps back that the linear part reads; None: two seasons, or what fits
    lags: Rare[Annotated[int, Field(ge=1, le=2**14)] | None] = None
    # gaps: share of the known steps that are hidden in training, and asked for
    hidden: Rare[Annotated[float, Field(gt=0, lt=1)]] = 0.2


@config
class SeriesInfo:
    """What later commands need to know of the data: `corpus` in config.json, but of classes (see `read_info`)."""

    path: str | None
    task: str
    channels: tuple[str, ...]
    series: Natural
    steps: Natural  # of all series
    clock: Clock
    horizon: Size
    season: Size
    context: Length
    labels: tuple[str, ...] | None = None
    every: Size = 1  # classes: so many steps are averaged to one
    centre: tuple[float, ...] = ()  # classes: mean and deviation of each channel in training
    scale: tuple[float, ...] = ()
    train: Natural = 0  # steps, or series, of each split
    validation: Natural = 0
    test: Natural = 0
