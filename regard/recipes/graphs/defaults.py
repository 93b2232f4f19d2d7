"""Default settings for graphs: the task, its level (node, edge, graph), the number of labels, the features and
whether neighbours are alike decide them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from regard.models.graph_net import GraphNetConfig
from regard.models.graph_transformer import GraphTransformerConfig
from regard.recipes.graphs.dataset import GraphsConfig
from regard.recipes.graphs.neighbours import looks_mapped
from regard.recipes.graphs.traits import Traits, find_traits
from regard.recipes.settings import Settings, check_choice, settings_class
from regard.training.config import TrainConfig

UNKNOWN = 1  # stands for a size that follows from the data
SIZES: dict[str, Any] = {"features": UNKNOWN, "outputs": UNKNOWN}
DECIDING = frozenset(
    {"model.layer", "train.seed"}
)  # options on which defaults depend, beside those of the data
MINUTES = 0.5  # the budget of many graphs
FEW = 1000  # labels below which a model overfits soon
ALIKE = 0.3  # homophily from which neighbours help as they are
ATTENTION = ("gat", "gatv2")
EVALUATIONS = 40  # evaluations in a training of a known number of steps
EPOCHS, LEAST_STEPS, MOST_STEPS = 50, 500, 5000  # of whole graphs

GraphNetSettings = settings_class(
    "GraphNetSettings",
    "GraphNet: message passing between neighbours, layer by layer.",
    data=GraphsConfig,
    model=GraphNetConfig,
)
GraphTransformerSettings = settings_class(
    "GraphTransformerSettings",
    "GraphTransformer: nodes attend to all nodes of their graph, or along edges.",
    data=GraphsConfig,
    model=GraphTransformerConfig,
)
KINDS: dict[str, type[Settings]] = {
    "graphnet": GraphNetSettings,
    "graphtransformer": GraphTransformerSettings,
}


def defaults(data: Any = None, kind: str | None = None) -> Settings:
    """A GraphNet, or the given kind."""
    # an object in memory has no path
    if isinstance(data, str | os.PathLike):
        path = os.fspath(data)
    else:
        path = None
    kind = kind or "graphnet"
    check_choice("kind of model for graphs", kind, tuple(KINDS))
    if data is not None:
        graphs = GraphsConfig(path=path)
    else:
        graphs = GraphsConfig(train=20, validation=0.2, test=0.5)
    return _defaults_for(graphs, kind, {}, None if path is not None else data)


def refine_defaults(settings: Settings, options: Mapping[str, Any], data: Any) -> Settings:
    """The defaults, chosen again if options change what they depend on: the label column, the level, the
    layer."""
    names = [field.name for field in fields(settings.data)]
    said = {name: options[f"data.{name}"] for name in names if f"data.{name}" in options}
    if not said and not DECIDING & options.keys():
        return settings
    graphs = replace(settings.data, **said)
    return replace(_defaults_for(graphs, model_kind(settings), options, data), data=settings.data)


def _defaults_for(graphs: GraphsConfig, kind: str, options: Mapping[str, Any], given: Any = None) -> Settings:
    """The settings for these graphs and their task. options: those that were given"""
    if given is None and looks_mapped(graphs.path):
        return _large_defaults(graphs, kind)
    traits = find_traits(graphs, given, seed=options.get("train.seed", 0))
    if kind == "graphtransformer":
        return _transformer_defaults(graphs, traits)
    return _net_defaults(graphs, traits, options.get("model.layer"))


def _large_defaults(graphs: GraphsConfig, kind: str) -> Settings:
    """A graph that is read in samples: many labels, and a budget in minutes."""
    how: dict[str, Any] = {"minutes": 2.0, "batch": 1024, "weight_decay": 0.05, "precision": "float32"}
    if kind == "graphtransformer":
        along = GraphTransformerConfig(dropout=0.3, attention="edges", bias="none", position="none", **SIZES)
        slow = TrainConfig(optimiser="adamw", lr=0.003, **how)
        return GraphTransformerSettings(data=graphs, model=along, train=slow)
    model = GraphNetConfig(layer="conv", dropout=0.2, norm="layernorm", **SIZES)
    train = TrainConfig(optimiser="adamw", lr=0.01, warmup=10, **how)
    return GraphNetSettings(data=graphs, model=model, train=train)


def _transformer_defaults(graphs: GraphsConfig, traits: Traits) -> Settings:
    few = traits.classes and traits.level != "graph"
    model = GraphTransformerConfig(dropout=0.3 if few else 0.0, **SIZES)
    train = _train_config(traits, lr=0.003, weight_decay=0.1 if few else 0.01, warmup=20)
    return GraphTransformerSettings(data=graphs, model=model, train=train)


def _net_defaults(graphs: GraphsConfig, traits: Traits, layer: str | None) -> Settings:
    if traits.level == "graph" and traits.classes:
        # sums count the neighbours, as in GIN; sums of any size need batch norm
        how: dict[str, Any] = {"gather": "sum", "norm": "batchnorm", "residual": True}
        counts = GraphNetConfig(layer="conv", hidden=128, depth=5, **how, **SIZES)
        train = _train_config(traits, lr=0.01, weight_decay=0.01)
        return GraphNetSettings(data=graphs, model=counts, train=train)
    if traits.level == "graph" or not traits.classes:
        # many labels: no dropout, and layers that separate a node from its neighbours
        model = GraphNetConfig(layer="conv", norm="layernorm", **SIZES)
        train = _train_config(traits, lr=0.01, weight_decay=0.01)
        return GraphNetSettings(data=graphs, model=model, train=train)
    chosen: Any = layer or _layer_for(traits)
    model = GraphNetConfig(layer=chosen, **_sizes_for(chosen, traits), **SIZES)
    train = replace(_train_config(traits, lr=0.01, weight_decay=0.5), **_rates_for(chosen, traits))
    return GraphNetSettings(data=graphs, model=model, train=train)


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


def model_kind(settings: Settings) -> str:
    """The kind of model that these settings are for."""
    return next(name for name, cls in KINDS.items() if cls is type(settings))
