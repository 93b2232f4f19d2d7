"""The recipe for series of numbers over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from regard.errors import RegardError
from regard.look.reader import Reader
from regard.models.series_model import SeriesModel
from regard.recipes.base import Recipe
from regard.recipes.describe import describe_data, format_count, format_splits
from regard.recipes.evaluation import Evaluation, evaluate_finished
from regard.recipes.example import Examples
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.problem import Problem
from regard.recipes.same_data import check_same_data
from regard.recipes.series.defaults import (
    KINDS,
    TASKS,
    TOGETHER,
    choose_defaults,
    data_section,
    settings_class_of,
    split_kind,
)
from regard.recipes.series.evaluation import evaluate_forecasts
from regard.recipes.series.gaps import evaluate_gaps
from regard.recipes.series.job import prepare_job, read_info
from regard.recipes.series.labelled_series import LabelledProcessor, LabelledSeriesConfig
from regard.recipes.series.predict import PredictOptions, predict, read_file
from regard.recipes.series.run_reader import SeriesReader
from regard.recipes.series.sample import SampleOptions, sample_lines
from regard.recipes.series.series import SeriesFile
from regard.recipes.series.settings import SeriesDataConfig, SeriesFileConfig, SeriesInfo
from regard.recipes.series.task import FillIn, Forecast
from regard.recipes.series.time_splits import Held
from regard.recipes.series.windows import ForecastSource, GapSource
from regard.recipes.settings import Settings, check_choice, read_settings
from regard.recipes.supervised import Supervised
from regard.runs.run import Run
from regard.runs.run_config import RunConfig
from regard.training.tasks import Task


class SeriesRecipe(Recipe):
    """Series of numbers over time: what comes, what is missing, or which class."""

    name = "series"
    title = "Series: numbers over time, of which a model forecasts what comes, fills gaps, or says the class."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "a table (.csv, .tsv, .parquet, .jsonl) with a row for each step and a column for each channel, or\n"
        "                arrays (.npz, .npy); without it, a made series of hours",
        "--model KIND": "transformer (default), lstm, gru or conv",
        "--task TASK": "forecast (default), classify (default if there is a column label or class) or fill",
    }
    examples = (
        "regard train series",
        "regard train series --data load.csv --data.horizon 24 --out runs/load",
        "regard train series --data sales.csv --data.id shop --data.time day --data.columns sold",
        "regard train series --data gestures.npz --task classify",
        "regard train series --data sensors.csv --task fill",
        "regard predict runs/load load.csv --horizon 48 --out forecast.csv",
    )
    models = tuple(KINDS.values())
    aliases: ClassVar[Mapping[str, str]] = {**KINDS, **TOGETHER}
    tasks: ClassVar[Mapping[str, tuple[str, ...]]] = {task: tuple(KINDS.values()) for task in TASKS}
    early_options = ("data.label",)  # whoever names this column wants classes
    reading_options = ("time", "id", "label", "columns")
    data_derived: ClassVar[Mapping[str, str]] = {
        "model.channels": "give --data.columns",
        "model.task": "give --task",
        "model.classes": "",
        "model.horizon": "give --data.horizon",
        "model.lags": "give --data.lags",
        "model.season": "give --data.season",
    }
    predict_options = PredictOptions
    classes = Supervised(processor=LabelledProcessor, config=LabelledSeriesConfig, unit="series", speed="steps")
    problems: ClassVar[Mapping[str, Problem]] = {classes.name: classes}
    generate_options = SampleOptions

    def __init__(self, options: PredictOptions | None = None) -> None:
        self.options = PredictOptions() if options is None else options

    def with_options(self, options: Any) -> SeriesRecipe:
        return SeriesRecipe(options)

    def choose_kind(self, kind: str | None, task: str | None, data: Any = None) -> str | None:
        if task is None:
            return kind
        check_choice("task of series", task, TASKS)
        said, name = split_kind(kind)
        if said not in (None, task):
            raise RegardError(f"--model {kind} is for --task {said}, got --task {task}; leave one of them out")
        short = next(word for word, known in KINDS.items() if known == name)
        return f"{task}-{short}"

    def data_section(
        self, data: Any, kind: str | None = None, early: Mapping[str, Any] | None = None
    ) -> SeriesFileConfig:
        return data_section(data, kind, early)

    def choose_defaults(self, data: SeriesFileConfig, examples: Examples | None, kind: str | None) -> Settings:
        return choose_defaults(data, kind)

    def problem_of(self, data: SeriesFileConfig, kind: str | None) -> Problem | None:
        return self.classes if isinstance(data, LabelledSeriesConfig) else None

    def settings_class(self, config: RunConfig) -> type[Settings]:
        return settings_class_of(config)

    def prepare(self, settings: Settings, context: DataContext) -> Job:
        if isinstance(settings.data, LabelledSeriesConfig):
            return super().prepare(settings, context)
        return prepare_job(settings, context)

    def describe(self, job: Job) -> str:
        if job.processor is not None:
            return super().describe(job)
        info = job.info
        many = None if info.series == 1 else format_count(info.series, "series")
        steps = f"{format_count(info.steps, 'steps')} of {format_count(len(info.channels), 'channels')}"
        repeats = f", a season of {info.season}" if info.season > 1 else ""
        what = f"gaps of up to {info.horizon} steps"
        if info.task == "forecast":
            what = f"{info.horizon} steps ahead"
        what = f"{what} from {info.context}{repeats}"
        splits = format_splits(info.train, info.validation, info.test)
        return describe_data(info.path or "made hours", many, steps, what, splits)

    def next_command(self, run: Run) -> str:
        info = read_info(run)
        if info.path is None:
            return f"regard look {run.quoted}"
        return f"regard predict {run.quoted} {info.path}"

    def predict(self, run: Run, inputs: Sequence[Any]) -> Iterator[Prediction]:
        if self.problem_of_run(run) is None:
            return predict(run, inputs, self.options)
        if self.options.horizon is not None:
            raise RegardError(f"--horizon is for forecasts, and {run.path} was trained to classify; leave it out")
        return super().predict(run, inputs)

    def evaluate(self, run: Run, data: str | None, context: DataContext) -> Evaluation:
        info = read_info(run)
        if self.options.horizon is not None:
            raise RegardError("--horizon is for regard predict; an evaluation has the horizon of the training")
        if data is None or info.task == "classify":
            if data is None and info.task != "classify":
                return self._evaluate_own(run, context)
            return super().evaluate(run, data, context)
        model = self.load(run)
        assert isinstance(model, SeriesModel)
        file = read_file(run, data)
        held = _all_of(file, info)
        if info.task == "fill":
            source = GapSource(held, context=info.context, batch=32, seed=0, equal=file.equal)
            return evaluate_gaps(model, self._fill_task(run, model, info), source.windows("test"), info.season, data)
        moments = ForecastSource(held, context=info.context, horizon=info.horizon, batch=32, seed=0, equal=file.equal)
        return evaluate_forecasts(model, moments, "test", info.season, data)

    def _evaluate_own(self, run: Run, context: DataContext) -> Evaluation:
        """The run's own test split, or the validation split without one."""
        job = self.prepare(read_settings(self.settings_class(run.config), run), context)
        check_same_data(run, job, "Give the data to evaluate on with --data")
        return evaluate_finished(self.load(run), job, job.best_split)

    @staticmethod
    def _fill_task(run: Run, model: SeriesModel, info: SeriesInfo) -> FillIn:
        share = run.section(SeriesDataConfig, "data").hidden
        return FillIn(model.config.quantiles, share=share, longest=info.horizon)

    def other_split(self, run: Run, data: str, context: DataContext) -> tuple[Task, Split, tuple[str, ...] | None]:
        if self.problem_of_run(run) is not None:
            return super().other_split(run, data, context)
        info, file = read_info(run), read_file(run, data)
        held = _all_of(file, info)
        source = ForecastSource(held, context=info.context, horizon=info.horizon, batch=32, seed=0, equal=file.equal)
        model = self.load(run)
        assert isinstance(model, SeriesModel)
        split = Split(name=data, count=None, unit="forecasts", batches=lambda: source.forecasts("test", 1024))
        return Forecast(model.config.quantiles, equal=file.equal), split, None

    def generate(self, run: Run, options: Any, note: Callable[[str], None]) -> Iterator[str]:
        model = self.load(run)
        assert isinstance(model, SeriesModel)
        return sample_lines(run, model, options)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        assert isinstance(model, SeriesModel)
        return SeriesReader(run, model)


def _all_of(file: SeriesFile, info: SeriesInfo) -> list[Held]:
    """Other series, all of whose steps but the first ones are a test."""
    found = []
    for each in file.series:
        first = min(info.context, len(each) // 2)
        if info.task == "forecast" and len(each) - first < info.horizon:
            continue
        first = 0 if info.task == "fill" else first
        found.append(Held(series=each, train=max(1, first), validation=max(0 if info.task == "fill" else 1, first)))
    if not found:
        raise RegardError(
            f"{file.path}: the longest series has {file.longest:,} steps; a forecast of {info.horizon} steps needs at "
            f"least {2 * info.horizon}"
        )
    return found


RECIPE = SeriesRecipe()
