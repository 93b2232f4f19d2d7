"""The recipe for series of numbers over time."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from regard import registry
from regard.errors import RegardError
from regard.recipes.base import Recipe
from regard.recipes.example import Examples
from regard.recipes.problem import Problem
from regard.recipes.series.config import ForecastConfig, ImputeConfig, LabelledSeriesConfig, SeriesDataConfig
from regard.recipes.series.problems import Forecast, Impute, LabelSeries
from regard.recipes.series.processor import LabelledProcessor
from regard.recipes.series.read_series import has_labels
from regard.recipes.settings import Settings, check_choice, settings_of_kind
from regard.runs.run import Run
from regard.training.config import TrainConfig

UNKNOWN = 1  # stands for a size that follows from the data

# what a person types -> the name in the registry
KINDS = {"transformer": "transformerseries", "lstm": "lstmseries", "gru": "gruseries", "conv": "convseries"}
SECTIONS: dict[str, type[SeriesDataConfig]] = {
    "forecast": ForecastConfig,
    "classify": LabelledSeriesConfig,
    "fill": ImputeConfig,
}
TASKS = tuple(SECTIONS)
# a task and a kind in one word
TOGETHER = {f"{task}-{kind}": name for task in TASKS for kind, name in KINDS.items()}


def split_kind(kind: str | None) -> tuple[str | None, str]:
    """The task, if the word says one, and the name in the registry."""
    if kind is None:
        return None, "transformerseries"
    if kind in KINDS.values():
        return None, kind
    if kind in TOGETHER:
        return kind.partition("-")[0], TOGETHER[kind]
    check_choice("kind of model of series", kind, tuple(KINDS))
    return None, KINDS[kind]


def task_of(data: SeriesDataConfig) -> str:
    """What is learned by this section of the settings."""
    return next(task for task, section in SECTIONS.items() if type(data) is section)


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
    reading_options = ("time", "id", "label", "columns")
    data_derived: ClassVar[Mapping[str, str]] = {
        "model.channels": "give --data.columns",
        "model.task": "give --task",
        "model.classes": "",
        "model.horizon": "give --data.horizon",
        "model.lags": "give --data.lags",
        "model.season": "give --data.season",
    }
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

    def data_section(self, data: Any, kind: str | None = None, given: Collection[str] = ()) -> SeriesDataConfig:
        """Labels are learned if there are some, unless a task is named. data: a path, a table or arrays"""
        task, _ = split_kind(kind)
        path = os.fspath(data) if isinstance(data, str | os.PathLike) else None
        if task == "classify":
            return LabelledSeriesConfig(path=path, asks="classes")
        if task is None:
            task = "classify" if "data.label" in given or has_labels(data) else "forecast"
        return SECTIONS[task](path=path)

    def choose_defaults(self, data: SeriesDataConfig, examples: Examples | None, kind: str | None) -> Settings:
        task: Any = task_of(data)
        _, name = split_kind(kind)
        classes = 2 if task == "classify" else None
        model = registry.find("models", name).Config(channels=UNKNOWN, task=task, classes=classes)
        train = TrainConfig(
            minutes=None,
            steps=300,
            batch=32,
            optimiser="adamw",
            lr=5e-4,
            weight_decay=0.05,
            warmup=20,
            decay=0.6,
            evaluate_every=30,
            precision="float32",
            threads=1,  # such small models gain nothing from more
        )
        if task == "classify":
            train = replace(train, lr=2e-3)
        if task == "fill":
            train = replace(train, steps=500, lr=1e-3)
        section: Any = type(data)
        return settings_of_kind(name, section)(data=data, model=model, train=train)

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
