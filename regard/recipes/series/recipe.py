"""The recipe for series of numbers over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from regard.errors import RegardError
from regard.recipes.base import Recipe
from regard.recipes.example import Examples
from regard.recipes.problem import Problem
from regard.recipes.series.config import LabelledSeriesConfig, PredictOptions, SampleOptions, SeriesDataConfig
from regard.recipes.series.defaults import KINDS, TASKS, TOGETHER, choose_defaults, data_section, split_kind, task_of
from regard.recipes.series.problems import Forecast, Impute, LabelSeries
from regard.recipes.series.processor import LabelledProcessor
from regard.recipes.settings import Settings, check_choice
from regard.runs.run import Run


class SeriesRecipe(Recipe):
    """Series of numbers over time: what comes, what is missing, or a label."""

    name = "series"
    title = "Series: numbers over time, of which a model forecasts what comes, fills gaps, or says a label."
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
        "regard train series --data wells.csv --data.id well --data.label depth --data.asks numbers",
        "regard train series --data sensors.csv --task fill",
        "regard predict runs/load load.csv --horizon 48 --out forecast.csv",
    )
    models = tuple(KINDS.values())
    aliases: ClassVar[Mapping[str, str]] = {**KINDS, **TOGETHER}
    tasks: ClassVar[Mapping[str, tuple[str, ...]]] = {task: tuple(KINDS.values()) for task in TASKS}
    early_options = ("data.label",)  # whoever names this column wants labels
    reading_options = ("time", "id", "label", "columns")
    in_memory = "a table, or arrays"
    data_derived: ClassVar[Mapping[str, str]] = {
        "model.channels": "give --data.columns",
        "model.task": "give --task",
        "model.classes": "",
        "model.horizon": "give --data.horizon",
        "model.lags": "give --data.lags",
        "model.season": "give --data.season",
    }
    predict_options = PredictOptions
    generate_options = SampleOptions
    labels = LabelSeries(processor=LabelledProcessor, config=LabelledSeriesConfig, unit="series", speed="steps")
    problems: ClassVar[Mapping[str, Problem]] = {each.name: each for each in (Forecast(), Impute(), labels)}

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
    ) -> SeriesDataConfig:
        return data_section(data, kind, early)

    def choose_defaults(self, data: SeriesDataConfig, examples: Examples | None, kind: str | None) -> Settings:
        return choose_defaults(data, kind)

    def problem_of(self, data: SeriesDataConfig, kind: str | None) -> Problem:
        return next(each for each in self.problems.values() if type(data) is each.config)

    def refine_start(self, settings: Settings, start: Run) -> Settings:
        wanted, before = task_of(settings.data), settings.model.task
        if wanted != before:
            raise RegardError(
                f"cannot start from {start.path}: it learned to {before}, and this run is to {wanted}; name its task, or "
                "train from the beginning"
            )
        return super().refine_start(settings, start)


RECIPE = SeriesRecipe()
