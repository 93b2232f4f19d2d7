"""The definition in the dtype given, as two matrix products: for windows, and for short bfloat16 if a processor multiplies it.

A flash kernel has no gradient for what is added to the scores, and is no faster for short inputs. Here the weights are kept for
the gradient, and nothing else of their size: what autograd would keep and copy beside them costs as much as the products.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.attention.kernels.reference import by_definition, heads_of
from regard.attention.terms import Terms


def plain(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:
    """Two matrix products in the dtype given, around a softmax in float32 at least.  -> b h n e"""
    bias, mask = terms.bias, terms.mask
    followed = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    if terms.dropout or followed or (bias is not None and bias.gives_values):
        return by_definition(q, k, v, terms)
    added = None if bias is None else bias.scores(q, terms.here, terms.there)
    hidden = empty = None
    if mask is not None:
        hidden = ~mask.tile(terms.here, terms.there)
        if not mask.leaves and (nothing := hidden.all(-1, keepdim=True)).any():
            hidden, empty = hidden & ~nothing, nothing  # softmax of only -inf is NaN
    k, v = heads_of(k, q.shape[1]), heads_of(v, q.shape[1])
    laid = (x.contiguous() for x in (q, k, v))  # products want them so, for the gradient once more
    return Plain.apply(*laid, added, hidden, empty, terms.scale)


class Plain(torch.autograd.Function):
    """softmax(scale·q kᵀ + added) v, without what is hidden, 0 in rows that are empty.   added, hidden, empty: to b h n m"""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, added: Any, hidden: Any, empty: Any, scale: float) -> Tensor:
        b, h, _, _ = q.shape
        scores = times(q.flatten(0, 1), k.flatten(0, 1).mT, scale).unflatten(0, (b, h))
        wide = torch.promote_types(scores.dtype, torch.float32)
        if added is not None:
            scores = scores.to(wide).add_(added)
        if hidden is not None:
            scores = scores.to(wide).masked_fill_(hidden, -torch.inf)
        weights = scores.softmax(-1, dtype=wide).to(q.dtype)
        if empty is not None:
            weights.masked_fill_(empty, 0)
        ctx.save_for_backward(q, k, v, added, hidden, empty, weights)
        ctx.scale = scale
        return (weights.flatten(0, 1) @ v.flatten(0, 1)).unflatten(0, (b, h))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, added, hidden, empty, weights = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of a gradient is asked for: the same by steps that can be followed
            weights = weights_of(q, k, added, hidden, empty, ctx.scale)
            dweights = grad @ v.mT
            dscores = weights * (dweights - (dweights * weights).sum(-1, keepdim=True))
            dq, dk, dv = ctx.scale * dscores @ k, ctx.scale * dscores.mT @ q, weights.mT @ grad
        else:
            b, h, _, _ = q.shape
            q, k, v, weights, grad = (x.flatten(0, 1) for x in (q, k, v, weights, grad))
            dscores = torch._softmax_backward_data(grad @ v.mT, weights, -1, weights.dtype)
            parts = times(dscores, k, ctx.scale), times(dscores.mT, q, ctx.scale), weights.mT @ grad
            dq, dk, dv, dscores = (x.unflatten(0, (b, h)) for x in (*parts, dscores))
        dadded = dscores.to(added.dtype).sum_to_size(added.shape) if ctx.needs_input_grad[3] else None
        return dq, dk, dv, dadded, None, None, None


def times(x: Tensor, y: Tensor, scale: float) -> Tensor:
    """scale·x y, in one pass over the result."""
    return torch.baddbmm(x.new_empty(()), x, y, beta=0, alpha=scale)


def weights_of(q: Tensor, k: Tensor, added: Any, hidden: Any, empty: Any, scale: float) -> Tensor:
    """The weights in operations that have gradients themselves.   b h n m"""
    scores = scale * (q @ k.mT)
    scores = scores if added is None else scores + added
    scores = scores if hidden is None else scores.masked_fill(hidden, -torch.inf)
    weights = scores.softmax(-1).to(q.dtype)
    return weights if empty is None else weights.masked_fill(empty, 0)
