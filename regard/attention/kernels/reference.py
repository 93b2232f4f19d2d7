"""Attention as it is defined, in the order of its equation. Slow for long inputs, and right."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.biases import Bias
from regard.attention.mask import Mask
from regard.attention.places import Side


def reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    here: Side,
    there: Side,
    mask: Mask | None,
    bias: Bias | None,
    scale: float,
    dropout: float,
) -> Tensor:
    """out_i = Σ_j w_ij (v_j + r_ij),  w_i = softmax over allowed j of (scale·q_i·k_j + bias_ij).  -> b h n e

    Half precision is computed in float32 and rounded once, at the end.
    """
    with torch.autocast(q.device.type, enabled=False):
        given = q.dtype
        if given in (torch.float16, torch.bfloat16):
            q, k, v = q.float(), k.float(), v.float()
        weights = attention_weights(q, k, here=here, there=there, mask=mask, bias=bias, scale=scale)
        if dropout:
            weights = torch.dropout(weights, dropout, train=True)
        out = weights @ heads_of(v, q.shape[1])
        if bias is not None and bias.gives_values:
            out = out + bias.values(weights, here, there)
        return out.to(given)


def attention_weights(
    q: Tensor, k: Tensor, *, here: Side, there: Side, mask: Mask | None, bias: Bias | None, scale: float
) -> Tensor:
    """The softmax itself; zeros, with zero gradients, in a row with nothing allowed.  -> b h n m"""
    scores = (q * scale) @ heads_of(k, q.shape[1]).mT
    if bias is not None:
        scores = scores + bias.scores(q, here, there).to(scores.dtype)
    if mask is None:
        return scores.softmax(-1)
    allowed = mask.tile(here, there)
    hidden = ~allowed & allowed.any(-1, keepdim=True)  # an empty row keeps its scores: softmax of only -inf is NaN
    return scores.masked_fill(hidden, -torch.inf).softmax(-1).masked_fill(~allowed, 0)


def heads_of(x: Tensor, h: int) -> Tensor:
    """One key or value head for each query head: head i uses head i // (h/g).  b g m c -> b h m c"""
    return x if x.shape[1] == h else x.repeat_interleave(h // x.shape[1], dim=1)
