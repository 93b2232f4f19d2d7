"""What can be set of series: where they come from, what is learned of them, and what is asked of a run."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from regard.config import Length, Rare, Seed, Size, config
from regard.data.dialect import TableConfig
from regard.data.splits import SplitConfig, check_splits
from regard.errors import RegardError
from regard.recipes.supervised import SupervisedConfig

DEFAULT = "hours"  # the made series


@config
class SeriesDataConfig(TableConfig, SplitConfig):
    """Which series, and what the columns of their table are."""

    paths: ClassVar[tuple[str, ...]] = ("path",)

    # a table (.csv, .tsv, .parquet, .jsonl) or arrays (.npz, .npy); None: a made series with a day and a week in it
    path: str | None = None
    # column of the times, numbers or ISO dates; None: time, date, ..., or a first column of dates; else the rows
    # are equal steps
    time: str | None = None
    # column that names the series of each row, in a table of several; None: series, unique_id, ..., else there is one
    id: str | None = None
    label: str | None = None  # column of the class or the number of each series; None: label or class
    columns: tuple[str, ...] = ()  # columns of the numbers, one for each channel; none: all others
    # steps that the model sees; None: what fits two seasons or two horizons; of series with labels 512
    context: Length | None = None

    def __post_init__(self) -> None:
        check_splits(self, "series")
        if len(set(self.columns)) < len(self.columns):
            raise RegardError(f"names one twice: {','.join(self.columns)}", option="columns")


@config
class ForecastConfig(SeriesDataConfig):
    """Series of which the last part in time is held out, to forecast it."""

    horizon: Size | None = None  # steps ahead that are forecast; None: a season, or what fits
    # steps after which the series repeats itself, for the seasonal naive forecast; None: from dates or the data
    season: Annotated[int, Field(ge=1, le=2**14)] | None = None
    # steps back that the linear part reads; None: two seasons, or what fits
    lags: Rare[Annotated[int, Field(ge=1, le=2**14)] | None] = None


@config
class ImputeConfig(ForecastConfig):
    """Series of which the last part in time is held out, to fill gaps that are made in it. horizon: the longest gap"""

    # share of the known steps that are hidden in training, and asked for
    hidden: Rare[Annotated[float, Field(gt=0, lt=1)]] = 0.2


@config
class LabelledSeriesConfig(SeriesDataConfig, SupervisedConfig):
    """Which series to read, and their labels: whole series are held out."""

    unit: ClassVar[str] = "series"


@config
class PredictOptions:
    """What is asked of series."""

    horizon: Size | None = None  # steps ahead that are forecast; None: as many as in training


@config
class SampleOptions:
    """Sampled futures of a series, as lines of CSV."""

    data: str | None = None  # a file of series; None: that of the run, from its end on
    series: str | None = None  # the name of one of several series; None: the first
    count: Annotated[int, Field(ge=1, le=2**12)] = 5  # futures
    horizon: Size | None = None  # steps of each; None: as many as in training
    seed: Seed = 0  # the same seed gives the same futures
