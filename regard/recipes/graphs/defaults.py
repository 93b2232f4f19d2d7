"""Default settings for graphs: they follow from what is asked of them, and of whom."""

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
    "Nodes hear from their neighbours, layer by layer.",
    data=GraphsConfig,
    model=GraphNetConfig,
)
GraphTransformerSettings = settings_class(
    "GraphTransformerSettings",
    "Nodes attend to nodes: to all of their graph, or along edges.",
    data=GraphsConfig,
    model=GraphTransformerConfig,
)
KINDS: dict[str, type[Settings]] = {
    "graphnet": GraphNetSettings,
    "graphtransformer": GraphTransformerSettings,
}


def defaults(data: Any = None, kind: str | None = None) -> Settings:
    """A graph network that spreads its answers along edges, unless another kind is asked for."""
    # an object is handed on as it is
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
    """The recipe for these graphs and what is asked of them."""
    large = given is None and looks_mapped(graphs.path)
    # Classes of the nodes of one graph are few labels and one batch: much dropout and weight decay. Numbers,
    # and whole graphs,
    # are many, and what a channel says of them counts: no dropout, and layers that tell a node from its
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
    """The defaults if options say of the graphs what they cannot tell, or tell otherwise: which column, which
    level."""
    names = [field.name for field in fields(settings.data)]
    said = {name: options[f"data.{name}"] for name in names if f"data.{name}" in options}
    if not said:
        return settings
    return replace(
        _defaults_for(replace(settings.data, **said), model_kind(settings), data), data=settings.data
    )


def model_kind(settings: Settings) -> str:
    """The kind of model that these are the settings of."""
    return next(name for name, cls in KINDS.items() if cls is type(settings))
