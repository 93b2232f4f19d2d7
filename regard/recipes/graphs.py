"""Graphs: nodes, edges or whole graphs that are to be told apart, or to have numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.data.graphs import GraphsConfig
from regard.data.neighbours import looks_mapped
from regard.models.graph_transformer import GraphTransformerConfig
from regard.models.graphs import GraphNetConfig
from regard.recipes.find import choose
from regard.run import TrainConfig

HELP = {
    "--data PATH": "an edge list (with --data.nodes), a .npz, a folder of graphs; without it: digits, linked by likeness",
    "--model KIND": "graphnet (graph convolution, GCN, GAT, GATv2: --model.layer) or graphtransformer",
}
OWN = frozenset({"features", "outputs", "level", "ordered"})

UNKNOWN = 1  # stands for a size that follows from the data
SIZES: dict[str, Any] = {"features": UNKNOWN, "outputs": UNKNOWN}


@dataclass(frozen=True, kw_only=True)
class GraphNetRecipe:
    """Nodes hear from their neighbours, layer by layer."""

    data: GraphsConfig
    model: GraphNetConfig
    train: TrainConfig


@dataclass(frozen=True, kw_only=True)
class GraphTransformerRecipe:
    """Nodes attend to nodes: to all of their graph, or along edges."""

    data: GraphsConfig
    model: GraphTransformerConfig
    train: TrainConfig


KINDS: dict[str, type[Any]] = {"graphnet": GraphNetRecipe, "graphtransformer": GraphTransformerRecipe}


def recipe(data: Any = None, kind: str | None = None) -> Any:
    """A graph network that spreads its answers along edges, unless another kind is asked for."""
    path = os.fspath(data) if isinstance(data, str | os.PathLike) else None  # an object is handed on as it is
    kind = kind or "graphnet"
    choose("kind of model for graphs", kind, tuple(KINDS))
    large = looks_mapped(path)
    graphs = GraphsConfig(path=path) if data is not None else GraphsConfig(train=20, validation=0.2, test=0.5)
    # (a whole graph is one batch, whose labels are few: much dropout and weight decay)
    how: dict[str, Any] = {"minutes": 0.5, "weight_decay": 0.5}
    if large:
        how = {"minutes": 2.0, "batch": 1024, "weight_decay": 0.05}
    train = TrainConfig(optimiser="adamw", lr=0.01, warmup=10, precision="float32", **how)
    if kind == "graphtransformer":
        along: dict[str, Any] = {"attention": "edges", "bias": "none", "position": "none"} if large else {}
        return GraphTransformerRecipe(
            data=graphs, model=GraphTransformerConfig(dropout=0.3, **along, **SIZES),
            train=TrainConfig(minutes=train.minutes, batch=train.batch, optimiser="adamw", lr=0.003, precision="float32"),
        )
    model = GraphNetConfig(layer="conv", dropout=0.2, norm="layernorm", **SIZES) if large else GraphNetConfig(
        dropout=0.6, **SIZES)
    return GraphNetRecipe(data=graphs, model=model, train=train)


def class_of(config: Mapping[str, Any]) -> type[Any]:
    """The recipe of a run with this config.json."""
    return KINDS[str(config["kind"])]
