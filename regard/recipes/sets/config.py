"""Which sets to read, and how: the data section of the settings."""

from __future__ import annotations

from typing import ClassVar, Literal

from regard.config import Length, Size, config
from regard.data.dialect import TableConfig
from regard.errors import RegardError
from regard.recipes.sets.made_sets import Turn
from regard.recipes.supervised import SupervisedConfig

Made = Literal["max", "sum", "statistics", "clusters", "solids"]
Missing = Literal["refuse", "drop", "fill"]


@config
class SetsConfig(TableConfig, SupervisedConfig):
    """Which sets to read, and how."""

    unit: ClassVar[str] = "sets"

    # a folder of point clouds, one folder per class, or a table in long form; None: synthetic sets
    path: str | None = None
    task: Made = "solids"  # the synthetic task, if there is no path
    # elements per set in a batch, drawn anew each time; None: all (1,024 of a point cloud)
    points: Length | None = None
    # rotate point clouds at random: any, upright (about z), none; None: any for solids, none for files
    turn: Turn | None = None
    # synthetic task: number of sets in the train split; None: new sets at every step
    sets: Size | None = None
    id: str = "set"  # table: the column with the id of the set
    target: str = "target"  # table: the column to predict
    columns: tuple[str, ...] = ()  # table: the feature columns; none: all others
    # table: missing cells (empty, NA, N/A, NaN, null, ?) are an error; or drop: their rows are left out; or
    # fill: features get the median of the train split, and rows without a target are left out
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.turn is not None and self.path is None and self.task != "solids":
            raise RegardError(f"turn needs point clouds, and the task {self.task} has none; leave turn out")
        if self.sets is not None and self.path is not None:
            raise RegardError(
                f"sets is for synthetic tasks, and {self.path} has a fixed number of sets; leave sets out"
            )
        if self.id == self.target:
            raise RegardError(f"id and target must be different columns, got '{self.id}' for both")
