"""Attention whose scores are no dot product of queries and keys (additive, GAT): same masks, same empty rows,
same tap."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.attention import tap
from regard.attention.dropout import apply_dropout
from regard.attention.edge_ops import edge_softmax, edge_sum
from regard.attention.edges import Edges
from regard.attention.kernels.precision import HALF
from regard.attention.kernels.reference import heads_of
from regard.attention.mask import Mask
from regard.attention.masks import Padding
from regard.attention.places import sides
from regard.errors import RegardError


def mix(scores: Tensor, v: Tensor, mask: Mask | None = None, *, dropout: float = 0.0) -> Tensor:
    """out_i = Σ_j w_ij v_j,  w_i = softmax over the j that mask allows of scores_ij.

    scores: b h n m   v: b g m e   ->   b h n e
    scores: b h e, one for each edge of an `Edges` mask in the order in which the edges were given; an edge
    that is given twice counts twice, and there are as many queries as keys.

    A query that may attend to nothing, or that no edge leads to, gets zeros. Places are consecutive; queries
    are the last n.
    """
    if not isinstance(scores, Tensor) or not isinstance(v, Tensor) or scores.dim() not in (3, 4) or v.dim() != 4:
        got = " and ".join(str(tuple(x.shape)) if isinstance(x, Tensor) else type(x).__name__ for x in (scores, v))
        raise RegardError(f"mix takes scores b h n m (or b h e along edges) and v b g m e, got {got}")
    (b, h), (bv, g) = scores.shape[:2], v.shape[:2]
    if b != bv or g == 0 or h % g:
        sizes = f"b={b} and {bv}, h={h} and g={g}"
        raise RegardError(f"scores and v must have one b, and the heads of v must divide those of scores, got {sizes}")
    if not 0.0 <= dropout < 1.0:
        raise RegardError(f"dropout must be at least 0 and less than 1, got {dropout}")
    if mask is not None and not isinstance(mask, Mask):
        raise RegardError(
            f"mask must be a Mask of regard.attention, got {type(mask).__name__}; wrap a bool tensor in Dense"
        )
    if scores.dim() == 3:
        out = _along(scores, v, mask, dropout)
    else:
        out = _dense(scores, v, mask, dropout)
    if tap.listeners:
        for listener in tap.listeners:
            listener(tap.Mixed(scores, v, mask, dropout, out))
    return out


def _dense(scores: Tensor, v: Tensor, mask: Mask | None, dropout: float) -> Tensor:
    b, h, n, m = scores.shape
    if v.shape[2] != m:
        raise RegardError(f"scores b h n m are for m={m} keys, but v has {v.shape[2]}")
    if mask is not None:
        mask.fits(b, h, n, m)
        unseen = mask.unseen(m, v.device)
        if unseen is not None and unseen.shape[1] == 1:  # 0 · NaN is NaN, so what nobody may see is cleared
            v = v.masked_fill(unseen[..., None], 0)
    weights = mixing(scores, mask)
    if dropout:
        weights = apply_dropout(weights, dropout)
    return weights.to(v.dtype) @ heads_of(v, h)


class StepwiseMix:
    """`mix` for queries that may come one after another, each from what was made of the one before, as in a
    recurrent decoder. Masks and empty rows are those of `mix`; a recorder hears all steps as one call, at `end`.

    score: queries b n d, keys b m d -> scores b n m   v: b m e   mask: Padding, which says the same to every query
    """

    def __init__(
        self, score: Callable[[Tensor, Tensor], Tensor], keys: Tensor, v: Tensor, mask: Padding | None = None
    ) -> None:
        if mask is not None and not isinstance(mask, Padding):
            raise RegardError(f"steps share one mask, so it must be Padding, got {type(mask).__name__}")
        self.score, self.keys, self.v, self.mask = score, keys, v, mask
        self.scores: list[Tensor] = []
        self.outs: list[Tensor] = []
        self.hidden: Tensor | None = None
        if mask is not None:
            b, m, _ = v.shape
            mask.fits(b, 1, 1, m)
            allowed = mask.tile(*sides(None, 1, m, b, v.device))[:, 0]  # b 1 m
            # an empty row keeps its scores, because softmax of only -inf is NaN: its values are zero
            self.hidden = ~allowed & allowed.any(-1, keepdim=True)
            self.v = v.masked_fill(~allowed.transpose(1, 2), 0)

    def __call__(self, queries: Tensor) -> Tensor:
        """b n d -> b n e"""
        scores = self.score(queries, self.keys)
        weights = scores.float() if scores.dtype in HALF else scores
        if self.hidden is not None:
            weights = weights.masked_fill(self.hidden, -torch.inf)
        out = weights.softmax(-1).to(self.v.dtype) @ self.v
        if tap.listeners:
            self.scores.append(scores)
            self.outs.append(out)
        return out

    def end(self) -> None:
        """Tell whoever listens."""
        if not tap.listeners or not self.outs:
            return
        scores, out = torch.cat(self.scores, 1), torch.cat(self.outs, 1)
        heard = tap.Mixed(scores[:, None], self.v[:, None], self.mask, 0.0, out[:, None], cross=True)
        for listener in tap.listeners:
            listener(heard)


def mixing(scores: Tensor, mask: Mask | None) -> Tensor:
    """The weights, in float32 at least.   b h n m -> b h n m"""
    if scores.dtype in HALF:
        scores = scores.float()
    if mask is None:
        return scores.softmax(-1)
    b, _, n, m = scores.shape
    allowed = mask.tile(*sides(None, n, m, b, scores.device))
    # an empty row keeps its scores: softmax of only -inf is NaN
    hidden = ~allowed & allowed.any(-1, keepdim=True)
    return scores.masked_fill(hidden, -torch.inf).softmax(-1).masked_fill(~allowed, 0)


def _along(scores: Tensor, v: Tensor, mask: Mask | None, dropout: float) -> Tensor:
    if not isinstance(mask, Edges):
        raise RegardError(f"scores b h e go along the edges of an Edges mask, got {type(mask).__name__}")
    (b, h, e), m = scores.shape, v.shape[2]
    if e != mask.edges.shape[1]:
        raise RegardError(f"there must be one score for each edge, got {e} scores and {mask.edges.shape[1]} edges")
    mask.fits(b, h, m, m)
    links = mask.links(m, m, v.device, once=False)
    weights = edge_softmax(scores.flatten(0, 1)[:, links.order].to(_wide(v.dtype)), links)
    if dropout:
        weights = apply_dropout(weights, dropout)
    values = heads_of(v, h).flatten(0, 1)
    return edge_sum(weights, values.to(weights.dtype), links).unflatten(0, (b, h)).to(v.dtype)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in HALF else dtype
