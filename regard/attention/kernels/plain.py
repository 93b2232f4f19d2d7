"""Attention as two matrix products in the dtype given, around a softmax in float32: for short bfloat16 sequences."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.biases import Bias
from regard.attention.kernels.precision import HALF
from regard.attention.kernels.reference import heads_of
from regard.attention.mask import Mask
from regard.attention.places import Side


def plain(
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
    """As `reference`, but half precision stays half precision wherever matrices are multiplied."""
    scores = (q * scale) @ heads_of(k, q.shape[1]).mT
    if q.dtype in HALF:
        scores = scores.float()
    if bias is not None:
        scores = scores + bias.scores(q, here, there).to(scores.dtype)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        allowed = mask.tile(here, there)
        hidden = ~allowed & allowed.any(-1, keepdim=True)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1).masked_fill(~allowed, 0)
    if dropout:
        weights = torch.dropout(weights, dropout, train=True)
    out = weights.to(q.dtype) @ heads_of(v, q.shape[1])
    return out + bias.values(weights, here, there).to(q.dtype) if bias is not None and bias.gives_values else out
