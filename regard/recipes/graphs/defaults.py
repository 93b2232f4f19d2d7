"""Default settings for graphs: the task, its level (node, edge, graph), the number of labels, the features and
whether neighbours are alike decide them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from regard.models.graph_net import GraphNetConfig
from regard.models.graph_transformer import GraphTransformerConfig
from regard.recipes.example import Examples
from regard.recipes.graphs.config import GraphsConfig
from regard.recipes.graphs.neighbours import MappedGraph
from regard.recipes.graphs.traits import Traits, find_traits
from regard.recipes.settings import Settings, check_choice, settings_of_kind
from regard.training.config import TrainConfig

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
