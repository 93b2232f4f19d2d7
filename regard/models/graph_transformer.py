"""A transformer for graphs. Nodes attend to their neighbours, or to all nodes of their graph with a bias for
each distance."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.biases import Bias, Distance
from regard.attention.mask import Mask
from regard.attention.masks import Padding
from regard.config import Count, Depth, Share, Size, Width, config
from regard.errors import RegardError
from regard.models.attentions import check_heads
from regard.models.graph_net import GraphModel, read_out
from regard.models.registered_model import Options
from regard.nn.block import Pre
from regard.nn.graph import EdgeMessages, Graph, check_edge_features
from regard.nn.graph_pool import GraphPool, Pairs, membership
from regard.nn.mlp import make_mlp
from regard.nn.node_attention import Kernels, NodeAttention, adjacency, returns, spectrum, steps_apart
from regard.nn.norm import NORMS
from regard.nn.sparse import Sparse, through
from regard.shapes import expect


@config
class GraphTransformerConfig:
    """The settings of a transformer whose tokens are the nodes of graphs."""

    features: Size  # features of each node
    outputs: Size  # numbers in the output
    # numbers of each edge; 0: edges have none. Each block then adds messages along edges before it attends
    edge_features: Annotated[int, Field(ge=0, le=2**20)] = 0
    dim: Width = 64  # width of the residual stream
    depth: Depth = 3  # blocks
    heads: Count = 4  # attention heads of each block
    # edges: nodes attend to neighbours and themselves; full: to all nodes of their graph
    attention: Literal["edges", "full"] = "full"
    # distance: a learned number for each shortest-path distance; for full attention
    bias: Literal["none", "distance"] = "distance"
    farthest: Count = 5  # largest distance with its own number; all farther nodes share one
    # position of a node: spectral kernels, or return probabilities of random walks
    position: Literal["none", "laplacian", "walk"] = "laplacian"
    places: Size = 8  # eigenvectors, or lengths of walks
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"  # before each part of a block
    mlp: Literal["relu", "leaky", "gelu", "relu2", "swiglu"] = "gelu"  # activation inside the MLP
    dropout: Share = 0.0  # share of weights, hidden channels and branches dropped in training
    # a prediction for each node, each pair of nodes, or each graph
    level: Literal["node", "edge", "graph"] = "node"
    pool: Literal["sum", "mean", "max", "attention"] = "mean"  # over the nodes of a graph
    ordered: bool = False  # pairs: the prediction for (i, j) may differ from (j, i)

    def __post_init__(self) -> None:
        check_heads(self)
        if self.attention == "edges" and self.bias != "none":
            raise RegardError(
                "a bias of distance is for attention='full': along edges every distance is 1; use bias='none'"
            )


class Layout(NamedTuple):
    """Graphs as rows of a batch: the row and the place of each node, and which places are real."""

    of: Tensor  # n
    place: Tensor  # n
    real: Tensor  # bool b m

    def rows(self, h: Tensor) -> Tensor:
        """n … -> b m …, padded with zeros"""
        return h.new_zeros(*self.real.shape, *h.shape[1:]).index_put((self.of, self.place), h)


class Known(NamedTuple):
    """What depends only on edges and graphs. It is computed once for each graph and kept."""

    of: Tensor
    graphs: int
    layout: Layout
    apart: Tensor | None  # b m m: steps from one node to another
    returns: Tensor | None  # n places: walks that come back
    spectrum: tuple[Tensor, Tensor, Tensor] | None  # n k, b k, b k: see `spectrum`


class Places(nn.Module):
    """Adds the position of a node to its features. The Laplacian also gives kernels for the scores.
    n d -> n d

    The position of node i is Σ_r g_l(λ_r) v_ir², the diagonal of a kernel, or the probability that random
    walks return to i.
    """

    def __init__(self, config: GraphTransformerConfig) -> None:
        super().__init__()
        self.heads, self.depth, self.count = config.heads, config.depth, config.places
        self.read = nn.Linear(config.places, config.dim)
        self.filter: nn.Module | None = None
        if config.position == "laplacian":
            outs = config.places + config.depth * config.heads
            self.filter = nn.Sequential(nn.Linear(1, 32), nn.GELU(), nn.Linear(32, outs))

    def forward(self, h: Tensor, known: Known) -> tuple[Tensor, list[Kernels] | None]:
        """The features with positions, and the kernels of each block as n h k and n k."""
        if self.filter is None:
            assert known.returns is not None
            return h + self.read(known.returns.to(h.dtype)), None
        assert known.spectrum is not None
        vectors, values, cut = (each.to(h.dtype) for each in known.spectrum)
        factors = (self.filter(values[..., None]) * cut[..., None])[
            known.of
        ]  # n k outs, zero where a space may be cut through
        own = torch.einsum("nk,nkl->nl", vectors.square(), factors[..., : self.count])
        each = factors[..., self.count :].unflatten(-1, (self.depth, self.heads))
        kernels = [Kernels(torch.einsum("nk,nkh->nhk", vectors, each[:, :, i]), vectors) for i in range(self.depth)]
        return h + self.read(own), kernels


class Block(nn.Module):
    """x + attend(norm x), then x + mlp(norm x).   b n d -> b n d"""

    def __init__(self, config: GraphTransformerConfig) -> None:
        super().__init__()
        attention = NodeAttention(config.dim, config.heads, dropout=config.dropout)
        self.attention = Pre(NORMS[config.norm](config.dim), attention, config.dropout)
        self.mlp = Pre(
            NORMS[config.norm](config.dim), make_mlp(config.mlp, config.dim, None, config.dropout), config.dropout
        )

    def forward(self, x: Tensor, mask: Mask | None, bias: Bias | None, kernels: Kernels | None) -> Tensor:
        out: Tensor = self.mlp(self.attention(x, mask=mask, bias=bias, kernels=kernels))
        return out


class GraphTransformer(GraphModel):
    """Nodes attend to nodes.   n features, 2 e -> n outputs, p outputs or graphs outputs

    If nodes are renumbered, in the edges too, the predictions of nodes move along, and those of pairs and of
    graphs do not change. This also holds for repeated eigenvalues of the Laplacian: see `nn/node_attention.py`.
    With full attention, a distance bias or a position, memory grows with the square of the largest graph.
    With attention='edges' and position='none' it grows linearly.
    """

    Config = GraphTransformerConfig
    TINY: ClassVar[Options] = dict(features=3, outputs=5, dim=16, depth=2, heads=2, places=4, farthest=3)

    def __init__(self, config: GraphTransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Linear(config.features, config.dim)
        self.places = None if config.position == "none" else Places(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        steps = config.farthest + 1
        biases = config.depth if config.bias == "distance" else 0
        self.biases = nn.ModuleList(Distance(config.heads, farthest=steps, steps=steps) for _ in range(biases))
        local = config.depth if config.edge_features else 0
        self.messages = nn.ModuleList(
            EdgeMessages(config.dim, config.dim, config.edge_features, "mean") for _ in range(local)
        )
        self.norm = NORMS[config.norm](config.dim)
        self.pool: GraphPool | None = None
        if config.level == "graph":
            self.pool = GraphPool(config.pool, config.dim, config.heads)
        if config.level == "edge":
            self.head: nn.Module = Pairs(config.dim, config.outputs, ordered=config.ordered)
        else:
            self.head = nn.Linear(config.dim, config.outputs)

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
        """As GraphNet. edges: 2 e or a Graph; edge_features: e k; of: the graph of each node; graphs: their number; pairs: 2 p,
        the pairs of nodes to predict."""
        n, _ = expect(x, "n d", name="x", d=self.config.features)
        graph = Graph.of(edges, n)
        along = check_edge_features(edge_features, graph, self.config.edge_features)
        h = through(self.embed, x if x.layout is torch.strided else Sparse.of(x))
        known = self.known(graph, h, of, graphs)
        if self.places is None:
            h, kernels = (h, None)
        else:
            h, kernels = self.places(h, known)
        layout, full = known.layout, self.config.attention == "full"
        mask: Mask | None = graph.looped.mask
        if full:
            mask = None if of is None else Padding(layout.real)
        rows = layout.rows if full else lambda each: each[None]
        y = rows(h)
        for i, block in enumerate(self.blocks):
            bias = self.biases[i].over(known.apart) if known.apart is not None else None  # type: ignore[operator]
            laid = None
            if kernels is not None:
                laid = Kernels(rows(kernels[i].here).transpose(1, 2), rows(kernels[i].there))
            if along is not None:
                nodes = y[layout.of, layout.place] if full else y[0]
                y = y + rows(self.messages[i](nodes, graph, along))
            y = block(y, mask, bias, laid)
        h = self.norm(y[layout.of, layout.place] if full else y[0])
        return read_out(h, self.pool, self.head, graph, of, graphs, pairs)

    def known(self, graph: Graph, h: Tensor, of: Tensor | None, graphs: int | None) -> Known:
        """What needs no weights: computed once, then kept with the graph."""
        member, count = membership(h, of, graphs)
        config = self.config
        key = (config.attention, config.bias, config.farthest, config.position, config.places)
        held = graph.kept.get(key)
        if held is not None and held.graphs == count and torch.equal(held.of, member):
            return held
        layout = _laid_out(member, count, of is None)
        apart = walks = spectral = None
        if config.bias != "none" or config.position != "none":
            linked = adjacency(graph.edges, layout.of, layout.place, (layout.real.shape[0], layout.real.shape[1]))
            exact = torch.float64 if h.device.type != "mps" else torch.float32
            if config.bias != "none":
                apart = steps_apart(linked, config.farthest)
            if config.position == "walk":
                walks = returns(linked, config.places, exact)[layout.of, layout.place]
            elif config.position == "laplacian":
                vectors, values, cut = spectrum(linked, layout.real, config.places, exact)
                spectral = vectors[layout.of, layout.place], values, cut
        found = Known(member, count, layout, apart, walks, spectral)
        if not torch.compiler.is_compiling():
            graph.kept[key] = found
        return found


def _laid_out(of: Tensor, graphs: int, single: bool) -> Layout:
    """One row for each graph, padded to the largest."""
    n = of.shape[0]
    if single:
        return Layout(of, torch.arange(n, device=of.device), torch.ones(graphs, n, dtype=torch.bool, device=of.device))
    order = torch.argsort(of, stable=True)
    counts = torch.bincount(of, minlength=graphs)
    place = torch.empty_like(of)
    place[order] = torch.arange(n, device=of.device) - (counts.cumsum(0) - counts)[of[order]]
    longest = int(counts.max()) if graphs and n else 0
    return Layout(of, place, torch.arange(longest, device=of.device) < counts[:, None])
