"""What the defaults of graphs depend on: the task, the number of labels, the features, and whether neighbours
are alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from regard.data.array import Array
from regard.data.splits import TRAIN, VALIDATION
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.graphs.config import GraphsConfig
from regard.recipes.graphs.features import is_thin
from regard.recipes.graphs.parts import Rows
from regard.recipes.graphs.splits import choose_splits
from regard.recipes.target import Target

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


def find_traits(examples: Examples | None, config: GraphsConfig, seed: int = 0) -> Traits:
    """The traits of graphs that were read. seed: of the training, which draws the splits"""
    if examples is None or examples.cells is None:
        return Traits()
    parts, level = examples.about["graphs"], examples.part
    try:
        target = Target.infer(examples.cells, what=examples.what, names=examples.target_names, asks=config.asks)
        codes = target.encode(examples.cells, examples.what)
        splits = choose_splits(examples, target, codes, config, config.seed_of(seed))
    except RegardError:
        return Traits(level=level)
    homophily, related = None, True
    if target.labels is not None and level == "node":
        shown = np.flatnonzero((splits == TRAIN) | (splits == VALIDATION))
        ends = labelled_ends(parts.edges, codes, shown)
        homophily = measure_homophily(ends)
        # what the features of edges say, classes at their ends do not show
        related = homophily is None or parts.edge_x is not None or are_related(ends)
    return Traits(
        level=level,
        classes=bool(target.classes),
        train=int((splits == TRAIN).sum()),
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
