"""The definition with half precision left as it is: for short bfloat16 sequences on a processor that multiplies them."""

from __future__ import annotations

from torch import Tensor

from regard.attention.kernels.reference import by_definition
from regard.attention.terms import Terms


def plain(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:
    """Two matrix products in the dtype given, around a softmax in float32.  -> b h n e"""
    return by_definition(q, k, v, terms)
