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
from regard.recipes.series.labelled_series import LabelledSeriesConfig
from regard.recipes.series.read_series import holds_classes
from regard.recipes.series.settings import SeriesDataConfig, SeriesFileConfig
from regard.recipes.settings import Settings, check_choice, path_of, settings_of_kind
from regard.runs.run_config import RunConfig
from regard.training.config import TrainConfig

UNKNOWN = 1  # stands for a size that follows from the data

# what a person types -> the name in the registry
KINDS = {"transformer": "transformerseries", "lstm": "lstmseries", "gru": "gruseries", "conv": "convseries"}
TASKS = ("forecast", "classify", "fill")
# a task and a kind in one word
TOGETHER = {f"{task}-{kind}": name for task in TASKS for kind, name in KINDS.items()}
CONFIGS: dict[str, type[SeriesConfig]] = {
    "transformerseries": TransformerSeriesConfig,
    "lstmseries": LSTMSeriesConfig,
    "gruseries": GRUSeriesConfig,
    "convseries": ConvSeriesConfig,
}


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


def data_section(
    data: Any, kind: str | None, early: Mapping[str, Any] | None
) -> SeriesDataConfig | LabelledSeriesConfig:
    """Data with labels are classified, unless a task is named. data: a path, arrays of values and labels, or a table"""
    task, _ = split_kind(kind)
    path = os.fspath(data) if isinstance(data, str | os.PathLike) else None
    if task is None:
        labelled = bool(early) or (path is not None and holds_classes(os.path.expanduser(path)))
        task = "classify" if labelled or (data is not None and path is None) else "forecast"
    if task == "classify":
        return LabelledSeriesConfig(path=path)
    return SeriesDataConfig(path=path_of(data, "series"))


def choose_defaults(data: SeriesFileConfig, kind: str | None) -> Settings:
    """Settings for this data and kind of model."""
    task, name = split_kind(kind)
    if isinstance(data, LabelledSeriesConfig):
        task = "classify"
    elif task is None:
        task = "forecast"
    classes = 2 if task == "classify" else None
    model = CONFIGS[name](channels=UNKNOWN, task=task, classes=classes)  # type: ignore[arg-type]
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


def settings_class_of(config: RunConfig) -> type[Settings]:
    """The class of the settings of a run with this config.json."""
    classes = (config.model or {}).get("task") == "classify"
    return settings_of_kind(split_kind(config.kind)[1], LabelledSeriesConfig if classes else SeriesDataConfig)
