"""What graphs are, in figures, and how the features of their nodes were brought to one size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Which features nodes have, and how they were brought to one size, so that later ones are brought to the
    same."""

    how: str
    of: Literal["given", "degree", "both"] | None = None  # None: of a large graph, as they are
    mean: tuple[float, ...] | None = None
    deviation: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class GraphsInfo:
    """Graphs in figures."""

    path: str
    graphs: int
    nodes: int
    edges: int
    features: int
    level: str  # who is asked about: node, edge, graph
    train: int  # of those
    validation: int
    test: int
    labels: tuple[str, ...] | None  # of classes; None: numbers
    label: str | None = None  # what the numbers are called
    size: tuple[float, float] | None = None  # their mean and deviation
    scaling: Scaling
