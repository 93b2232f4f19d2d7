"""What the defaults of graphs depend on: the task, the number of labels, the features, and whether neighbours
are alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.recipes.graphs.dataset import (
    GraphsConfig,
    is_thin,
    keep_edge_features,
    labels_at,
    level_of,
    read_parts,
)
from regard.recipes.graphs.labels import targets
from regard.recipes.graphs.objects import of_object
from regard.recipes.graphs.parts import Parts, Rows
from regard.recipes.graphs.splits import draw_split

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
    # may neighbours tell about a node: by their classes, or by the features of the edges to them?
    related: bool = True


def find_traits(config: GraphsConfig, given: Any = None, seed: int = 0) -> Traits:
    """The traits of the graphs that a config names, or of an object such as PyTorch Geometric's."""
    try:
        if given is not None:
            parts = keep_edge_features(of_object(given), config)
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
    names, _, target = targets(list(labels), config.asks, parts.what)
    split = parts.split or draw_split(parts, level, names, target, config, config.seed_of(seed))
    if names is None or level != "node":
        homophily, related = None, True
    else:
        shown = np.concatenate([split["train"], split.get("validation", split["train"][:0])])
        ends = labelled_ends(parts.edges, target, np.asarray(shown, dtype=np.int64))
        homophily = measure_homophily(ends)
        # what the features of edges say, classes at their ends do not show
        related = homophily is None or parts.edge_x is not None or are_related(ends)
    return Traits(
        level=level,
        classes=names is not None,
        train=len(split["train"]),
        words=isinstance(parts.x, Rows) or (parts.x is not None and is_thin(parts.x)),
        homophily=homophily,
        related=related,
    )


def labelled_ends(edges: Array, target: Array, nodes: Array) -> Array:
    """The classes at both ends of each edge between two of these nodes.   2 e -> 2 labelled"""
    shown = np.zeros(len(target), dtype=bool)
    shown[nodes] = True
    shown &= target >= 0
    found: Array = target[edges[:, shown[edges].all(0) & (edges[0] != edges[1])]]
    return found


def measure_homophily(ends: Array) -> float | None:
    """(h − Σp²) / (1 − Σp²): h is the share of edges that join two nodes of one class, and p are the shares of
    the classes among the ends of edges. None: too few edges to tell"""
    if ends.shape[1] < LEAST_EDGES:
        return None
    chance = float(np.square(_shares(ends)).sum())
    if chance == 1:
        return None
    return (float((ends[0] == ends[1]).mean()) - chance) / (1 - chance)


def are_related(ends: Array) -> bool:
    """Does the class at one end of an edge tell about the class at the other? χ² of the table of pairs of
    classes, three standard deviations above what independent ends would give."""
    shares = _shares(ends)
    shares = shares[shares > 0]
    _, place = np.unique(ends, return_inverse=True)
    one, other = place.reshape(2, -1)
    pairs = np.zeros((len(shares), len(shares)))
    np.add.at(pairs, (one, other), 0.5)
    pairs += pairs.T
    expected = ends.shape[1] * np.outer(shares, shares)
    # of a symmetric table: each pair of two classes counts once
    upper = np.triu_indices(len(shares))
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)
    found = float((twice * np.square(pairs - expected)[upper] / expected[upper]).sum())
    freedom = len(shares) * (len(shares) - 1) / 2
    return found > freedom + 3 * math.sqrt(2 * freedom)


def _shares(ends: Array) -> Array:
    found: Array = np.bincount(ends.reshape(-1)) / max(ends.size, 1)
    return found
