"""Default settings for graphs: the task (classes or numbers) and its level (node, edge, graph) decide
them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from regard.models.graph_net import GraphNetConfig
from regard.models.graph_transformer import GraphTransformerConfig
from regard.recipes.graphs.dataset import GraphsConfig, infer_task
from regard.recipes.graphs.neighbours import looks_mapped
from regard.recipes.settings import Settings, check_choice, settings_class
from regard.training.config import TrainConfig

UNKNOWN = 1  # stands for a size that follows from the data
SIZES: dict[str, Any] = {"features": UNKNOWN, "outputs": UNKNOWN}


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
    """A GraphNet that spreads its predictions along edges, or the given kind."""
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
    return _defaults_for(graphs, kind, None if path is not None else data)


def _defaults_for(graphs: GraphsConfig, kind: str, given: Any = None) -> Settings:
    """The settings for these graphs and their task."""
    large = given is None and looks_mapped(graphs.path)
    # Classes of nodes or edges: few labels, and the whole graph is one batch, so much dropout and weight
    # decay. Numbers and whole graphs: many labels, so no dropout, and layers that separate a node from its
    # neighbours.
    few = not large and infer_task(graphs, given) in (("node", "classes"), ("edge", "classes"))
    how: dict[str, Any] = {"minutes": 0.5, "weight_decay": 0.5 if few else 0.01}
    if large:
        how = {"minutes": 2.0, "batch": 1024, "weight_decay": 0.05}
    if kind == "graphtransformer":
        if large:
            along: dict[str, Any] = {"attention": "edges", "bias": "none", "position": "none"}
        else:
            along = {}
        how |= {} if large or not few else {"weight_decay": 0.1}
        return GraphTransformerSettings(
            data=graphs,
            model=GraphTransformerConfig(dropout=0.3 if few or large else 0.0, **along, **SIZES),
            train=TrainConfig(optimiser="adamw", lr=0.003, precision="float32", **how),
        )
    if few:
        model = GraphNetConfig(dropout=0.6, **SIZES)
    else:
        model = GraphNetConfig(layer="conv", dropout=0.2 if large else 0.0, norm="layernorm", **SIZES)
    train = TrainConfig(optimiser="adamw", lr=0.01, warmup=10, precision="float32", **how)
    return GraphNetSettings(data=graphs, model=model, train=train)


def refine_defaults(settings: Settings, options: Mapping[str, Any], data: Any) -> Settings:
    """The defaults, chosen again if options change the task: which label column, which level."""
    names = [field.name for field in fields(settings.data)]
    said = {name: options[f"data.{name}"] for name in names if f"data.{name}" in options}
    if not said:
        return settings
    return replace(
        _defaults_for(replace(settings.data, **said), model_kind(settings), data), data=settings.data
    )


def model_kind(settings: Settings) -> str:
    """The kind of model that these settings are for."""
    return next(name for name, cls in KINDS.items() if cls is type(settings))
