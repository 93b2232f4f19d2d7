"""Default settings for sets: the model follows from where the sets come from."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from regard.models.deep_sets import DeepSetsConfig
from regard.models.mlp import MLPConfig
from regard.models.point_net import PointNetConfig
from regard.models.set_transformer import SetTransformerConfig
from regard.recipes.sets.dataset import SetsConfig
from regard.recipes.sets.made_sets import MADE
from regard.recipes.settings import Settings, check_choice, path_of, settings_class
from regard.training.config import TrainConfig

UNKNOWN = 1  # stands for a size that follows from the data
SIZES: dict[str, Any] = {"features": UNKNOWN, "outputs": UNKNOWN}


def _settings(model: type[Any], sentence: str) -> type[Settings]:
    return settings_class(
        f"{model.__name__.removesuffix('Config')}Settings", sentence, data=SetsConfig, model=model
    )


KINDS: dict[str, type[Settings]] = {
    "deepsets": _settings(
        DeepSetsConfig, "DeepSets: each thing by itself or with the pool of all, then one answer for the set."
    ),
    "pointnet": _settings(PointNetConfig, "PointNet, for clouds of points."),
    "settransformer": _settings(
        SetTransformerConfig,
        "The Set Transformer: things attend to each other, then learned seed vectors pool them by attention.",
    ),
    "mlp": _settings(MLPConfig, "A plain network, which has to learn every order by itself."),
}
# What each kind of set is learned with. Sums know how many things there are, means need not; the largest
# outlines a cloud.
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


def defaults(data: Any = None, kind: str | None = None) -> Settings:
    """A PointNet for clouds, DeepSets for tables and numbers, a Set Transformer for clusters; or the kind
    that is asked for."""
    path = path_of(data, "sets")
    made = path is None or (path in MADE and not os.path.exists(path))
    sets = SetsConfig(task=path or "solids") if made else SetsConfig(path=path)  # type: ignore[arg-type]
    what = "clouds" if os.path.isdir(os.path.expanduser(str(path))) else "table"
    if made:
        what = sets.task
    kind = kind or DEFAULTS.get(what, "deepsets")
    check_choice("kind of model for sets", kind, tuple(KINDS))
    large = what in ("clouds", "solids", "clusters")
    models = {
        "deepsets": POOLED.get(what, COUNTS),
        "pointnet": PointNetConfig(**SIZES),
        "settransformer": INDUCED if large else replace(INDUCED, points=None),
        "mlp": MLPConfig(size=UNKNOWN, hidden=256, **SIZES),
    }
    train = TrainConfig(minutes=1.0, batch=32 if what in ("clouds", "solids", "clusters") else 64)
    return KINDS[kind](data=sets, model=models[kind], train=train)


def model_kind(settings: Settings) -> str:
    """The kind of model that these are the settings of."""
    return next(name for name, cls in KINDS.items() if cls is type(settings))
