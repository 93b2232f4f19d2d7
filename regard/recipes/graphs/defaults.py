"""Graphs: nodes, edges or whole graphs that are to be told apart, or to have numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.models.graph_net import GraphNetConfig
from regard.models.graph_transformer import GraphTransformerConfig
from regard.recipes.base import choose
from regard.recipes.graphs.dataset import GraphsConfig, question
from regard.recipes.graphs.neighbours import looks_mapped
from regard.training.config import TrainConfig

HELP = {
    "--data PATH": "an edge list (with --data.nodes), a .npz, a folder of graphs; without it: digits, linked by likeness",
    "--model KIND": "graphnet (graph convolution, GCN, GAT, GATv2: --model.layer) or graphtransformer",
}
OWN = frozenset({"features", "outputs", "level", "ordered"})

UNKNOWN = 1  # stands for a size that follows from the data
SIZES: dict[str, Any] = {"features": UNKNOWN, "outputs": UNKNOWN}


class Asking:
    """A recipe whose defaults follow from what is asked of the graphs."""

    data: GraphsConfig

    def asking(self, said: Mapping[str, Any], given: Any) -> Any:
        """The defaults if options say of the data what it cannot tell, or tells otherwise: which column, which level."""
        kind = next(name for name, cls in KINDS.items() if cls is type(self))
        return replace(suited(replace(self.data, **said), kind, given), data=self.data)


@dataclass(frozen=True, kw_only=True)
class GraphNetRecipe(Asking):
    """Nodes hear from their neighbours, layer by layer."""

    data: GraphsConfig
    model: GraphNetConfig
    train: TrainConfig


@dataclass(frozen=True, kw_only=True)
class GraphTransformerRecipe(Asking):
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
    graphs = GraphsConfig(path=path) if data is not None else GraphsConfig(train=20, validation=0.2, test=0.5)
    return suited(graphs, kind, None if path is not None else data)


def suited(graphs: GraphsConfig, kind: str, given: Any = None) -> Any:
    """The recipe for these graphs and what is asked of them."""
    large = given is None and looks_mapped(graphs.path)
    # Classes of the nodes of one graph are few labels and one batch: much dropout and weight decay. Numbers, and whole graphs,
    # are many, and what a channel says of them counts: no dropout, and layers that tell a node from its neighbours.
    few = not large and question(graphs, given) in (("node", "classes"), ("edge", "classes"))
    how: dict[str, Any] = {"minutes": 0.5, "weight_decay": 0.5 if few else 0.01}
    if large:
        how = {"minutes": 2.0, "batch": 1024, "weight_decay": 0.05}
    if kind == "graphtransformer":
        along: dict[str, Any] = {"attention": "edges", "bias": "none", "position": "none"} if large else {}
        how |= {} if large or not few else {"weight_decay": 0.1}
        return GraphTransformerRecipe(
            data=graphs,
            model=GraphTransformerConfig(dropout=0.3 if few or large else 0.0, **along, **SIZES),
            train=TrainConfig(optimiser="adamw", lr=0.003, precision="float32", **how),
        )
    model = (
        GraphNetConfig(dropout=0.6, **SIZES)
        if few
        else GraphNetConfig(layer="conv", dropout=0.2 if large else 0.0, norm="layernorm", **SIZES)
    )
    train = TrainConfig(optimiser="adamw", lr=0.01, warmup=10, precision="float32", **how)
    return GraphNetRecipe(data=graphs, model=model, train=train)


def class_of(config: Mapping[str, Any]) -> type[Any]:
    """The recipe of a run with this config.json."""
    return KINDS[str(config["kind"])]
