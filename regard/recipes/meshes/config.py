"""Which meshes to read, and how: the data section of the settings."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Literal, get_args

from regard.config import Size, config
from regard.data.dialect import TableConfig
from regard.errors import RegardError
from regard.models.mesh_net import MeshNetConfig
from regard.recipes.example import Examples
from regard.recipes.settings import Settings, check_choice, settings_of_kind
from regard.recipes.supervised import FilesConfig
from regard.training.config import TrainConfig

Made = Literal["shapes", "screws", "roundness"]


@config
class MeshesConfig(TableConfig, FilesConfig):
    """Which meshes to read, and how."""

    unit: ClassVar[str] = "meshes"
    paths: ClassVar[tuple[str, ...]] = ("path", "targets")

    # a folder of meshes (.ply, .off, .obj, .stl, .glb), one folder per class; None: synthetic surfaces
    path: str | None = None
    task: Made = "shapes"  # the synthetic task, if there is no path
    # synthetic task: number of meshes in the train split; None: new ones at every step
    meshes: Size | None = None
    # a table with a column `file` (as in the folder) and the column to predict; None: folders are classes
    targets: str | None = None
    target: str = "target"  # table: the column to predict

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.path is not None:
            if self.meshes is not None:
                raise RegardError(
                    f"meshes is for synthetic tasks, and {self.path} has a fixed number of meshes; leave meshes out"
                )
        elif self.targets is not None:
            raise RegardError("targets are those of the files of a folder; give it with --data")


# ── the usual settings

UNKNOWN = 1  # stands for a size that follows from the data
KINDS = ("meshnet",)


def data_section(data: Any) -> MeshesConfig:
    """A path, the name of a synthetic task, or meshes in memory."""
    path = os.fspath(data) if isinstance(data, str | os.PathLike) else None
    if path is not None and path in get_args(Made) and not os.path.exists(path):
        return MeshesConfig(task=path)  # type: ignore[arg-type]
    return MeshesConfig(path=path)


def choose_defaults(data: MeshesConfig, examples: Examples | None, kind: str | None) -> Settings:
    """A mesh network, for meshes of any sort."""
    kind = kind or "meshnet"
    check_choice("kind of model for meshes", kind, KINDS)
    train = TrainConfig(minutes=2.0, batch=16, optimiser="adamw", lr=3e-3)
    return settings_of_kind(kind, MeshesConfig)(data=data, model=MeshNetConfig(outputs=UNKNOWN), train=train)
