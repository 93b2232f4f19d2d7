"""Sets: clouds of points, tables of things that belong together, or tasks that the program makes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.models.deep_sets import DeepSetsConfig
from regard.models.mlp import MLPConfig
from regard.models.point_net import PointNetConfig
from regard.models.set_transformer import SetTransformerConfig
from regard.recipes.base import choose, path_of
from regard.recipes.sets.dataset import SetsConfig
from regard.recipes.sets.made_sets import MADE
from regard.training.config import TrainConfig

HELP = {
    "--data PATH": "point clouds, one folder a class; a table in long form; or max, sum, statistics, clusters, solids (made)",
    "--model KIND": "deepsets, pointnet, settransformer, or mlp (the one that does not know that they are sets)",
}
OWN = frozenset({"features", "outputs", "size", "each", "seeds", "usual"})

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
    "deepsets": DeepSetsRecipe,
    "pointnet": PointNetRecipe,
    "settransformer": SetTransformerRecipe,
    "mlp": MLPRecipe,
}
# What each kind of set is learned with. Sums know how many things there are, means need not; the largest outlines a cloud.
COUNTS = DeepSetsConfig(pool="sum", depth=3, **SIZES)
SHARES = DeepSetsConfig(layers="together", pool="mean", depth=3, **SIZES)
OUTLINES = DeepSetsConfig(layers="together", pool="max", depth=3, **SIZES)
INDUCED = SetTransformerConfig(hidden=64, points=16, **SIZES)
POOLED = {"clouds": OUTLINES, "solids": OUTLINES, "max": OUTLINES, "statistics": SHARES, "clusters": SHARES}
DEFAULTS: dict[str, str] = {
    "clouds": "pointnet",
    "solids": "pointnet",
    "clusters": "settransformer",
}  # others: deepsets


def recipe(data: Any = None, kind: str | None = None) -> Any:
    """A PointNet for clouds, DeepSets for tables and numbers, a Set Transformer for clusters; or the kind that is asked for."""
    path = path_of(data, "sets")
    made = path is None or (path in MADE and not os.path.exists(path))
    sets = SetsConfig(task=path or "solids") if made else SetsConfig(path=path)  # type: ignore[arg-type]
    what = sets.task if made else "clouds" if os.path.isdir(os.path.expanduser(str(path))) else "table"
    kind = kind or DEFAULTS.get(what, "deepsets")
    choose("kind of model for sets", kind, tuple(KINDS))
    models = {
        "deepsets": POOLED.get(what, COUNTS),
        "pointnet": PointNetConfig(**SIZES),
        "settransformer": INDUCED
        if what in ("clouds", "solids", "clusters")
        else replace(INDUCED, points=None),
        "mlp": MLPConfig(size=UNKNOWN, hidden=256, **SIZES),
    }
    train = TrainConfig(minutes=1.0, batch=32 if what in ("clouds", "solids", "clusters") else 64)
    return KINDS[kind](data=sets, model=models[kind], train=train)


def class_of(config: Mapping[str, Any]) -> type[Any]:
    """The recipe of a run with this config.json."""
    return KINDS[str(config["kind"])]
