"""Layers that pass messages along the edges of a graph.   nodes n d -> n d'

Each is equivariant to relabelling: naming nodes otherwise, in the edges too, moves the rows of the output
along. A bias is added once a node, not once a neighbour. Sums are sparse products, so memory is linear in
nodes and edges, backward included.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.additive_attention import mix
from regard.attention.dropout import apply_dropout
from regard.attention.edge_ops import Links, edge_sum
from regard.errors import RegardError
from regard.nn.graph import EdgeMessages, Graph
from regard.nn.sparse import Sparse, through
from regard.shapes import expect
from regard.symmetry.groups import EVERYTHING

Gather = Literal["sum", "mean", "max"]


def _gathered(x: Tensor, graph: Graph, how: Gather) -> Tensor:
    """What the neighbours of each node hold, together; 0 for a node that no edge leads to.   n d -> n d"""
    if how == "max":
        return most(x, graph.links)
    if how == "sum" and graph.live is None:
        return edge_sum(None, x[None], graph.links)[0]
    weights = graph.counted(x.dtype) if how == "sum" else graph.mean(x.dtype)
    return edge_sum(weights[None], x[None], graph.links)[0]


def most(x: Tensor, links: Links) -> Tensor:
    """The largest of each channel among the neighbours.   n d -> n d"""
    if not links.count or not x.shape[-1]:
        return x.new_zeros(links.n, x.shape[-1])
    if torch.compiler.is_compiling():
        index = links.target[:, None].expand(-1, x.shape[-1])
        return x.new_zeros(links.n, x.shape[-1]).scatter_reduce(0, index, x[links.source], "amax", include_self=False)
    starts, source = links.pattern
    return F.embedding_bag(source, x, starts, mode="max", include_last_offset=True)


class GraphConv(nn.Module):
    """y_j = θ₁ᵀx_j + Σ_{i ∈ N(j)} θ₂ᵀx_i + b, with sum, mean or max over the neighbours.

    With features of edges a neighbour gives relu(θ₂ᵀx_i + θ₃ᵀe_ij), see `EdgeMessages`.
    """

    keeps = EVERYTHING

    def __init__(
        self, dim: int, out: int, *, gather: Gather = "sum", offset: bool = True, edge_features: int = 0
    ) -> None:
        super().__init__()
        if gather not in ("sum", "mean", "max"):
            raise RegardError(f"gather must be sum, mean or max, got {gather!r}")
        self.dim, self.gather = dim, gather
        self.own = nn.Linear(dim, out, bias=offset)
        self.messages: EdgeMessages | None = None
        if edge_features:
            self.messages = EdgeMessages(dim, out, edge_features, gather)
        else:
            self.others = nn.Linear(dim, out, bias=False)

    def forward(self, x: Tensor | Sparse, graph: Graph, along: Tensor | None = None) -> Tensor:
        """along: features of the edges, e k"""
        expect(x, "n d", name="x", n=graph.count, d=self.dim)
        if self.messages is not None:
            assert along is not None
            return through(self.own, x) + self.messages(x, graph, along)
        own, narrows = through(self.own, x), self.others.out_features < self.dim or isinstance(x, Sparse)
        if self.gather != "max" and narrows:  # a sum of projections is the projection of a sum
            return own + _gathered(through(self.others, x), graph, self.gather)
        return own + self.others(_gathered(x if isinstance(x, Tensor) else x.dense(), graph, self.gather))


class Alone(nn.Module):
    """y_j = θᵀx_j + b: a node by itself, for models whose predictions spread along edges afterwards."""

    keeps = EVERYTHING

    def __init__(self, dim: int, out: int) -> None:
        super().__init__()
        self.own = nn.Linear(dim, out)

    def forward(self, x: Tensor | Sparse, graph: Graph, along: Tensor | None = None) -> Tensor:
        return through(self.own, x)


class GCN(nn.Module):
    """Y = D^(−½) (A + I) D^(−½) X θ + b: neighbours and the node itself, evened out by their degrees (Kipf
    and Welling). Features of edges are added to what comes along them: θᵀx_i + φᵀe_ij."""

    keeps = EVERYTHING

    def __init__(self, dim: int, out: int, *, offset: bool = True, edge_features: int = 0) -> None:
        super().__init__()
        self.dim = dim
        self.along = nn.Linear(edge_features, out, bias=False) if edge_features else None
        self.project = nn.Linear(dim, out, bias=False)
        self.offset = nn.Parameter(torch.zeros(out)) if offset else None
        nn.init.xavier_uniform_(self.project.weight)

    def forward(self, x: Tensor | Sparse, graph: Graph, along: Tensor | None = None) -> Tensor:
        """along: features of the edges, e k"""
        expect(x, "n d", name="x", n=graph.count, d=self.dim)
        looped = graph.looped
        weights = looped.even(x.dtype)[None]
        if isinstance(x, Sparse) or self.project.out_features <= self.dim:
            y = edge_sum(weights, through(self.project, x)[None], looped.links)[0]
        else:
            y = self.project(edge_sum(weights, x[None], looped.links)[0])
        if self.along is not None:
            assert along is not None
            links = looped.links
            brought = self.along(graph.loop_features(along)[links.order]) * weights[0][:, None]
            y = y.index_add(0, links.target, brought)
        if self.offset is None:
            return y
        return y + self.offset


class GAT(nn.Module):
    """y_i = Σ_j w_ij θx_j,  w_i = softmax over the neighbours j of i, and i itself, of leaky(a·θx_j +
    a′·θx_i).

    After Veličković et al.; `later=True` is GATv2 (Brody et al.), a·leaky(θx_j + θ′x_i), which can rank
    neighbours differently for different nodes. Heads are laid side by side, or their mean is taken
    (`join=False`). Features of edges add a″·φe_ij to the scores, before leaky, as its authors' later code does.
    """

    keeps = EVERYTHING

    def __init__(
        self,
        dim: int,
        out: int,
        heads: int = 1,
        *,
        join: bool = True,
        later: bool = False,
        dropout: float = 0.0,
        slope: float = 0.2,
        edge_features: int = 0,
    ) -> None:
        super().__init__()
        if heads < 1 or (join and out % heads):
            sizes = f"out={out} and heads={heads}"
            raise RegardError(f"heads must be at least 1 and divide the width when they are joined, got {sizes}")
        self.dim, self.heads, self.join, self.dropout, self.slope = dim, heads, join, dropout, slope
        self.channels = out // heads if join else out
        self.value = nn.Linear(dim, heads * self.channels, bias=later)
        self.query: nn.Linear | None = None
        if later:
            self.query = nn.Linear(dim, heads * self.channels)
        self.along: nn.Linear | None = None
        if edge_features:  # a linear map to a score, or before leaky to all channels
            self.along = nn.Linear(edge_features, heads * (self.channels if later else 1), bias=False)
        self.from_there = nn.Parameter(torch.empty(heads, self.channels))
        if later:
            self.from_here = None
        else:
            self.from_here = nn.Parameter(torch.empty(heads, self.channels))
        self.offset = nn.Parameter(torch.zeros(out))
        for parameter in (self.value.weight, *([] if self.query is None else [self.query.weight])):
            nn.init.xavier_uniform_(parameter)
        for vector in (self.from_there, self.from_here):
            if vector is not None:
                nn.init.uniform_(vector, -math.sqrt(6 / (self.channels + 1)), math.sqrt(6 / (self.channels + 1)))

    def forward(self, x: Tensor | Sparse, graph: Graph, along: Tensor | None = None) -> Tensor:
        """along: features of the edges, e k"""
        expect(x, "n d", name="x", n=graph.count, d=self.dim)
        looped = graph.looped
        source, target = looped.edges
        more: Tensor | float = 0.0
        if self.along is not None:
            assert along is not None
            more = self.along(graph.loop_features(along)).unflatten(-1, (self.heads, -1))  # e h c, or e h 1
        v = through(self.value, x).unflatten(-1, (self.heads, -1))  # n h c
        if self.query is None:
            assert self.from_here is not None
            there, here = (v * self.from_there).sum(-1), (v * self.from_here).sum(-1)  # n h
            scores = there.index_select(0, source) + here.index_select(0, target)
            if isinstance(more, Tensor):
                scores = scores + more[..., 0]
            scores = F.leaky_relu(scores, self.slope)
        else:
            q = through(self.query, x).unflatten(-1, (self.heads, -1))
            both = v.index_select(0, source) + q.index_select(0, target) + more
            scores = (F.leaky_relu(both, self.slope) * self.from_there).sum(-1)
        if looped.live is not None:
            scores = scores.masked_fill(~looped.live[:, None], -torch.inf)
        dropout = self.dropout if self.training else 0.0
        v = apply_dropout(v, dropout)  # as well as the weights: its authors do both
        out = mix(scores.T[None], v.transpose(0, 1)[None], looped.mask, dropout=dropout)[0]  # h n c
        return (out.transpose(0, 1).flatten(1) if self.join else out.mean(0)) + self.offset
