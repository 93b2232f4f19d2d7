"""Which graphs to read, and how: the data section of the settings."""

from __future__ import annotations

from typing import ClassVar, Literal

from regard.config import Positive, Rare, Share, Size, config
from regard.recipes.graphs.formats.edge_list import GraphTables
from regard.recipes.supervised import SupervisedConfig

Level = Literal["auto", "node", "edge", "graph"]
EdgeFeatures = Literal["auto", "none"]
Features = Literal["auto", "given", "degree", "both"]
Scale = Literal["auto", "none", "rows", "columns"]


@config
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
    train: Positive | None = None
    validation: Share = 0.1  # share of each class in the validation split, if the data has no split
    # share of each class in the test split, evaluated once, at the end, if the data has no split; None: a tenth
    test: Share | None = None
    neighbours: Rare[Size] = 10  # neighbours drawn for each node and layer, in graphs too large for one batch
