"""What the defaults of graphs depend on: the task, the number of labels, the features, and whether neighbours
are alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.recipes.graphs.dataset import (
    GraphsConfig,
    draw_split,
    is_thin,
    labels_at,
    level_of,
    read_parts,
)
from regard.recipes.graphs.labels import targets
from regard.recipes.graphs.objects import of_object
from regard.recipes.graphs.parts import Parts, Rows

LEAST_EDGES = 10  # between labelled nodes: fewer say nothing


@dataclass(frozen=True, kw_only=True)
class Traits:
    """The default values stand for graphs that cannot be read: preparing them reports the error."""

    level: str = "node"  # what has targets: node, edge, graph
    classes: bool = True  # or numbers
    train: int = 0  # examples in the train split
    words: bool = False  # features that are mostly zero, as the words of a page
    # how much more often than by chance an edge joins two nodes of one class: 1 always, 0 by chance; None:
    # unknown. Labels of the test split do not count
    homophily: float | None = None


def find_traits(config: GraphsConfig, given: Any = None, seed: int = 0) -> Traits:
    """The traits of the graphs that a config names, or of an object such as PyTorch Geometric's."""
    try:
        if given is not None:
            parts = of_object(given)
        else:
            parts = read_parts(config)
        return _traits_of(parts, config, seed)
    except (ValueError, OSError):
        return Traits()


def _traits_of(parts: Parts, config: GraphsConfig, seed: int) -> Traits:
    level = level_of(parts, config)
    labels = labels_at(parts, level)
    if labels is None:
        return Traits(level=level)
    names, _, target = targets(list(labels), config.target, parts.what)
    split = parts.split or draw_split(parts, level, names, target, config, seed)
    if names is None or level != "node":
        homophily = None
    else:
        shown = np.concatenate([split["train"], split.get("validation", split["train"][:0])])
        homophily = measure_homophily(parts.edges, target, np.asarray(shown, dtype=np.int64))
    return Traits(
        level=level,
        classes=names is not None,
        train=len(split["train"]),
        words=isinstance(parts.x, Rows) or (parts.x is not None and is_thin(parts.x)),
        homophily=homophily,
    )


def measure_homophily(edges: Array, target: Array, nodes: Array) -> float | None:
    """(h − Σp²) / (1 − Σp²): h is the share of the edges between these nodes that join two of one class, and
    p are the shares of the classes among the ends of these edges. None: too few edges to tell"""
    shown = np.zeros(len(target), dtype=bool)
    shown[nodes] = True
    shown &= target >= 0
    ends = target[edges[:, shown[edges].all(0) & (edges[0] != edges[1])]]
    if ends.shape[1] < LEAST_EDGES:
        return None
    shares = np.bincount(ends.reshape(-1)) / ends.size
    chance = float(np.square(shares).sum())
    if chance == 1:
        return None
    return (float((ends[0] == ends[1]).mean()) - chance) / (1 - chance)
