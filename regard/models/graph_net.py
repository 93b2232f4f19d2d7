"""Graph networks: message passing layers, and a prediction for each node, each pair of nodes or each graph.

Nodes are n features, edges 2 e from source to target; several graphs are one, side by side, with `of` saying
which graph a node belongs to. An undirected edge is there in both directions. Features that are mostly zero
may come in a sparse layout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.edge_ops import edge_sum
from regard.config import Count, Depth, Extras, Fraction, Share, Size, Width, config
from regard.errors import RegardError
from regard.models.registered_model import Options, RegisteredModel
from regard.models.sample_inputs import sample_graph
from regard.nn.graph import Graph, check_edge_features
from regard.nn.graph_conv import GAT, GCN, Alone, GraphConv
from regard.nn.graph_pool import GraphPool, Pairs
from regard.nn.mlp import ACTIVATIONS
from regard.nn.norm import NORMS
from regard.nn.sparse import Sparse, sparse_dropout
from regard.shapes import expect
from regard.symmetry.groups import Group, Permutations
from regard.symmetry.roles import Roles


@config
class GraphNetConfig:
    """A graph network. The defaults suit small citation graphs."""

    features: Size  # features of each node
    outputs: Size  # numbers in the output
    edge_features: Annotated[int, Field(ge=0, le=2**20)] = 0  # numbers of each edge; 0: edges have none
    hidden: Width = 64  # width of the hidden layers
    depth: Depth = 2  # layers
    # conv: θ₁x + Σθ₂x; gcn: GCN; gat, gatv2: attention along edges; alone: θx without neighbours
    layer: Literal["conv", "gcn", "gat", "gatv2", "alone"] = "gcn"
    gather: Literal["sum", "mean", "max"] = "mean"  # how conv combines neighbours
    heads: Count = 8  # attention heads in all layers but the last, which has one
    activation: Literal["relu", "leaky", "gelu", "elu"] = "relu"  # between layers
    # before each activation; batchnorm: over the nodes of a batch
    norm: Literal["none", "layernorm", "rmsnorm", "batchnorm"] = "none"
    residual: bool = False  # residual connections around all layers but the first and the last
    dropout: Share = 0.0  # share of channels, and of attention, dropped in training
    spread: Extras = 0  # steps of personalised PageRank after the layers (APPNP); 0: none
    stay: Fraction = 0.1  # weight of a node's own prediction in each of these steps
    # a prediction for each node, each pair of nodes, or each graph
    level: Literal["node", "edge", "graph"] = "node"
    pool: Literal["sum", "mean", "max", "attention"] = "mean"  # over the nodes of a graph
    ordered: bool = False  # pairs: the prediction for (i, j) may differ from (j, i)

    def __post_init__(self) -> None:
        if self.edge_features and self.layer == "alone":
            raise RegardError("the layer alone uses no edges, so it cannot use their features; choose another")
        asks = self.level == "graph" and self.pool == "attention"
        if (
            asks or (self.layer in ("gat", "gatv2") and (self.depth > 1 or self.level != "node"))
        ) and self.hidden % self.heads:
            raise RegardError(f"must be a multiple of heads={self.heads}, got {self.hidden}", option="hidden")


class NodeBatchNorm(nn.BatchNorm1d):
    """Batch norm over the nodes of a batch; a single node, which has no deviation, is scaled as in use."""

    def forward(self, input: Tensor) -> Tensor:
        if len(input) > 1 or not self.training:
            return super().forward(input)
        scaled: Tensor = nn.functional.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
        )
        return scaled


def _attentive(config: GraphNetConfig, dim: int, out: int, last: bool, later: bool) -> GAT:
    """The last layer has one head."""
    return GAT(
        dim,
        out,
        1 if last else config.heads,
        join=not last,
        later=later,
        dropout=config.dropout,
        edge_features=config.edge_features,
    )


LAYERS: dict[str, Callable[[GraphNetConfig, int, int, bool], nn.Module]] = {
    "conv": lambda c, a, b, last: GraphConv(a, b, gather=c.gather, edge_features=c.edge_features),
    "gcn": lambda c, a, b, last: GCN(a, b, edge_features=c.edge_features),
    "gat": lambda c, a, b, last: _attentive(c, a, b, last, later=False),
    "gatv2": lambda c, a, b, last: _attentive(c, a, b, last, later=True),
    "alone": lambda c, a, b, last: Alone(a, b),
}
NORMS_OR_NONE: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda dim: nn.Identity(),
    "batchnorm": NodeBatchNorm,
    **NORMS,
}
BETWEEN: dict[str, Callable[[Tensor], Tensor]] = {**ACTIVATIONS, "elu": nn.functional.elu}


class GraphModel(RegisteredModel):
    """The base of graph models: their outputs do not depend on how nodes are numbered."""

    config: Any  # with the fields features and edge_features

    def sample_inputs(self, seed: int = 0, tokens: int | None = None, rows: int | None = None) -> dict[str, Any]:
        return sample_graph(self.config, seed)

    @property
    def symmetry(self) -> Group:
        """Any renumbering of the nodes."""
        return Permutations()

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        if self.config.edge_features:
            return Roles(nodes="x", edges="edges", of_edges=("edge_features",))
        return Roles(nodes="x", edges="edges")


class GraphNet(GraphModel):
    """Message passing between neighbours, layer by layer.   n features, 2 e -> n outputs, p outputs or graphs
    outputs

    Relabelling nodes, in the edges too, moves the outputs of nodes along, and changes no output of a pair or
    of a graph.
    """

    Config = GraphNetConfig
    TINY: ClassVar[Options] = dict(features=3, outputs=5, hidden=16, layer="gat", heads=2)

    def __init__(self, config: GraphNetConfig) -> None:
        super().__init__()
        self.config = config
        last = config.outputs if config.level == "node" else config.hidden
        widths = [config.features, *[config.hidden] * (config.depth - 1), last]
        self.layers = nn.ModuleList(
            LAYERS[config.layer](config, widths[i], widths[i + 1], i == config.depth - 1 and config.level == "node")
            for i in range(config.depth)
        )
        inner = config.depth - 1 if config.level == "node" else config.depth
        self.norms = nn.ModuleList(NORMS_OR_NONE[config.norm](config.hidden) for _ in range(inner))
        self.pool: GraphPool | None = None
        if config.level == "graph":
            self.pool = GraphPool(config.pool, config.hidden, config.heads)
        self.head: nn.Module | None = None
        if config.level == "graph":
            self.head = nn.Linear(config.hidden, config.outputs)
        elif config.level == "edge":
            self.head = Pairs(config.hidden, config.outputs, ordered=config.ordered)

    def forward(
        self,
        x: Tensor,
        edges: Tensor | Graph,
        *,
        of: Tensor | None = None,
        graphs: int | None = None,
        pairs: Tensor | None = None,
        edge_features: Tensor | None = None,
    ) -> Tensor:
        """edges: 2 e, or a Graph   of: the graph of each node, from 0 (None: one graph)
        graphs: how many there are (None: as many as nodes name)   pairs: 2 p, the pairs to predict at the
        level of edges (None: for each edge)   edge_features: e k, in the order of the edges
        """
        n, _ = expect(x, "n d", name="x", d=self.config.features)
        graph = Graph.of(edges, n)
        along = check_edge_features(edge_features, graph, self.config.edge_features)
        h: Any = x if x.layout is torch.strided else Sparse.of(x)
        for i, layer in enumerate(self.layers):
            y = layer(sparse_dropout(h, self.config.dropout, self.training), graph, along)
            if i < len(self.norms):
                y = BETWEEN[self.config.activation](self.norms[i](y))
                if self.config.residual and y.shape == h.shape:
                    y = h + y
            h = y
        h = spread(h, graph, self.config.spread, self.config.stay)
        return read_out(h, self.pool, self.head, graph, of, graphs, pairs)


def spread(h: Tensor, graph: Graph, steps: int, stay: float) -> Tensor:
    """z ← (1 − stay)·D^(−½)(A + I)D^(−½) z + stay·h, some steps: predictions spread to near nodes.
    n d -> n d"""
    if not steps:
        return h
    looped, z = graph.looped, h
    weights = looped.even(h.dtype)[None]
    for _ in range(steps):
        z = (1 - stay) * edge_sum(weights, z[None], looped.links)[0] + stay * h
    return z


def read_out(
    h: Tensor,
    pool: nn.Module | None,
    head: nn.Module | None,
    graph: Graph,
    of: Tensor | None,
    graphs: int | None,
    pairs: Tensor | None,
) -> Tensor:
    """The output of a model, after its layers.
    n d -> n outputs, p outputs or graphs outputs"""
    if head is None:
        return h
    if isinstance(head, Pairs):
        out: Tensor = head(h, graph.edges if pairs is None else pairs)
        return out
    out = head(h if pool is None else pool(h, of, graphs))
    return out
