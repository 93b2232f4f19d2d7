"""Default settings for series: the data and the task decide the model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.models.conv_series import ConvSeriesConfig
from regard.models.recurrent_series import GRUSeriesConfig, LSTMSeriesConfig
from regard.models.series import TransformerSeriesConfig
from regard.models.series_model import SeriesConfig
from regard.recipes.series.read_series import holds_classes
from regard.recipes.series.settings import SeriesDataConfig
from regard.recipes.settings import Settings, check_choice, path_of, settings_class
from regard.runs.run_config import RunConfig
from regard.training.config import TrainConfig

UNKNOWN = 1  # stands for a size that follows from the data

# what a person types -> the name in the registry
KINDS = {
    "transformer": "transformerseries",
    "lstm": "lstmseries",
    "gru": "gruseries",
    "conv": "convseries",
}
TASKS = ("forecast", "classify", "fill")
# a task and a kind in one word
TOGETHER = {f"{task}-{kind}": name for task in TASKS for kind, name in KINDS.items()}
CONFIGS: dict[str, type[SeriesConfig]] = {
    "transformerseries": TransformerSeriesConfig,
    "lstmseries": LSTMSeriesConfig,
    "gruseries": GRUSeriesConfig,
    "convseries": ConvSeriesConfig,
}
SENTENCES = {
    "transformerseries": "A transformer of series: steps attend to each other by their times.",
    "lstmseries": "An LSTM of series: one state in place of attention.",
    "gruseries": "A GRU of series: one state in place of attention.",
    "convseries": "Gated convolutions of series: each step reads its neighbours.",
}
SETTINGS = {
    kind: settings_class(f"{kind.title()}Settings", SENTENCES[kind], data=SeriesDataConfig, model=cls)
    for kind, cls in CONFIGS.items()
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


def defaults(data: Any = None, kind: str | None = None, early: Mapping[str, Any] | None = None) -> Settings:
    """Settings for this data and kind of model. Data with labels are classified, unless a task is named."""
    path = path_of(data, "series")
    task, name = split_kind(kind)
    if task is None:
        labelled = bool(early) or (path is not None and holds_classes(os.path.expanduser(path)))
        task = "classify" if labelled else "forecast"
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
    return SETTINGS[name](data=SeriesDataConfig(path=path), model=model, train=train)


def settings_class_of(config: RunConfig) -> type[Settings]:
    """The class of the settings of a run with this config.json."""
    return SETTINGS[split_kind(config.kind)[1]]
