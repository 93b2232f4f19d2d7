"""Which graphs to read, and how: the data section of the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from regard.errors import RegardError
from regard.recipes.graphs.formats.edge_list import GraphTables, Missing
from regard.recipes.settings import check_choice
from regard.recipes.supervised import SupervisedConfig

Level = Literal["auto", "node", "edge", "graph"]
EdgeFeatures = Literal["auto", "none"]
Features = Literal["auto", "given", "degree", "both"]
Scale = Literal["auto", "none", "rows", "columns"]
CHOICES = {
    "level": Level,
    "edge_features": EdgeFeatures,
    "features": Features,
    "scale": Scale,
    "missing": Missing,
}


@dataclass(frozen=True, kw_only=True)
class GraphsConfig(GraphTables, SupervisedConfig):
    """Which graphs to read, their task, and their splits."""

    unit: ClassVar[str] = "examples"
    paths: ClassVar[tuple[str, ...]] = ("path", "nodes")

    # an edge list, a .npz, or a folder; None: digits, each linked to the most similar ones
    path: str | None = None
    nodes: str | None = None  # the table of nodes of an edge list: .csv (id, label, split, features) or .npz
    label: str = "label"  # the column with the labels of nodes, edges or graphs
    level: Level = "auto"  # what has targets; auto: the task level follows from where the labels are
    # features of edges: columns of numbers of an edge list, edge_attr of an .npz or object, TU files; none: left out
    edge_features: EdgeFeatures = "auto"
    directed: bool = False  # keep the direction of edges; otherwise every edge is added in both directions
    # features of nodes: given, degree, or both; auto: given, but both for the level graph
    features: Features = "auto"
    # rows: each sums to 1; columns: mean 0, deviation 1; auto: rows if sparse, else columns
    scale: Scale = "auto"
    # examples of each class in the train split; None: all that are in no other split
    train: int | None = None
    validation: float = 0.1  # share of each class in the validation split, if the data has no split
    # share of each class in the test split, evaluated once, at the end, if the data has no split; None: a tenth
    test: float | None = None
    neighbours: int = 10  # neighbours drawn for each node and layer, in graphs too large for one batch

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            check_choice(f"way of {name}", getattr(self, name), get_args(known))
        super().__post_init__()
        if (self.train is not None and self.train < 1) or self.neighbours < 1:
            raise RegardError(
                f"train and neighbours must be at least 1, got {self.train} and {self.neighbours}"
            )
