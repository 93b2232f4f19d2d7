"""Series become a task, batches, and a model that fits them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from regard.models.series_model import SeriesModel
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.series.defaults import CONFIGS
from regard.recipes.series.evaluation import MOST, SeriesEvaluation, evaluate_forecasts
from regard.recipes.series.fit_linear import fit_linear
from regard.recipes.series.gaps import evaluate_gaps
from regard.recipes.series.labelled_series import LabelledProcessor, LabelledSeriesConfig
from regard.recipes.series.read_series import read_series
from regard.recipes.series.series import SeriesFile
from regard.recipes.series.settings import SeriesDataConfig, SeriesFileConfig, SeriesInfo
from regard.recipes.series.task import FillIn, Forecast
from regard.recipes.series.time_splits import TimeSplits, split_by_time
from regard.recipes.series.windows import ForecastSource, GapSource
from regard.recipes.settings import Settings
from regard.runs.run import Run


def prepare_job(settings: Settings, context: DataContext) -> Job:
    """Read the series; then make the task, the source and a config that fits."""
    data = settings.data
    assert isinstance(data, SeriesDataConfig)
    known = None
    if context.old is not None and context.old.config.corpus is not None:
        known = context.old.section(SeriesInfo, "corpus").clock
    file = read_series(data, settings.model.task, known=known)
    settings = _take_over(settings, context.old)
    make = {"forecast": _forecast, "fill": _fill}[settings.model.task]
    return make(settings, file)


def _take_over(settings: Settings, old: Run | None) -> Settings:
    """Horizon and lags of the run that is started from, whose weights have these sizes, unless others are asked for."""
    if old is None or old.config.kind != _kind(settings):
        return settings
    model = old.section(type(settings.model), "model")
    if model.task != settings.model.task:
        return settings
    data = settings.data
    wanted = replace(data, horizon=data.horizon or model.horizon, lags=data.lags or model.lags)
    return replace(settings, data=wanted)


def _kind(settings: Settings) -> str:
    return next(name for name, cls in CONFIGS.items() if type(settings.model) is cls)


def _info(settings: Settings, file: SeriesFile, **more: Any) -> SeriesInfo:
    return SeriesInfo(
        path=file.path,
        task=settings.model.task,
        channels=file.channels,
        series=len(file.series),
        steps=sum(len(each) for each in file.series),
        clock=file.clock,
        **more,
    )


def _time_info(settings: Settings, file: SeriesFile, splits: TimeSplits) -> SeriesInfo:
    train, validation, test = splits.counts
    return _info(
        settings,
        file,
        horizon=splits.horizon,
        season=splits.season,
        context=splits.context,
        train=train,
        validation=validation,
        test=test,
    )


def _forecast(settings: Settings, file: SeriesFile) -> Job:
    data, train = settings.data, settings.train
    splits = split_by_time(file, data)
    equal = file.equal
    source = ForecastSource(
        splits.held, context=splits.context, horizon=splits.horizon, batch=train.batch, seed=train.seed, equal=equal
    )
    info = _time_info(settings, file, splits)

    def fill(model: nn.Module) -> None:
        assert isinstance(model, SeriesModel)
        fit_linear(model, source)

    def evaluate(model: nn.Module, split: Split) -> SeriesEvaluation:
        assert isinstance(model, SeriesModel)
        return evaluate_forecasts(model, source, split.name, splits.season)

    test = None
    if info.test:
        count = len(source.moments("test", MOST))
        batches = partial(source.forecasts, "test", MOST)
        test = Split(name="test", count=count, unit="forecasts", batches=batches)
    return Job(
        kind=_kind(settings),
        model=replace(settings.model, channels=len(file.channels), horizon=splits.horizon, lags=splits.lags),
        task=Forecast(settings.model.quantiles, equal=equal),
        source=source,
        info=info,
        unit="steps",
        examples="forecasts",
        notes=(*file.notes, *splits.notes),
        validation=len(source.moments("validation", MOST)) or None,
        test=test,
        fill=fill,
        evaluate=evaluate,
    )


def _fill(settings: Settings, file: SeriesFile) -> Job:
    data, train = settings.data, settings.train
    splits = split_by_time(file, data)
    source = GapSource(splits.held, context=splits.context, batch=train.batch, seed=train.seed, equal=file.equal)
    task = FillIn(settings.model.quantiles, share=data.hidden, longest=splits.horizon)
    info = _time_info(settings, file, splits)

    def evaluate(model: nn.Module, split: Split) -> SeriesEvaluation:
        assert isinstance(model, SeriesModel)
        return evaluate_gaps(model, task, split.batches(), splits.season, split.name)

    test = None
    if info.test:
        test = Split(name="test", count=None, unit="hidden values", batches=partial(source.windows, "test"))
    return Job(
        kind=_kind(settings),
        model=replace(
            settings.model, channels=len(file.channels), horizon=splits.horizon, lags=splits.lags, season=splits.season
        ),
        task=task,
        source=source,
        info=info,
        unit="steps",
        examples="windows",
        notes=(*file.notes, *splits.notes),
        test=test,
        evaluate=evaluate,
    )


def read_info(run: Run) -> SeriesInfo:
    """What a run knows of its data."""
    if run.config.processor is None:
        return run.section(SeriesInfo, "corpus")
    processor = LabelledProcessor(run.section(LabelledSeriesConfig, "data")).restore(run)
    fitted, counts = processor.fitted, run.config.counts or {}
    return SeriesInfo(
        path=processor.config.path,
        task="classify",
        channels=fitted.channels,
        series=sum(counts.get(name, 0) for name in ("train", "validation", "test")),
        steps=counts.get("steps", 0),
        clock=fitted.clock,
        horizon=1,
        season=1,
        context=fitted.longest,
        labels=processor.target.classes,
        every=fitted.every,
        centre=fitted.centre,
        scale=fitted.scale,
    )


def config_of(run: Run) -> type[SeriesFileConfig]:
    """The class of the data section of a run."""
    return SeriesDataConfig if run.config.processor is None else LabelledSeriesConfig
