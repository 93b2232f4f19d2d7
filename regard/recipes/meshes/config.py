"""Which meshes to read, and how: the data section of the settings."""

from __future__ import annotations

from typing import ClassVar, Literal

from regard.config import Size, config
from regard.data.dialect import TableConfig
from regard.errors import RegardError
from regard.recipes.supervised import SupervisedConfig

Made = Literal["shapes", "screws", "roundness"]


@config
class MeshesConfig(TableConfig, SupervisedConfig):
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
            return
        if self.targets is not None:
            raise RegardError("targets are those of the files of a folder; give it with --data")
        if self.folds is not None:
            raise RegardError(
                f"the task {self.task} is synthetic and its meshes are drawn anew, so there is nothing to cut into "
                f"{self.folds} folds; use --train.seeds {self.folds} instead"
            )
