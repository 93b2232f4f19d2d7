"""Attention along edges: scores, softmax and sums for linked pairs only. Memory is linear in the edges,
backward included."""

from __future__ import annotations

from torch import Tensor

from regard.attention.dropout import apply_dropout
from regard.attention.edge_ops import edge_dot, edge_softmax, edge_sum
from regard.attention.edges import Edges
from regard.attention.kernels.precision import HALF
from regard.attention.kernels.reference import heads_of
from regard.attention.terms import Terms
from regard.errors import RegardError


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
