"""Default settings for environments and recorded episodes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.models.recurrent import GRUWorldConfig
from regard.models.world import TransformerWorldConfig
from regard.models.world_model import WorldConfig
from regard.recipes.settings import Settings, check_choice, path_of, settings_class
from regard.recipes.world.environments import environment_of
from regard.recipes.world.settings import DEFAULT, WorldDataConfig, WorldTrainConfig
from regard.runs.run_config import RunConfig

UNKNOWN = 1  # stands for a size that follows from the data

# what a person types -> the name in the registry
KINDS = {"transformer": "transformerworld", "gru": "gruworld"}
CONFIGS: dict[str, type[WorldConfig]] = {"transformerworld": TransformerWorldConfig, "gruworld": GRUWorldConfig}
SENTENCES = {
    "transformerworld": "A transformer world model: each step attends to the last ones.",
    "gruworld": "A GRU world model: one state in place of attention.",
}
SETTINGS = {
    kind: settings_class(
        f"{kind.title()}Settings", SENTENCES[kind], data=WorldDataConfig, model=cls, train=WorldTrainConfig
    )
    for kind, cls in CONFIGS.items()
}

# of environments that need other settings than CartPole
PENDULUM: dict[str, Any] = {"data": {"real_steps": 4000, "rounds": 8}, "train": {"discount": 0.97}}
KNOWN: dict[str, dict[str, dict[str, Any]]] = {"CartPole-v1": {}, "Pendulum-v1": PENDULUM}
# of any other: more of everything, because nothing is known of it
OTHERS: dict[str, dict[str, Any]] = {"data": {"real_steps": 10_000, "rounds": 10}}

IMAGE_STEPS, IMAGE_ROUNDS = 4000, 4  # of what is drawn as images, at least
IMAGE_RANDOM = 20
IMAGE_FRAMES, HIDDEN_FRAMES = 4, 3


def registry_name(kind: str | None) -> str:
    """The name in the registry of a kind of model, which may be given by either name."""
    if kind is None:
        return "transformerworld"
    if kind in CONFIGS:
        return kind
    check_choice("kind of world model", kind, tuple(KINDS))
    return KINDS[kind]


def defaults(data: Any = None, kind: str | None = None) -> Settings:
    """Settings for this environment or these episodes, and this kind of model."""
    path = path_of(data, "world") or DEFAULT
    name = registry_name(kind)
    environment = environment_of(path)
    if environment is not None:
        known = KNOWN.get(environment, OTHERS)
    else:
        known = {"data": {"rounds": 1}, "train": {"first_steps": 50, "round_steps": 50}}
        path = os.fspath(path)
    episodes = WorldDataConfig(path=path, **known.get("data", {}))
    train = WorldTrainConfig(
        minutes=None,
        steps=1,
        batch=64,
        optimiser="adamw",
        lr=1e-3,
        weight_decay=0.01,
        warmup=2,
        decay=0.3,
        precision="float32",
        save_minutes=1.0,
        threads=1,  # such small models gain nothing from more
        **known.get("train", {}),
    )
    return SETTINGS[name](
        data=episodes,
        model=CONFIGS[name](observations=UNKNOWN, actions=UNKNOWN),
        train=replace(train, steps=train.total_steps(episodes.rounds)),
    )


def refine_defaults(settings: Settings, options: Mapping[str, Any]) -> Settings:
    """What is not seen whole needs more frames, images more of everything; the number of steps follows from the
    rounds."""
    settings = _refine_sight(settings, options)
    names = ("data.rounds", "train.first_steps", "train.round_steps")
    if not all(type(options[name]) is int for name in names if name in options):
        return settings  # what cannot be a number of steps is refused where it is read
    assert isinstance(settings.train, WorldTrainConfig)
    first = options.get("train.first_steps", settings.train.first_steps)
    each = options.get("train.round_steps", settings.train.round_steps)
    rounds = options.get("data.rounds", settings.data.rounds)
    return replace(settings, train=replace(settings.train, steps=max(1, first + rounds * each)))


def _refine_sight(settings: Settings, options: Mapping[str, Any]) -> Settings:
    """One observation without velocities does not say everything."""
    if options.get("data.images"):
        data = replace(
            settings.data,
            real_steps=max(IMAGE_STEPS, settings.data.real_steps),
            rounds=max(IMAGE_ROUNDS, settings.data.rounds),
            random_steps=IMAGE_RANDOM,
        )
        return replace(settings, data=data, model=replace(settings.model, frames=IMAGE_FRAMES))
    if options.get("data.observed"):
        return replace(settings, model=replace(settings.model, frames=HIDDEN_FRAMES))
    return settings


def settings_class_of(config: RunConfig) -> type[Settings]:
    """The class of the settings of a run with this config.json."""
    return SETTINGS[registry_name(config.kind)]
