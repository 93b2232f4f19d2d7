"""The recipe for worlds: an environment, or recorded episodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from regard.recipes.base import Recipe
from regard.recipes.example import Examples
from regard.recipes.problem import Problem
from regard.recipes.settings import Settings
from regard.recipes.world.config import WorldDataConfig
from regard.recipes.world.defaults import KINDS, adjust_defaults, choose_defaults, data_section
from regard.recipes.world.problem import World


class WorldRecipe(Recipe):
    """Episodes: a model of a world, and a policy that learns inside it."""

    name = "world"
    title = "World: a model that predicts what comes after an action, and a policy that learns inside it."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "gymnasium:NAME, any environment that is seen as vectors or images (default: gymnasium:CartPole-v1);\n"
        "                or recorded episodes: a file (.npz, .parquet, .csv, .jsonl) or a folder of them",
        "--model KIND": "transformer (default) or gru",
    }
    examples = (
        "regard train world",
        "regard train world --data gymnasium:Pendulum-v1 --out runs/pendulum",
        "regard train world --data episodes.npz --train.policy none",
        "regard train world --data.observed 0 2  # CartPole without its velocities",
        "regard train world --data.images  # CartPole from images of 32 × 32",
    )
    models = tuple(KINDS.values())
    aliases = KINDS
    data_derived: ClassVar[Mapping[str, str]] = {
        "model.observations": "give --data.observed",
        "model.actions": "",
        "model.discrete": "",
        "model.image": "give --data.images or --data.side",
    }
    problems: ClassVar[Mapping[str, Problem]] = {World.name: World()}

    def data_section(self, data: Any, kind: str | None = None, given: Collection[str] = ()) -> WorldDataConfig:
        return data_section(data)

    def choose_defaults(self, data: WorldDataConfig, examples: Examples | None, kind: str | None) -> Settings:
        return choose_defaults(data, kind)

    def adjust_defaults(self, settings: Settings, examples: Examples | None, options: Mapping[str, Any]) -> Settings:
        return adjust_defaults(settings, options)


RECIPE = WorldRecipe()
