"""Attention as it is defined, in the order of its equation. Slow for long inputs, and right."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.biases import Bias
from regard.attention.dropout import apply_dropout
from regard.attention.kernels.precision import HALF
from regard.attention.mask import Mask
from regard.attention.places import Side, Slots
from regard.attention.weights import Weights


@dataclass(eq=False, slots=True)
class Terms:
    """What every kernel is given with q, k and v, checked and in its one form."""

    here: Side
    there: Side
    mask: Mask | None
    bias: Bias | None
    scale: float
    dropout: float
    weights: Weights | None = None  # None: softmax

    def part(self, rows: Slots, columns: Slots, *, full: bool = False) -> Terms:
        """The same terms for some of the rows and columns; `full` says that the mask hides nothing there."""
        here, there = self.here.part(rows), self.there.part(columns)
        return Terms(here, there, None if full else self.mask, self.bias, self.scale, self.dropout, self.weights)


def reference(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:
    """Half precision is computed in float32 and rounded once, at the end.  -> b h n e"""
    if q.dtype in HALF:
        return by_definition(q.float(), k.float(), v.float(), terms).to(q.dtype)
    return by_definition(q, k, v, terms)


def by_definition(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:
    """out_i = Σ_j w_ij (v_j + r_ij), with matrix products in the dtype given.  -> b h n e"""
    weights = attention_weights(q, k, terms)
    if terms.dropout:
        weights = apply_dropout(weights, terms.dropout)
    out = weights.to(v.dtype) @ heads_of(v, q.shape[1])
    if terms.bias is not None and terms.bias.gives_values:
        out = out + terms.bias.values(weights, terms.here, terms.there).to(v.dtype)
    return out


def attention_weights(q: Tensor, k: Tensor, terms: Terms) -> Tensor:
    """w_i = softmax (or what takes its place) over allowed j of (scale·q_i·k_j + bias_ij), in float32 at least.
    -> b h n m

    A row with nothing allowed has zeros, and zero gradients.
    """
    scores = (q * terms.scale) @ heads_of(k, q.shape[1]).mT
    if scores.dtype in HALF:
        scores = scores.float()
    if terms.bias is not None:
        scores = scores + terms.bias.scores(q, terms.here, terms.there).to(scores.dtype)
    if terms.weights is not None:
        return terms.weights(scores, None if terms.mask is None else terms.mask.tile(terms.here, terms.there))
    if terms.mask is None:
        return scores.softmax(-1)
    allowed = terms.mask.tile(terms.here, terms.there)
    if terms.mask.leaves:
        return scores.masked_fill(~allowed, -torch.inf).softmax(-1)
    # an empty row keeps its scores: softmax of only -inf is NaN
    hidden = ~allowed & allowed.any(-1, keepdim=True)
    return scores.masked_fill(hidden, -torch.inf).softmax(-1).masked_fill(~allowed, 0)


def heads_of(x: Tensor, h: int) -> Tensor:
    """One key or value head for each query head: head i uses head i // (h/g).  b g m c -> b h m c"""
    return x if x.shape[1] == h else x.repeat_interleave(h // x.shape[1], dim=1)
