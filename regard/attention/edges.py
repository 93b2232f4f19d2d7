"""Attention along the edges of a graph: the mask that says who is linked to whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.dropout import apply_dropout
from regard.attention.edge_ops import Links, edge_dot, edge_softmax, edge_sum
from regard.attention.kernels.precision import HALF
from regard.attention.kernels.reference import Terms, heads_of
from regard.attention.mask import Blocks, Mask
from regard.attention.places import Bounds, Side
from regard.errors import RegardError
from regard.symmetry.groups import EVERYTHING


class Edges(Mask):
    """Query i may attend to key j where an edge leads from j to i. `edges`: 2 e, sources and targets, as
    slots.

    The same for every row and head; several graphs are one, side by side. It is a set: an edge that is given
    twice counts once (`mix` along edges counts it twice). Nothing is added: give loops if a node should see
    itself. Edges move with the tokens, so permutations and shifts are both kept.
    """

    keeps = EVERYTHING

    def __init__(self, edges: Tensor) -> None:
        takes = "Edges takes whole numbers 2 e: sources and targets"
        if not isinstance(edges, Tensor):
            raise RegardError(f"{takes}, got {type(edges).__name__}; use torch.tensor(...)")
        if edges.dim() != 2 or edges.shape[0] != 2 or edges.dtype.is_floating_point or edges.dtype == torch.bool:
            hint = "; use .T" if edges.dim() == 2 and edges.shape[1] == 2 else ""
            raise RegardError(f"{takes}, got {edges.dtype} {tuple(edges.shape)}{hint}")
        if edges.numel() and not torch.compiler.is_compiling() and int(edges.min()) < 0:
            raise RegardError(f"{takes}, counted from 0, got {int(edges.min())}")
        self.edges = edges.long()
        self.known: dict[tuple[Any, ...], Links] = {}

    def links(self, n: int, m: int, device: torch.device, *, once: bool = True) -> Links:
        """The edges sorted by target, each pair once, or all of them as they were given; sorted only the
        first time."""
        key = (n, m, device, once)
        if key not in self.known:
            source, target = self.edges.to(device)
            if once:
                pairs = torch.unique(target * m + source)
                source, target = pairs % m, pairs // m
            self.known[key] = Links(source, target, n, m)
        return self.known[key]

    def tile(self, here: Side, there: Side) -> Tensor:
        """Dense, for a part of all pairs: rows and columns are looked up by where their slots are in it."""
        source, target = self.edges.to(here.device)
        row, column = (_position(side, slots) for side, slots in ((here, target), (there, source)))
        size = here.size * there.size
        # what is outside goes behind the end
        cell = torch.where((row >= 0) & (column >= 0), row * there.size + column, size)
        linked = torch.zeros(size + 1, dtype=torch.bool, device=here.device).index_fill(0, cell, True)
        return linked[:size].view(1, 1, here.size, there.size)

    def blocks(self, here: Bounds, there: Bounds) -> Blocks:
        rows, columns = here.low.shape[1], there.low.shape[1]
        links = self.links(here.count, there.count, torch.device("cpu"))
        cell = (links.target // here.block) * columns + links.source // there.block
        inside = torch.bincount(cell, minlength=rows * columns).numpy().reshape(1, 1, rows, columns)
        sizes = [
            np.minimum(side.block, side.count - side.block * np.arange(k))
            for side, k in ((here, rows), (there, columns))
        ]
        return Blocks(inside > 0, inside == sizes[0][:, None] * sizes[1])

    def fits(self, b: int, h: int, n: int, m: int) -> None:
        if not self.edges.numel() or torch.compiler.is_compiling():
            return
        for name, slots, count in (("source", self.edges[0], m), ("target", self.edges[1], n)):
            largest = int(slots.max())
            if largest >= count:
                what = "keys" if name == "source" else "queries"
                raise RegardError(f"an edge has the {name} {largest}, but there are {count} {what}, 0 … {count - 1}")

    def unseen(self, m: int, device: torch.device) -> Tensor | None:
        seen = torch.zeros(m, dtype=torch.bool, device=device).index_fill(0, self.edges[0].to(device), True)
        return ~seen[None, None]

    def take(self, order: Tensor) -> Mask:
        if order.dim() != 1:
            raise RegardError(
                "edges are the same for every row, so they move with one order for all rows (m), not one for each"
            )
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)
        return Edges(place.to(self.edges.device)[self.edges])

    def __repr__(self) -> str:
        return f"Edges({self.edges.shape[1]})"


def _position(side: Side, slots: Tensor) -> Tensor:
    """Where in this part of a side these slots are; −1 for those outside."""
    if isinstance(side.slots, slice):
        start, stop = side.slots.start, side.slots.stop
        return torch.where((slots >= start) & (slots < stop), slots - start, -1)
    place = torch.full((side.count,), -1, dtype=torch.long, device=slots.device)
    place[side.slots] = torch.arange(side.size, device=slots.device)
    return place[slots]


# ── the kernel: scores, softmax and sums for linked pairs only, with memory linear in the edges


def declines(terms: Terms) -> str | None:
    """Why this kernel cannot do it, or None."""
    if not isinstance(terms.mask, Edges):
        return "it works along the edges of an Edges mask that stands alone"
    if terms.weights is not None:
        return f"it knows softmax, and not {type(terms.weights).__name__}"
    if terms.bias is not None:
        return f"{type(terms.bias).__name__} is laid out over all pairs"
    return None


def edges(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:
    """Attention for an Edges mask; otherwise a ValueError with the reason.  -> b h n e"""
    reason = declines(terms)
    if reason is not None:
        raise RegardError(f"the edges kernel cannot do this: {reason}; use the tiled or the reference kernel")
    assert isinstance(terms.mask, Edges)
    (b, h, n, _), m, dtype = q.shape, k.shape[2], q.dtype
    if dtype in HALF:
        q, k, v = q.float(), k.float(), v.float()
    links = terms.mask.links(n, m, q.device)
    k, v = heads_of(k, h), heads_of(v, h)
    scores = edge_dot((q * terms.scale).flatten(0, 1), k.flatten(0, 1), links)
    weights = edge_softmax(scores, links)
    if terms.dropout:
        weights = apply_dropout(weights, terms.dropout)
    return edge_sum(weights, v.flatten(0, 1), links).unflatten(0, (b, h)).to(dtype)
