"""Sets: clouds of points, tables of things that belong together, or tasks that the program makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.data.sets import SetsConfig
from regard.models.sets import DeepSetsConfig, MLPConfig, PointNetConfig, SetTransformerConfig
from regard.recipes.find import choose, path_of
from regard.run import TrainConfig

HELP = {
    "--data PATH": "a folder of point clouds, one folder a class, or a table in long form; without it: sets that are made",
    "--model KIND": "deepsets, pointnet, settransformer, or mlp (the one that does not know that they are sets)",
}
OWN = frozenset({"features", "outputs", "size", "each", "seeds"})

UNKNOWN = 1  # stands for a size that follows from the data
SIZES: dict[str, Any] = {"features": UNKNOWN, "outputs": UNKNOWN}


@dataclass(frozen=True, kw_only=True)
class DeepSetsRecipe:
    """DeepSets: each thing by itself or with the pool of all, then one answer for the set."""

    data: SetsConfig
    model: DeepSetsConfig
    train: TrainConfig


@dataclass(frozen=True, kw_only=True)
class PointNetRecipe:
    """PointNet, for clouds of points."""

    data: SetsConfig
    model: PointNetConfig
    train: TrainConfig


@dataclass(frozen=True, kw_only=True)
class SetTransformerRecipe:
    """The Set Transformer: things attend to each other, then seeds ask them all."""

    data: SetsConfig
    model: SetTransformerConfig
    train: TrainConfig


@dataclass(frozen=True, kw_only=True)
class MLPRecipe:
    """A plain network, which has to learn every order by itself."""

    data: SetsConfig
    model: MLPConfig
    train: TrainConfig


KINDS: dict[str, type[Any]] = {
    "deepsets": DeepSetsRecipe, "pointnet": PointNetRecipe, "settransformer": SetTransformerRecipe, "mlp": MLPRecipe,
}
MODELS: dict[str, Any] = {
    "deepsets": DeepSetsConfig(layers="together", pool="max", depth=3, **SIZES),
    "pointnet": PointNetConfig(**SIZES),
    "settransformer": SetTransformerConfig(hidden=64, points=16, **SIZES),
    "mlp": MLPConfig(size=UNKNOWN, hidden=256, **SIZES),
}


def recipe(data: Any = None, kind: str | None = None) -> Any:
    """A Set Transformer with inducing points, whose cost is linear in the set, unless another kind is asked for."""
    path, kind = path_of(data, "sets"), kind or "settransformer"
    choose("kind of model for sets", kind, tuple(KINDS))
    made = {} if path is not None else {"points": 256}  # of a solid: enough to know it, and a quarter of the work
    train = TrainConfig(minutes=1.0, batch=32)
    return KINDS[kind](data=SetsConfig(path=path, **made), model=MODELS[kind], train=train)


def class_of(config: Mapping[str, Any]) -> type[Any]:
    """The recipe of a run with this config.json."""
    return KINDS[str(config["kind"])]
