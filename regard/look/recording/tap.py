"""What our own attention tells: queries, keys, values and terms, from which the weights follow; `mix` tells
its scores.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from regard.attention.additive_attention import StepwiseMix, mix, mixing
from regard.attention.approximate.linformer import Linformer
from regard.attention.approximate.lsh import LSH
from regard.attention.approximate.performer import Performer
from regard.attention.attend import attend
from regard.attention.edge_ops import Links, edge_dot, edge_softmax, edge_sum
from regard.attention.edges import Edges
from regard.attention.kernels.reference import Terms, attention_weights, heads_of
from regard.attention.tap import Heard, Implied, Mixed
from regard.look.recording.edges import EdgeSource
from regard.look.recording.proof import Proof
from regard.look.recording.weighted_sum import Rows, Source, quiet, wide

CODES = (
    attend.__code__,
    mix.__code__,
    StepwiseMix.__call__.__code__,
    Performer.forward.__code__,
    Linformer.forward.__code__,
    LSH.forward.__code__,
)  # what happens while these run is told by the tap, and must not be heard a second time


def inside_attend() -> bool:
    """Is our own `attend` or `mix` at work, which tell more than can be heard?"""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code in CODES:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


class Tapped(Source):
    """One call of `attend`."""

    def __init__(self, heard: Heard) -> None:
        self.q, self.k, self.v, self.out = heard.q, heard.k, heard.v, heard.out
        self.terms = heard.terms
        (self.b, self.h, self.n, _), self.m = heard.q.shape, heard.k.shape[2]

    def part(self, rows: Rows) -> Terms:
        return self.terms.part(rows, slice(0, self.m))

    def all_weights(self, rows: Rows) -> Tensor:
        assert self.q is not None and self.k is not None
        return attention_weights(wide(self.q[:, :, rows]), wide(self.k), self.part(rows))

    def sums(self, weights: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        out, size = super().sums(weights, rows)
        bias = self.terms.bias
        if bias is not None and bias.gives_values:
            terms = self.part(rows)
            more = bias.values(weights, terms.here, terms.there)
            return out + more, size + more.abs()
        return out, size


class TappedImplied(Source):
    """One call of an approximation, with the weights that it implies."""

    def __init__(self, heard: Implied) -> None:
        self.q, self.k, self.v, self.out, self.weigh = heard.q, heard.k, heard.v, heard.out, heard.weigh
        (self.b, self.h, self.n, _), self.m = heard.q.shape, heard.k.shape[2]

    def all_weights(self, rows: Rows) -> Tensor:
        assert self.q is not None and self.k is not None
        return self.weigh(wide(self.q[:, :, rows]), wide(self.k), rows)


class TappedMix(Source):
    """One call of `mix` with scores for all pairs."""

    def __init__(self, heard: Mixed) -> None:
        self.v, self.out, self.given, self.mask = heard.v, heard.out, heard.scores.detach(), heard.mask
        self.b, self.h, self.n, self.m = heard.scores.shape

    def hold(self, shelf: list[Tensor]) -> None:
        super().hold(shelf)
        self.given = self.given.clone()

    def all_weights(self, rows: Rows) -> Tensor:
        return mixing(wide(self.given), self.mask)[:, :, rows]


class TappedEdges(EdgeSource):
    """Attention of ours along edges. The proof sums values as sparse products do, and needs none for each
    edge."""

    def __init__(self, weights: Tensor, v: Tensor, links: Links, out: Tensor) -> None:
        self.every, self.v, self.links = weights, v, links  # h e, h m c
        edges = torch.stack((links.source, links.target))
        super().__init__(weights.T, v[:, :0], links.target, edges, out.transpose(0, 1))

    def prove(self) -> Proof:
        with quiet(self.out):
            v, ones = wide(self.v), torch.ones_like(self.every, dtype=torch.float64)
            sums = (
                edge_sum(self.every, v, self.links),
                edge_sum(self.every.abs(), v.abs(), self.links),
                edge_sum(ones, v.double(), self.links),
                edge_sum(ones, v.double().square(), self.links),
            )
            return self.proof(*(x.transpose(0, 1) for x in sums))

    def hold(self) -> None:
        super().hold()
        self.every, self.v = self.every[:0], self.v[:0]


def source_along(heard: Heard | Mixed) -> TappedEdges | None:
    """The weights of edges alone, where they were computed so; None where all pairs are at hand."""
    mask = heard.mask if isinstance(heard, Mixed) else heard.terms.mask
    if not isinstance(mask, Edges) or heard.out.shape[0] != 1:
        return None
    h, n = heard.out.shape[1:3]
    m, device = heard.v.shape[2], heard.v.device
    with quiet(heard.out):
        v = heads_of(wide(heard.v.detach()), h)[0]
        if isinstance(heard, Mixed):
            if heard.scores.dim() != 3:
                return None
            links = mask.links(m, m, device, once=False)
            weights = edge_softmax(wide(heard.scores.detach())[0][:, links.order], links)
        else:
            if heard.kernel != "edges":
                return None
            links = mask.links(n, m, device)
            k = heads_of(wide(heard.k.detach()), h)[0]
            weights = edge_softmax(edge_dot(wide(heard.q.detach())[0] * heard.terms.scale, k, links), links)
        return TappedEdges(weights, v, links, heard.out.detach()[0])
