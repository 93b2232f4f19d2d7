"""A summary of graphs in numbers, and how the features of their nodes were scaled."""

from __future__ import annotations

from typing import Literal

from regard.config import Amount, Natural, Size, config


@config
class Scaling:
    """Which features nodes have and how they were scaled, so that predictions scale theirs in the same
    way."""

    how: str
    of: Literal["given", "degree", "both"] | None = None  # None: a large graph, features unchanged
    mean: tuple[float, ...] | None = None
    deviation: tuple[Amount, ...] | None = None
    fill: tuple[float, ...] | None = None  # what a missing feature becomes; None: none may be missing


@config
class GraphsInfo:
    """A summary of graphs in numbers."""

    path: str
    graphs: Natural
    nodes: Natural
    edges: Natural
    features: Size
    level: str  # what has targets: node, edge, graph
    train: Natural  # examples in the train split
    validation: Natural
    test: Natural
    labels: tuple[str, ...] | None  # the classes; None: the targets are numbers
    label: str | None = None  # the name of the numbers
    size: tuple[float, float] | None = None  # their mean and standard deviation
    scaling: Scaling
    edge_scaling: Scaling | None = None  # of the features of edges; None: there are none
