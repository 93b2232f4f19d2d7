"""A summary of graphs in numbers, and how the features of their nodes were scaled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.config import check_sizes
from regard.errors import RegardError


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Which features nodes have and how they were scaled, so that predictions scale theirs in the same
    way."""

    how: str
    of: Literal["given", "degree", "both"] | None = None  # None: a large graph, features unchanged
    mean: tuple[float, ...] | None = None
    deviation: tuple[float, ...] | None = None
    fill: tuple[float, ...] | None = None  # what a missing feature becomes; None: none may be missing

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.deviation is not None and min(self.deviation, default=1) <= 0:
            raise RegardError(f"no deviation may be 0, got {self.deviation}")


@dataclass(frozen=True, kw_only=True)
class GraphsInfo:
    """A summary of graphs in numbers."""

    path: str
    graphs: int
    nodes: int
    edges: int
    features: int
    level: str  # what has targets: node, edge, graph
    train: int  # examples in the train split
    validation: int
    test: int
    labels: tuple[str, ...] | None  # the classes; None: the targets are numbers
    label: str | None = None  # the name of the numbers
    size: tuple[float, float] | None = None  # their mean and standard deviation
    scaling: Scaling
    edge_scaling: Scaling | None = None  # of the features of edges; None: there are none

    def __post_init__(self) -> None:
        check_sizes(self)
