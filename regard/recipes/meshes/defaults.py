"""Default settings for meshes."""

from __future__ import annotations

import os
from typing import Any

from regard.models.mesh_net import MeshNetConfig
from regard.recipes.meshes.dataset import MeshesConfig
from regard.recipes.meshes.made_meshes import MADE
from regard.recipes.settings import Settings, check_choice, path_of, settings_class
from regard.training.config import TrainConfig

UNKNOWN = 1  # stands for a size that follows from the data
KINDS: dict[str, type[Settings]] = {
    "meshnet": settings_class(
        "MeshNetSettings",
        "Convolution on triangles with parallel transport; --model.orders 0 is the same without directions.",
        data=MeshesConfig,
        model=MeshNetConfig,
    )
}


def defaults(data: Any = None, kind: str | None = None) -> Settings:
    """A mesh network for a folder of meshes, or for synthetic surfaces."""
    path = path_of(data, "meshes")
    made = path is None or (path in MADE and not os.path.exists(path))
    meshes = MeshesConfig(task=path or "shapes") if made else MeshesConfig(path=path)  # type: ignore[arg-type]
    kind = kind or "meshnet"
    check_choice("kind of model for meshes", kind, tuple(KINDS))
    train = TrainConfig(minutes=2.0, batch=16, optimiser="adamw", lr=3e-3)
    return KINDS[kind](data=meshes, model=MeshNetConfig(outputs=UNKNOWN), train=train)


def model_kind(settings: Settings) -> str:
    """The kind of model that these settings are for."""
    return next(name for name, cls in KINDS.items() if cls is type(settings))
