"""Default settings for environments and recorded episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard import registry
from regard.recipes.settings import Settings, check_choice, path_of, settings_of_kind
from regard.recipes.world.config import DEFAULT, WorldDataConfig, WorldTrainConfig

UNKNOWN = 1  # stands for a size that follows from the data

# what a person types -> the name in the registry
KINDS = {"transformer": "transformerworld", "gru": "gruworld"}

# of environments that need other settings than CartPole
DATA: dict[str | None, dict[str, Any]] = {
    "CartPole-v1": {},
    "Pendulum-v1": {"real_steps": 4000, "rounds": 8},
    None: {"rounds": 1},  # recorded episodes
}
OTHERS = {"real_steps": 10_000, "rounds": 10}  # of any other: more of everything, because nothing is known of it
TRAIN: dict[str | None, dict[str, Any]] = {
    "Pendulum-v1": {"discount": 0.97},
    None: {"first_steps": 50, "round_steps": 50},
}

IMAGE_STEPS, IMAGE_ROUNDS = 4000, 4  # of what is drawn as images, at least
IMAGE_RANDOM = 20
IMAGE_FRAMES, HIDDEN_FRAMES = 4, 3


def data_section(data: Any) -> WorldDataConfig:
    """The data settings for an environment or episodes."""
    path = path_of(data, "world") or DEFAULT
    return WorldDataConfig(path=path, **DATA.get(WorldDataConfig(path=path).environment, OTHERS))


def choose_defaults(data: WorldDataConfig, kind: str | None) -> Settings:
    """Settings for this environment or these episodes, and this kind of model, by either of its names."""
    name = "transformerworld" if kind is None else kind
    if name not in KINDS.values():
        check_choice("kind of world model", name, tuple(KINDS))
        name = KINDS[name]
    model = registry.find("models", name).Config(observations=UNKNOWN, actions=UNKNOWN)
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
        **TRAIN.get(data.environment, {}),
    )
    settings = settings_of_kind(name, WorldDataConfig, WorldTrainConfig)(data=data, model=model, train=train)
    return adjust_defaults(settings, {})


def adjust_defaults(settings: Settings, options: Mapping[str, Any]) -> Settings:
    """What is not seen whole needs more frames, images more of everything; the number of steps follows from the rounds."""
    data, model, train = settings.data, settings.model, settings.train
    if data.images:
        # options that were given are set after this
        steps, rounds = max(IMAGE_STEPS, data.real_steps), max(IMAGE_ROUNDS, data.rounds)
        data = replace(data, real_steps=steps, rounds=rounds, random_steps=IMAGE_RANDOM)
        model = replace(model, frames=IMAGE_FRAMES)
    elif data.observed:
        model = replace(model, frames=HIDDEN_FRAMES)
    counts = {name: options.get(f"train.{name}", getattr(train, name)) for name in ("first_steps", "round_steps")}
    if all(type(count) is int for count in counts.values()):  # else it is refused where it is read
        rounds = options.get("data.rounds", data.rounds)
        train = replace(train, steps=max(1, counts["first_steps"] + rounds * counts["round_steps"]))
    return replace(settings, data=data, model=model, train=train)
