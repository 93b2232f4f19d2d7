"""The settings of a recipe: one frozen dataclass with the sections data, model and train, for each kind of
model."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, make_dataclass, replace
from functools import cache
from typing import Any, TypeVar, get_type_hints

from regard import config as configs
from regard import registry
from regard.errors import RegardError, did_you_mean
from regard.runs.run import Run
from regard.training.config import TrainConfig

D = TypeVar("D")
SECTIONS = ("data", "model", "train")
BUDGET = frozenset({"train.minutes", "train.steps"})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The sections of all settings. `settings_class` makes the class for one kind of model, with typed
    sections."""

    data: Any
    model: Any
    train: TrainConfig


def settings_class(
    name: str, sentence: str, *, data: type[Any], model: type[Any], train: type[TrainConfig] = TrainConfig
) -> type[Settings]:
    """The settings of one kind of model: `sentence` is its help text."""
    sections = [("data", data), ("model", model), ("train", train)]
    made = make_dataclass(name, sections, bases=(Settings,), frozen=True, kw_only=True)
    made.__module__ = __name__
    found: type[Settings] = configs.config(made)
    found.__doc__ = sentence
    return found


@cache
def settings_of_kind(kind: str, data: Any, train: type[TrainConfig] = TrainConfig) -> type[Settings]:
    """The settings of a kind of model, which is in the registry, for these sections of data and training."""
    model = registry.find("models", kind).Config
    sentence = registry.entries("models")[kind].sentence
    name = f"{model.__name__.removesuffix('Config')}Settings"
    return settings_class(name, f"{sentence[0].upper()}{sentence[1:]}.", data=data, model=model, train=train)


def kind_of(models: Iterable[str], settings: Settings) -> str:
    """The name in the registry of the kind of model that these settings are for, one of some."""
    wanted = type(settings.model)
    return next(kind for kind in models if registry.find("models", kind).Config is wanted)


def read_settings(cls: type[Settings], run: Run) -> Settings:
    """The settings of a run."""
    hints = get_type_hints(cls)
    return cls(
        data=run.section(hints["data"], "data"),
        model=run.section(hints["model"], "model"),
        train=run.section(hints["train"], "train"),
    )


def apply_settings(settings: Settings, options: Mapping[str, Any]) -> Settings:
    """The settings with dotted options set: {"model.dim": 256}. An unknown name is an error that suggests the
    nearest known one."""
    if not options:
        return settings
    for key in options:
        section, dot, _ = key.partition(".")
        if not dot or section not in SECTIONS:
            raise RegardError(f"options are named section.name with a section among {', '.join(SECTIONS)}, got '{key}'")
    return configs.override(with_optimiser(settings, options.get("train.optimiser")), options)


def set_options(data: D, options: Mapping[str, Any]) -> D:
    """A data section with dotted options set: {"data.test": 0.1}."""
    if not options:
        return data
    cls: Any = type(data)
    found: D = configs.override(data_alone(cls)(data=data), options).data
    return found


@cache
def data_alone(data: Any) -> Any:
    """A config of the data section alone: its options are read before all others."""
    made = make_dataclass("DataSettings", [("data", data)], frozen=True, kw_only=True)
    made.__module__ = __name__
    return configs.config(made)


def with_optimiser(settings: Settings, optimiser: str | None) -> Settings:
    """The settings for another optimiser, without the default learning rates, which are for the default
    optimiser."""
    if optimiser in (None, settings.train.optimiser):
        return settings
    return replace(settings, train=replace(settings.train, lr=None, adam_lr=None, momentum=None))


def with_budget(settings: Settings, options: Collection[str]) -> Settings:
    """The settings for a budget that is asked for, in minutes or in steps: without the default one, and without
    evaluations that were counted for it."""
    if not BUDGET & set(options):
        return settings
    minutes = settings.train.minutes or TrainConfig.minutes
    own = replace(settings.train, steps=None, minutes=minutes, evaluate_every=None)
    return replace(settings, train=own)


def check_choice(what: str, name: str, known: tuple[str, ...]) -> None:
    """Raise a ValueError with the nearest known name unless this is one."""
    if name not in known:
        raise RegardError(f"there is no {what} called '{name}'; {did_you_mean(name, known)}known: {', '.join(known)}")


def path_of(data: Any, recipe: str) -> str | None:
    """The path in `data`, for recipes that take only paths."""
    if data is None or isinstance(data, str | os.PathLike):
        if data is None:
            return None
        return os.fspath(data)
    raise RegardError(f"the recipe {recipe} reads a file or a folder, got {type(data).__name__} as data; give a path")
