"""What is learned of series: what comes, what is missing, or a label. The first two hold out the last part in time, and judge
other data as they judge their own."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from torch import nn

from regard.data.array import Array
from regard.errors import RegardError
from regard.look.reader import Reader
from regard.models.series import SeriesModel
from regard.recipes.describe import describe_data, format_count, format_splits
from regard.recipes.evaluation import Evaluation, evaluate_finished
from regard.recipes.example import Examples
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.problem import Problem
from regard.recipes.series.config import ForecastConfig, ImputeConfig, PredictOptions, SampleOptions
from regard.recipes.series.evaluation import MOST, SeriesEvaluation, evaluate_forecasts
from regard.recipes.series.fit_linear import fit_linear
from regard.recipes.series.forecast import forecast, sample_futures
from regard.recipes.series.gaps import evaluate_gaps, fill_gaps
from regard.recipes.series.processor import TimeFitted, TimeProcessor
from regard.recipes.series.reader import SeriesReader
from regard.recipes.series.series import Series, SeriesFile
from regard.recipes.series.task import ForecastTask, ImputeTask
from regard.recipes.series.time_splits import TimeSplits, hold_out_all, split_by_time
from regard.recipes.series.views.ahead import AheadView
from regard.recipes.series.views.series import SeriesView
from regard.recipes.series.windows import ForecastSource, GapSource
from regard.recipes.settings import Settings, read_settings
from regard.recipes.supervised import Supervised
from regard.runs.run import Run
from regard.training.tasks import Task

VIEWS = (SeriesView(), AheadView())


class TimeProblem(Problem):
    """Series that go on: the last part of each is held out."""

    name: Literal["forecast", "fill"]
    config: type[ForecastConfig]
    options = PredictOptions
    asks: ClassVar[str]  # what is asked, in words: {} steps ahead

    # ── training

    def read(self, config: ForecastConfig, given: Any = None) -> Examples:
        return TimeProcessor(config).read(config.path if given is None else given, want="learn")

    def prepare(self, settings: Settings, kind: str, context: DataContext) -> Job:
        data, examples, old = settings.data, context.examples, context.old
        if examples is None:
            examples = self.read(data, context.given)
        file: SeriesFile = examples.about["file"]
        if old is not None and old.config.problem == self.name:  # its weights have these sizes
            fitted = self.open(old).fitted
            file = file.in_steps_of(fitted.clock)
            data = replace(data, horizon=data.horizon or fitted.horizon, lags=data.lags or fitted.lags)
        job = self.make_job(settings, kind, file, split_by_time(file, data))
        return job if job.counts["test"] else replace(job, test=None)

    @abstractmethod
    def make_job(self, settings: Settings, kind: str, file: SeriesFile, splits: TimeSplits, test: str = "test") -> Job:
        """The job on series that are split. test: what the test split is called"""

    def _shared(self, settings: Settings, kind: str, file: SeriesFile, splits: TimeSplits) -> dict[str, Any]:
        """What does not depend on what is asked: fields of the job."""
        fitted = splits.fitted
        sizes = {name: getattr(fitted, name) for name in ("horizon", "lags", "season")}
        counts = {"series": len(file.series), "steps": sum(map(len, file.series))}
        return {
            "kind": kind,
            "model": replace(settings.model, channels=len(file.channels), **sizes),
            "processor": TimeProcessor(settings.data, fitted),
            "counts": counts | dict(zip(("train", "validation", "test"), splits.counts, strict=True)),
            "source_name": file.path or "made hours",
            "unit": "steps",
            "notes": (*file.notes, *splits.notes),
        }

    def describe(self, job: Job) -> str:
        fitted, counts = job.processor.fitted, job.counts
        many = None if counts["series"] == 1 else format_count(counts["series"], "series")
        steps = f"{format_count(counts['steps'], 'steps')} of {format_count(len(fitted.channels), 'channels')}"
        repeats = f", a season of {fitted.season}" if fitted.season > 1 else ""
        what = f"{self.asks.format(fitted.horizon)} from {fitted.context}{repeats}"
        splits = format_splits(**{name: counts[name] for name in ("train", "validation", "test")})
        return describe_data(job.source_name, many, steps, what, splits)

    # ── using a run

    def open(self, run: Run) -> TimeProcessor:
        """The processor of a run."""
        return TimeProcessor(run.section(self.config, "data")).restore(run)

    def predict(self, run: Run, inputs: Sequence[Any], options: Any = None) -> Iterator[Prediction]:
        model, processor = self.load(run), self.open(run)
        assert isinstance(model, SeriesModel)
        for given in inputs:
            try:
                found = self.predict_file(model, processor.read_file(given), processor.fitted, options)
            except (ValueError, OSError) as error:
                name = os.fspath(given) if isinstance(given, str | os.PathLike) else type(given).__name__
                found = [Prediction(input=name, error=str(error))]
            yield from found

    @abstractmethod
    def predict_file(
        self, model: SeriesModel, file: SeriesFile, fitted: TimeFitted, options: PredictOptions | None
    ) -> list[Prediction]:
        """A prediction for each series of a file."""

    def evaluate(self, run: Run, data: Any, context: DataContext, options: Any = None) -> Evaluation:
        _refuse_horizon(options, "regard predict, and an evaluation has the horizon of the training")
        job = self.prepare_again(run, context) if data is None else self._prepare_other(run, data)
        return evaluate_finished(self.load(run), job, job.best_split)

    def read_other(
        self, run: Run, data: Any, context: DataContext, options: Any = None
    ) -> tuple[Task, Split, tuple[str, ...] | None]:
        job = self._prepare_other(run, data)
        return job.task, job.best_split, None

    def _prepare_other(self, run: Run, data: Any) -> Job:
        """Other data, all of it as a test."""
        processor, kind = self.open(run), str(run.config.kind)
        file = processor.read_file(data)
        splits = hold_out_all(file, processor.fitted, gaps=isinstance(self, Impute))
        return self.make_job(
            read_settings(self.settings_class(kind), run), kind, file, splits, file.path or "made hours"
        )

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return SeriesReader(run, model, self.open(run), self.name, VIEWS)


class Forecast(TimeProblem):
    """Quantiles of what comes."""

    name = "forecast"
    config = ForecastConfig
    generate_options = SampleOptions
    asks = "{} steps ahead"

    def make_job(self, settings: Settings, kind: str, file: SeriesFile, splits: TimeSplits, test: str = "test") -> Job:
        fitted, train = splits.fitted, settings.train
        how = {"context": fitted.context, "batch": train.batch, "seed": train.seed}
        source = ForecastSource(splits.parts, ahead=fitted.horizon, **how)
        windows = source.windows("test", MOST)

        def evaluate(model: nn.Module, split: Split) -> SeriesEvaluation:
            assert isinstance(model, SeriesModel)
            part = "validation" if split.name == "validation" else "test"
            return evaluate_forecasts(model, source, part, fitted.season, name=split.name)

        return Job(
            **self._shared(settings, kind, file, splits),
            task=ForecastTask(settings.model.quantiles, equal=source.equal),
            source=source,
            examples="forecasts",
            validation=len(source.windows("validation", MOST)) or None,
            test=Split(name=test, count=len(windows), unit="forecasts", batches=lambda: source.batches(windows)),
            fill=partial(fit_linear, source),
            evaluate=evaluate,
        )

    def predict_file(
        self, model: SeriesModel, file: SeriesFile, fitted: TimeFitted, options: PredictOptions | None
    ) -> list[Prediction]:
        horizon = fitted.horizon if options is None or options.horizon is None else options.horizon
        notes: tuple[str, ...] = file.notes
        if horizon > fitted.horizon:
            notes += (
                f"the model was trained for {fitted.horizon} steps ahead; beyond them it goes on from its own median, and "
                f"the band is only a guess; train with --data.horizon {horizon} for more",
            )
        if short := [each.name for each in file.series if len(each) < fitted.context // 4]:
            notes += (f"'{short[0]}' has few steps; the model learned from {fitted.context} at a time",)
        known = [each for each in file.series if not each.empty]
        answers = iter(forecast(model, known, horizon, fitted.context))
        found = []
        for each in file.series:
            if each.empty:
                why = "it has no known value, so nothing can be forecast"
                found.append(Prediction(input=_whole(file, each), error=why))
                continue
            values, steps = next(answers), each.times[-1] + 1 + np.arange(horizon)
            cells = list(np.ndindex(horizon, len(file.channels)))
            parts = [_number(model, file, each, steps[h], k, values[h, :, k]) for h, k in cells]
            found.append(Prediction(input=_whole(file, each), source=file.path, each=tuple(parts)))
        return [replace(found[0], notes=notes), *found[1:]]

    def generate(self, run: Run, options: SampleOptions, note: Callable[[str], None]) -> Iterator[str]:
        """A header, then a line for each future, step and channel."""
        model, processor = self.load(run), self.open(run)
        assert isinstance(model, SeriesModel)
        if options.data is None and run.config.given is not None:
            raise RegardError(f"{run.path} was trained on a {run.config.given} in memory; give the past with --data")
        file = processor.read_file(options.data or processor.config.path)
        names = [each.name for each in file.series]
        if options.series is not None and options.series not in names:
            raise RegardError(f"there is no series '{options.series}'; there are {', '.join(names[:5])}")
        past = file.series[0 if options.series is None else names.index(options.series)]
        horizon, context = options.horizon or processor.fitted.horizon, processor.fitted.context
        futures = sample_futures(model, past, options.count, horizon, context, options.seed)
        yield "future,time," + ",".join(file.channels) + "\n"
        for number, future in enumerate(futures, start=1):
            for h, values in enumerate(future):
                time = file.clock.write(past.times[-1] + 1 + h)
                yield f"{number},{time}," + ",".join(f"{value:.6g}" for value in values) + "\n"


class Impute(TimeProblem):
    """Quantiles of what is missing."""

    name = "fill"
    config = ImputeConfig
    asks = "gaps of up to {} steps"

    def predict(self, run: Run, inputs: Sequence[Any], options: Any = None) -> Iterator[Prediction]:
        _refuse_horizon(options, f"forecasts, and {run.path} was trained to fill gaps")
        return super().predict(run, inputs, options)

    def make_job(self, settings: Settings, kind: str, file: SeriesFile, splits: TimeSplits, test: str = "test") -> Job:
        fitted, train = splits.fitted, settings.train
        source = GapSource(splits.parts, context=fitted.context, batch=train.batch, seed=train.seed)
        task = ImputeTask(settings.model.quantiles, share=settings.data.hidden, longest=fitted.horizon)

        def evaluate(model: nn.Module, split: Split) -> SeriesEvaluation:
            assert isinstance(model, SeriesModel)
            return evaluate_gaps(model, task, split.batches(), fitted.season, split.name)

        return Job(
            **self._shared(settings, kind, file, splits),
            task=task,
            source=source,
            examples="windows",
            test=Split(name=test, count=None, unit="hidden values", batches=lambda: source.of("test")),
            evaluate=evaluate,
        )

    def predict_file(
        self, model: SeriesModel, file: SeriesFile, fitted: TimeFitted, options: PredictOptions | None
    ) -> list[Prediction]:
        found = [self._fill(model, file, each, fitted.context) for each in file.series]
        return [*found[:-1], replace(found[-1], notes=(*found[-1].notes, *file.notes))]

    @staticmethod
    def _fill(model: SeriesModel, file: SeriesFile, series: Series, context: int) -> Prediction:
        cells = np.argwhere(np.isnan(series.values))
        if not len(cells):
            return Prediction(input=_whole(file, series), notes=(f"'{series.name}' has no missing values",))
        values = fill_gaps(model, series, context)
        parts = [_number(model, file, series, series.times[i], k, values[i, :, k]) for i, k in cells]
        return Prediction(input=_whole(file, series), source=file.path, each=tuple(parts))


class LabelSeries(Supervised):
    """A class or a number of each series: whole series are held out."""

    def predict(self, run: Run, inputs: Sequence[Any], options: Any = None) -> Iterator[Prediction]:
        _refuse_horizon(options, f"forecasts, and {run.path} was trained on labels")
        return super().predict(run, inputs)

    def evaluate(self, run: Run, data: Any, context: DataContext, options: Any = None) -> Evaluation:
        _refuse_horizon(options, f"forecasts, and {run.path} was trained on labels")
        return super().evaluate(run, data, context)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return SeriesReader(run, model, self.open(run), "classify", VIEWS)


def _refuse_horizon(options: PredictOptions | None, why: str) -> None:
    if options is not None and options.horizon is not None:
        raise RegardError(f"--horizon is for {why}; leave it out")


def _whole(file: SeriesFile, series: Series) -> str:
    path = file.path or "made"
    return f"{path}, {series.name}" if len(file.series) > 1 else path


def _number(
    model: SeriesModel, file: SeriesFile, series: Series, step: float, channel: int, values: Array
) -> Prediction:
    """Quantiles of one number; what says which it is: the series and the channel if there are several, and the time."""
    row: dict[str, str | float] = {}
    if len(file.series) > 1:
        row["series"] = series.name
    row["time"] = file.clock.write(step)
    if len(file.channels) > 1:
        row["channel"] = file.channels[channel]
    named = {f"q{q:g}": float(value) for q, value in zip(model.config.quantiles, values, strict=True)}
    return Prediction(input=" ".join(map(str, row.values())), values=named, row=row)
