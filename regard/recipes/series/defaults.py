"""Default settings for series: the data and the task decide the model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.models.conv import ConvSeriesConfig
from regard.models.recurrent import GRUSeriesConfig, LSTMSeriesConfig
from regard.models.series import TransformerSeriesConfig
from regard.models.series_model import SeriesConfig
from regard.recipes.series.config import ForecastConfig, ImputeConfig, LabelledSeriesConfig, SeriesDataConfig
from regard.recipes.series.read_series import has_labels
from regard.recipes.settings import Settings, check_choice, settings_of_kind
from regard.training.config import TrainConfig

UNKNOWN = 1  # stands for a size that follows from the data

# what a person types -> the name in the registry
KINDS = {"transformer": "transformerseries", "lstm": "lstmseries", "gru": "gruseries", "conv": "convseries"}
CONFIGS: dict[str, type[SeriesConfig]] = {
    "transformerseries": TransformerSeriesConfig,
    "lstmseries": LSTMSeriesConfig,
    "gruseries": GRUSeriesConfig,
    "convseries": ConvSeriesConfig,
}
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
    if kind in CONFIGS:
        return None, kind
    if kind in TOGETHER:
        return kind.partition("-")[0], TOGETHER[kind]
    check_choice("kind of model of series", kind, tuple(KINDS))
    return None, KINDS[kind]


def task_of(data: SeriesDataConfig) -> str:
    """What is learned by this section of the settings."""
    return next(task for task, section in SECTIONS.items() if type(data) is section)


def data_section(data: Any, kind: str | None, early: Mapping[str, Any] | None) -> SeriesDataConfig:
    """Labels are learned if there are some, unless a task is named. data: a path, a table or arrays"""
    task, _ = split_kind(kind)
    path = os.fspath(data) if isinstance(data, str | os.PathLike) else None
    if task == "classify":
        return LabelledSeriesConfig(path=path, asks="classes")
    if task is None:
        task = "classify" if early or has_labels(data) else "forecast"
    return SECTIONS[task](path=path)


def choose_defaults(data: SeriesDataConfig, kind: str | None) -> Settings:
    """Settings for this data and kind of model."""
    task: Any = task_of(data)
    _, name = split_kind(kind)
    classes = 2 if task == "classify" else None
    model = CONFIGS[name](channels=UNKNOWN, task=task, classes=classes)
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
