"""Default settings for sets: the data decides the model."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from regard.models.additive import AdditiveConfig
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
        DeepSetsConfig,
        "DeepSets: each element alone or with the pool of all, then one prediction for the set.",
    ),
    "pointnet": _settings(PointNetConfig, "PointNet, for point clouds."),
    "settransformer": _settings(
        SetTransformerConfig,
        "The Set Transformer: elements attend to each other, then learned seed vectors pool them by "
        "attention.",
    ),
    "additive": _settings(
        AdditiveConfig, "Evidence of each element alone, which sums to the logit (or the number) exactly."
    ),
    "mlp": _settings(
        MLPConfig, "MLP: a baseline without permutation symmetry, which must learn every order."
    ),
}
# The pool for each kind of set. A sum depends on the number of elements, a mean does not. A maximum finds the
# outline of a point cloud.
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
    """A PointNet for point clouds, DeepSets for tables and numbers, a Set Transformer for clusters; or the
    given kind."""
    path = path_of(data, "sets")
    made = path is None or (path in MADE and not os.path.exists(path))
    sets = SetsConfig(task=path or "solids") if made else SetsConfig(path=path)  # type: ignore[arg-type]
    if os.path.isdir(os.path.expanduser(str(path))):
        what = "clouds"
    else:
        what = "table"
    if made:
        what = sets.task
    kind = kind or DEFAULTS.get(what, "deepsets")
    check_choice("kind of model for sets", kind, tuple(KINDS))
    large = what in ("clouds", "solids", "clusters")
    models = {
        "deepsets": POOLED.get(what, COUNTS),
        "pointnet": PointNetConfig(**SIZES),
        "settransformer": INDUCED if large else replace(INDUCED, points=None),
        "additive": AdditiveConfig(hidden=128, depth=3, **SIZES),
        "mlp": MLPConfig(size=UNKNOWN, hidden=256, **SIZES),
    }
    train = TrainConfig(minutes=1.0, batch=32 if what in ("clouds", "solids", "clusters") else 64)
    return KINDS[kind](data=sets, model=models[kind], train=train)


def model_kind(settings: Settings) -> str:
    """The kind of model that these settings are for."""
    return next(name for name, cls in KINDS.items() if cls is type(settings))
