"""Default settings for graphs: the task, its level (node, edge, graph), the number of labels, the features and
whether neighbours are alike decide them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.data.splits import TRAIN, VALIDATION
from regard.errors import RegardError
from regard.models.graph_net import GraphNetConfig
from regard.models.graph_transformer import GraphTransformerConfig
from regard.recipes.example import Examples
from regard.recipes.graphs.config import GraphsConfig
from regard.recipes.graphs.features import is_thin
from regard.recipes.graphs.neighbours import MappedGraph
from regard.recipes.graphs.parts import Rows
from regard.recipes.graphs.splits import choose_splits
from regard.recipes.settings import Settings, check_choice, settings_of_kind
from regard.recipes.target import Target
from regard.training.config import TrainConfig

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


# ── what the data is like

UNKNOWN = 1  # stands for a size that follows from the data
SIZES: dict[str, Any] = {"features": UNKNOWN, "outputs": UNKNOWN}
DECIDING = ("model.layer", "train.seed")  # options on which defaults depend, beside those of the data
MINUTES = 0.5  # the budget of many graphs
FEW = 1000  # labels below which a model overfits soon
ALIKE = 0.3  # homophily from which neighbours help as they are
ATTENTION = ("gat", "gatv2")
EVALUATIONS = 40  # evaluations in a training of a known number of steps
EPOCHS, LEAST_STEPS, MOST_STEPS = 50, 500, 5000  # of whole graphs

KINDS = ("graphnet", "graphtransformer")


def data_section(data: Any) -> GraphsConfig:
    """A path, an object in memory, or None: the built-in graph."""
    if data is None:
        return GraphsConfig(train=20, validation=0.2, test=0.5)
    return GraphsConfig(path=os.fspath(data) if isinstance(data, str | os.PathLike) else None)


def choose_defaults(
    data: GraphsConfig, examples: Examples | None, kind: str | None, options: Mapping[str, Any] = MappingProxyType({})
) -> Settings:
    """A GraphNet, or the given kind. options: those that were given, see DECIDING"""
    kind = kind or "graphnet"
    check_choice("kind of model for graphs", kind, KINDS)
    if examples is not None and isinstance(examples.about["graphs"], MappedGraph):
        model, train = _large_defaults(kind)
    else:
        traits = find_traits(examples, data, seed=options.get("train.seed", 0))
        if kind == "graphtransformer":
            model, train = _transformer_defaults(traits)
        else:
            model, train = _net_defaults(traits, options.get("model.layer"))
    return settings_of_kind(kind, GraphsConfig)(data=data, model=model, train=train)


def _large_defaults(kind: str) -> tuple[Any, TrainConfig]:
    """A graph that is read in samples: many labels, and a budget in minutes."""
    how: dict[str, Any] = {"minutes": 2.0, "batch": 1024, "weight_decay": 0.05, "precision": "float32"}
    if kind == "graphtransformer":
        along = GraphTransformerConfig(dropout=0.3, attention="edges", bias="none", position="none", **SIZES)
        return along, TrainConfig(optimiser="adamw", lr=0.003, **how)
    model = GraphNetConfig(layer="conv", dropout=0.2, norm="layernorm", **SIZES)
    return model, TrainConfig(optimiser="adamw", lr=0.01, warmup=10, **how)


def _transformer_defaults(traits: Traits) -> tuple[Any, TrainConfig]:
    few = traits.classes and traits.level != "graph"
    model = GraphTransformerConfig(dropout=0.3 if few else 0.0, **SIZES)
    return model, _train_config(traits, lr=0.003, weight_decay=0.1 if few else 0.01, warmup=20)


def _net_defaults(traits: Traits, layer: str | None) -> tuple[Any, TrainConfig]:
    if traits.level == "graph" and traits.classes:
        # sums count the neighbours, as in GIN; sums of any size need batch norm
        how: dict[str, Any] = {"gather": "sum", "norm": "batchnorm", "residual": True}
        counts = GraphNetConfig(layer="conv", hidden=128, depth=5, **how, **SIZES)
        return counts, _train_config(traits, lr=0.01, weight_decay=0.01)
    if traits.level == "graph" or not traits.classes:
        # many labels: no dropout, and layers that separate a node from its neighbours
        model = GraphNetConfig(layer="conv", norm="layernorm", **SIZES)
        return model, _train_config(traits, lr=0.01, weight_decay=0.01)
    chosen: Any = layer or _layer_for(traits)
    model = GraphNetConfig(layer=chosen, **_sizes_for(chosen, traits), **SIZES)
    return model, replace(_train_config(traits, lr=0.01, weight_decay=0.5), **_rates_for(chosen, traits))


def _layer_for(traits: Traits) -> str:
    """Are neighbours alike? gcn, which mixes them. Otherwise conv, whose own weights for the node itself keep
    its features apart from those of its neighbours. Do neighbours tell nothing? Then they are noise: alone."""
    if traits.homophily is None or traits.homophily >= ALIKE:
        return "gcn"
    if traits.related:
        return "conv"
    return "alone"


def _rates_for(layer: str, traits: Traits) -> dict[str, Any]:
    """What differs in training. Attention is trained as its authors do: L2 of all weights by Adam, at a rate
    that does not fall, for more steps, of which the validation split chooses one."""
    if layer in ATTENTION:
        decays = {"weight_decay": 5e-4, "decay_all": True, "decay": 0.0}
        steps = 2 * (_steps_for(traits) or 1)
        return {"optimiser": "adam", "lr": 0.005, **decays, "steps": steps, "evaluate_every": 2}
    if layer in ("conv", "alone"):
        return {"weight_decay": 5.0}
    return {}


def _sizes_for(layer: str, traits: Traits) -> dict[str, Any]:
    """Width and dropout. Words are many features of which each says little, so most can be dropped; of a few
    dense features each is needed."""
    if layer in ATTENTION:  # drops inputs, values and attention
        return {"dropout": 0.6 if traits.words else 0.3, "activation": "elu"}
    if traits.words and traits.train < FEW:
        return {"hidden": 256, "dropout": 0.9}
    return {"dropout": 0.5}


def _train_config(traits: Traits, *, lr: float, weight_decay: float, warmup: int = 10) -> TrainConfig:
    """A budget in steps, so that a busy machine trains as many as an idle one, and evaluations so often that
    none of a short training is missed. Many graphs have a budget in minutes: their steps are many anyway."""
    steps = _steps_for(traits)
    if steps is None:
        budget: dict[str, Any] = {"minutes": MINUTES}
    elif traits.level == "graph":
        # the few graphs of a validation split are judged seldom: the best of many evaluations would be the luckiest
        budget = {"minutes": None, "steps": steps}
    else:
        budget = {"minutes": None, "steps": steps, "evaluate_every": max(5, steps // EVALUATIONS)}
    return TrainConfig(
        optimiser="adamw", lr=lr, warmup=warmup, weight_decay=weight_decay, precision="float32", **budget
    )


def _steps_for(traits: Traits) -> int | None:
    if traits.level != "graph":  # the whole graph at every step
        return 200 if traits.train < FEW else 500
    steps = EPOCHS * -(-traits.train // TrainConfig.batch)
    if steps > MOST_STEPS:
        return None
    return max(LEAST_STEPS, steps)
