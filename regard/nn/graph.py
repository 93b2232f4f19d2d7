"""A graph as layers read it: nodes, the edges between them, and what follows from those, found out once."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from regard.attention.edge_ops import Links
from regard.attention.edges import Edges
from regard.errors import RegardError
from regard.nn.sparse import Sparse, through
from regard.shapes import expect
from regard.symmetry.groups import EVERYTHING


class Graph:
    """`count` nodes and edges 2 e, source → target. Several graphs are one, side by side.

    An edge that is there twice counts twice. `live` (bool e) says which edges count at all; None: all of
    them.
    """

    def __init__(self, edges: Tensor, count: int, live: Tensor | None = None) -> None:
        self.mask, self.count, self.live = Edges(edges), count, live
        self.mask.fits(1, 1, count, count)
        self.with_loops: Graph | None = None
        self.origin: Tensor | None = None  # with loops: which edge each was before, −1 for a loop that was added
        self.evened: dict[torch.dtype, Tensor] = {}
        self.kept: dict[Any, Any] = {}  # what models find out about it

    @classmethod
    def of(cls, edges: Tensor | Graph, count: int) -> Graph:
        """The graph of these edges. The same tensor again, unchanged, gives the same graph, so nothing is
        found out twice."""
        if isinstance(edges, Graph):
            if edges.count != count:
                raise RegardError(f"the graph has {edges.count} nodes, but there are features of {count}")
            return edges
        if torch.compiler.is_compiling() or not isinstance(edges, Tensor) or edges.is_inference():
            return cls(edges, count)
        version, known = seen.get(edges, (-1, None))
        if known is None or version != edges._version or known.count != count:
            known = cls(edges, count)
            # the same numbers in another tensor, lest `seen` keep its keys
            known.mask.edges = known.mask.edges.detach()
            seen[edges] = edges._version, known
        return known

    def to(self, device: torch.device | str) -> Graph:
        """The same graph on another device."""
        if torch.device(device) == self.edges.device:
            return self
        return Graph(self.edges.to(device), self.count, None if self.live is None else self.live.to(device))

    @property
    def edges(self) -> Tensor:
        return self.mask.edges

    @property
    def links(self) -> Links:
        """The edges in the order of their targets."""
        return self.mask.links(self.count, self.count, self.edges.device, once=False)

    @property
    def looped(self) -> Graph:
        """The same graph with one loop at every node. Loops that were there no longer count, as they would
        count twice."""
        if self.with_loops is None:
            ends = torch.arange(self.count, device=self.edges.device)
            live = torch.cat((self.edges[0] != self.edges[1], torch.ones_like(ends, dtype=torch.bool)))
            edges = torch.cat((self.edges, ends.expand(2, -1)), 1)
            origin = torch.cat((torch.arange(self.edges.shape[1], device=ends.device), -torch.ones_like(ends)))
            # in the order of targets, so that what is read for them is read in a row
            if not torch.compiler.is_compiling():
                order = torch.argsort(edges[1], stable=True)
                edges, live, origin = edges[:, order], live[order], origin[order]
            self.with_loops = Graph(edges, self.count, live)
            self.with_loops.origin = origin
        return self.with_loops

    def loop_features(self, features: Tensor) -> Tensor:
        """Features of the edges for those of `looped`; zeros for loops that were added.   e k -> e + n k"""
        origin = self.looped.origin
        assert origin is not None
        padded = torch.cat((features, features.new_zeros(1, features.shape[1])))
        return padded[torch.where(origin < 0, features.shape[0], origin)]

    def counted(self, dtype: torch.dtype) -> Tensor:
        """1 for each edge that counts, in the order of `links`.   e"""
        if self.live is None:
            return torch.ones(self.links.count, dtype=dtype, device=self.edges.device)
        return self.live[self.links.order].to(dtype)

    def even(self, dtype: torch.dtype) -> Tensor:
        """1 / √(degree of source · degree of target) for each edge, in the order of `links`.   e"""
        if dtype not in self.evened:
            links, counted = self.links, self.counted(dtype)
            root = links.total(counted).clamp_min(1).rsqrt()
            self.evened[dtype] = root[links.source] * root[links.target] * counted
        return self.evened[dtype]

    def mean(self, dtype: torch.dtype) -> Tensor:
        """1 / degree of target for each edge, in the order of `links`.   e"""
        links, counted = self.links, self.counted(dtype)
        return counted / links.total(counted)[links.target].clamp_min(1)


seen = WeakTensorKeyDictionary()  # edges -> their version, and the graph


# ── messages that know the edge they come along: a bond, a distance, a kind of link


class EdgeMessages(nn.Module):
    """y_j = Σ_{i → j} relu(θx_i + φe_ij), as in GINE (Hu et al.), with sum, mean or max over the edges.

    e_ij are the features of an edge, in the order in which the edges are given. A node that no edge leads to gets
    0. Equivariant to relabelling, and the order of edges does not matter.
    """

    keeps = EVERYTHING

    def __init__(self, dim: int, out: int, features: int, gather: Literal["sum", "mean", "max"] = "sum") -> None:
        super().__init__()
        self.gather = gather
        self.others = nn.Linear(dim, out, bias=False)
        self.along = nn.Linear(features, out)

    def forward(self, x: Tensor | Sparse, graph: Graph, features: Tensor) -> Tensor:
        source, target = graph.edges
        messages = F.relu(through(self.others, x).index_select(0, source) + self.along(features))  # e d
        empty = messages.new_zeros(graph.count, messages.shape[1])
        if self.gather == "max":
            return empty.scatter_reduce(0, target[:, None].expand_as(messages), messages, "amax")  # none is below 0
        found = empty.index_add(0, target, messages)
        if self.gather == "sum":
            return found
        counts = empty.new_zeros(graph.count).index_add(0, target, torch.ones_like(messages[:, 0]))
        return found / counts.clamp_min(1)[:, None]


def check_edge_features(features: Tensor | None, graph: Graph, width: int) -> Tensor | None:
    """The features of all edges, as a model of this width reads them; a ValueError if they do not fit."""
    if features is None and width:
        raise RegardError(f"this model reads {width} numbers of each edge; give edge_features, e {width}")
    if features is None:
        return None
    if not width:
        raise RegardError("this model was made without features of edges; leave edge_features out")
    expect(features, "e k", name="edge_features", e=graph.edges.shape[1], k=width)
    return features
