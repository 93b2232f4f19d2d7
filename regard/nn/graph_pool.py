"""From nodes to graphs or pairs: one vector for each graph, or one prediction for each pair of nodes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.edge_ops import Links, edge_sum
from regard.attention.edges import Edges
from regard.errors import RegardError
from regard.nn.graph_conv import most
from regard.shapes import expect
from regard.symmetry.groups import EVERYTHING

Level = Literal["node", "edge", "graph"]
Pool = Literal["sum", "mean", "max", "attention"]


def pool_nodes(h: Tensor, of: Tensor | None, how: str, graphs: int | None = None) -> Tensor:
    """The nodes of each graph together; a graph without nodes has zeros.   n d -> graphs d

    of: the graph of each node, from 0 (None: all are of one); graphs: how many there are (None: as many as
    nodes name).
    """
    of, graphs = membership(h, of, graphs)
    n = h.shape[0]
    members = Links(torch.arange(n, device=h.device), of, graphs, n)
    if how == "max":
        return most(h, members)
    total = edge_sum(None, h[None], members)[0]
    if how == "sum":
        return total
    return total / members.total(torch.ones_like(of, dtype=h.dtype)).clamp_min(1)[:, None]


def membership(h: Tensor, of: Tensor | None, graphs: int | None) -> tuple[Tensor, int]:
    """The graph of each node, and how many graphs there are."""
    n = h.shape[0]
    if of is None:
        return torch.zeros(n, dtype=torch.long, device=h.device), 1 if graphs is None else graphs
    expect(of, "n", name="of", n=n)
    named = int(of.max()) + 1 if n else 0
    if graphs is not None and named > graphs:
        raise RegardError(f"a node is of graph {named - 1}, but there are {graphs} graphs, 0 … {graphs - 1}")
    return of, max(1, named) if graphs is None else graphs


class AskingPool(nn.Module):
    """mix(attend(seed, to_k h, to_v h)) over the nodes of each graph: a learned query attends to them.
    n d -> graphs d

    A graph without nodes has zeros. The names of nodes do not matter.
    """

    keeps = EVERYTHING

    def __init__(self, dim: int, heads: int = 1) -> None:
        super().__init__()
        if heads < 1 or dim % heads:
            raise RegardError(f"the width must be a multiple of heads, got {dim} and heads={heads}")
        self.dim, self.heads = dim, heads
        self.seed = nn.Parameter(torch.randn(dim))
        self.to_k = nn.Linear(dim, dim, bias=False)  # a bias would add the same to all scores, and cancel
        self.to_v = nn.Linear(dim, dim)
        self.mix = nn.Linear(dim, dim, bias=False)

    def forward(self, h: Tensor, of: Tensor | None, graphs: int | None = None) -> Tensor:
        n, _ = expect(h, "n d", name="h", d=self.dim)
        of, graphs = membership(h, of, graphs)
        q = self.seed.unflatten(0, (self.heads, -1))[None, :, None].expand(1, -1, graphs, -1)
        k, v = (to(h).unflatten(-1, (self.heads, -1)).transpose(0, 1)[None] for to in (self.to_k, self.to_v))  # 1 h n c
        asks = Edges(torch.stack((torch.arange(n, device=h.device), of)))  # from each node to its graph
        out: Tensor = self.mix(attend(q.to(k.dtype), k, v, mask=asks)[0].transpose(0, 1).flatten(1))
        return out


class GraphPool(nn.Module):
    """The sum, the mean, the maximum or an attention pool of the nodes of each graph.   n d -> graphs d"""

    keeps = EVERYTHING

    def __init__(self, how: Pool, dim: int, heads: int = 1) -> None:
        super().__init__()
        self.how, self.asking = how, AskingPool(dim, heads) if how == "attention" else None

    def forward(self, h: Tensor, of: Tensor | None, graphs: int | None = None) -> Tensor:
        if self.asking is None:
            return pool_nodes(h, of, self.how, graphs)
        return self.asking(h, of, graphs)


class Pairs(nn.Module):
    """A prediction for each pair of nodes (i, j), from h_i + h_j and h_i ⊙ h_j; if `ordered`, from h_i − h_j,
    too.

    n d, 2 p -> p outputs. Names do not matter; without `ordered` (i, j) and (j, i) have the same prediction.
    """

    keeps = EVERYTHING

    def __init__(self, dim: int, outputs: int, *, ordered: bool = False) -> None:
        super().__init__()
        self.ordered = ordered
        self.read = nn.Linear((3 if ordered else 2) * dim, outputs)

    def forward(self, h: Tensor, pairs: Tensor) -> Tensor:
        expect(pairs, "2 p", name="pairs")
        if (
            pairs.numel()
            and not torch.compiler.is_compiling()
            and not 0 <= int(pairs.min()) <= int(pairs.max()) < len(h)
        ):
            raise RegardError(f"pairs are of nodes 0 … {len(h) - 1}, got {int(pairs.min())} … {int(pairs.max())}")
        one, other = h[pairs[0]], h[pairs[1]]
        both = [one + other, one * other, *([one - other] if self.ordered else [])]
        out: Tensor = self.read(torch.cat(both, -1))
        return out
