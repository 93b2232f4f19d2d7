"""Default settings for meshes."""

from __future__ import annotations

import os
from typing import Any

from regard.models.mesh_net import MeshNetConfig
from regard.recipes.example import Examples
from regard.recipes.meshes.config import MeshesConfig
from regard.recipes.meshes.made_meshes import MADE
from regard.recipes.settings import Settings, check_choice, path_of, settings_of_kind
from regard.training.config import TrainConfig

UNKNOWN = 1  # stands for a size that follows from the data
KINDS = ("meshnet",)


def data_section(data: Any) -> MeshesConfig:
    """A path, or the name of a synthetic task."""
    path = path_of(data, "meshes")
    if path is None or (path in MADE and not os.path.exists(path)):
        return MeshesConfig(task=path or "shapes")  # type: ignore[arg-type]
    return MeshesConfig(path=path)


def choose_defaults(data: MeshesConfig, examples: Examples | None, kind: str | None) -> Settings:
    """A mesh network, for meshes of any sort."""
    kind = kind or "meshnet"
    check_choice("kind of model for meshes", kind, KINDS)
    train = TrainConfig(minutes=2.0, batch=16, optimiser="adamw", lr=3e-3)
    return settings_of_kind(kind, MeshesConfig)(data=data, model=MeshNetConfig(outputs=UNKNOWN), train=train)
