"""Which sets to read, and how: the data section of the settings."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, ClassVar, Literal, get_args

from regard.config import Length, Size, config
from regard.data.dialect import TableConfig
from regard.errors import RegardError
from regard.models.additive import AdditiveConfig
from regard.models.deep_sets import DeepSetsConfig
from regard.models.mlp import MLPConfig
from regard.models.point_net import PointNetConfig
from regard.models.set_transformer import SetTransformerConfig
from regard.recipes.example import Examples
from regard.recipes.settings import Settings, check_choice, settings_of_kind
from regard.recipes.supervised import SupervisedConfig
from regard.training.config import TrainConfig

Made = Literal["max", "sum", "statistics", "clusters", "solids"]
Missing = Literal["refuse", "drop", "fill"]
Turn = Literal["any", "upright", "none"]  # how point clouds are rotated


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


# ── the usual settings

UNKNOWN = 1  # stands for a size that follows from the data
SIZES: dict[str, Any] = {"features": UNKNOWN, "outputs": UNKNOWN}
# The pool for each kind of set. A sum depends on the number of elements, a mean does not. A maximum finds the
# outline of a point cloud.
COUNTS = DeepSetsConfig(pool="sum", depth=3, **SIZES)
SHARES = DeepSetsConfig(layers="together", pool="mean", depth=3, **SIZES)
OUTLINES = DeepSetsConfig(layers="together", pool="max", depth=3, **SIZES)
INDUCED = SetTransformerConfig(hidden=64, points=16, **SIZES)
POOLED = {"clouds": OUTLINES, "solids": OUTLINES, "max": OUTLINES, "statistics": SHARES, "clusters": SHARES}
USUAL = {"clouds": "pointnet", "solids": "pointnet", "clusters": "settransformer"}  # others: deepsets
LARGE = ("clouds", "solids", "clusters")  # sets of many points
KINDS = ("deepsets", "pointnet", "settransformer", "additive", "mlp")


def data_section(data: Any) -> SetsConfig:
    """A path, the name of a synthetic task, or data in memory."""
    if not isinstance(data, str | os.PathLike):
        return SetsConfig()
    path = os.fspath(data)
    if path in get_args(Made) and not os.path.exists(path):
        return SetsConfig(task=path)  # type: ignore[arg-type]
    return SetsConfig(path=path)


def choose_defaults(data: SetsConfig, examples: Examples | None, kind: str | None) -> Settings:
    """A PointNet for point clouds, DeepSets for tables and numbers, a Set Transformer for clusters; or the given kind."""
    form = _guess_form(data) if examples is None else examples.about["form"]
    what = data.task if form == "made" else form
    kind = kind or USUAL.get(what, "deepsets")
    check_choice("kind of model for sets", kind, KINDS)
    models = {
        "deepsets": POOLED.get(what, COUNTS),
        "pointnet": PointNetConfig(**SIZES),
        "settransformer": INDUCED if what in LARGE else replace(INDUCED, points=None),
        "additive": AdditiveConfig(hidden=128, depth=3, **SIZES),
        "mlp": MLPConfig(size=UNKNOWN, hidden=256, **SIZES),
    }
    train = TrainConfig(minutes=1.0, batch=32 if what in LARGE else 64)
    return settings_of_kind(kind, SetsConfig)(data=data, model=models[kind], train=train)


def _guess_form(data: SetsConfig) -> str:
    """What sets are read from, by the path alone."""
    if data.path is None:
        return "made"
    return "clouds" if os.path.isdir(os.path.expanduser(data.path)) else "table"
