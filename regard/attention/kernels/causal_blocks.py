"""Causal attention of short sequences, for training on a processor: strips of rows, each with the keys up to
its last row.

A flash kernel keeps no weights and computes the scores once more for the gradient. Here they are kept, one
matrix product in five is saved, and all heads are multiplied at once. Memory grows with n², so this is for
short sequences.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.attention.kernels.fused import needs_no_matrix
from regard.attention.kernels.precision import HALF
from regard.attention.kernels.reference import Terms
from regard.errors import RegardError

ROWS = 64  # of a strip; measured, as are the lengths below
SHORTEST, LONGEST = 128, 512  # tokens between which it beats SDPA, forward and backward together
# scores, of all rows and heads, up to which the weights kept are small beside what else a block keeps
MOST = 2**22


def suits(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """For a plain causal mask: is this as fast as it gets? Only where a gradient is wanted and nobody
    traces."""
    if torch.compiler.is_compiling():  # asking for the length would make a compiled function one for it alone
        return False
    b, h, n, _ = q.shape
    return (
        SHORTEST <= n <= LONGEST
        and q.shape == k.shape == v.shape
        and q.dtype not in HALF
        and q.device.type == "cpu"
        and torch.is_grad_enabled()
        and (q.requires_grad or k.requires_grad or v.requires_grad)
        and b * h * n * n <= MOST
    )


def stairs(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:
    """Causal attention of as many queries as keys; otherwise a ValueError with the reason.  -> b h n e"""
    plain = terms.mask is not None and needs_no_matrix(terms) and q.shape[2] == k.shape[2]
    if not plain or terms.dropout or q.shape[1] != k.shape[1] or q.dtype in HALF:
        raise RegardError(
            "the stairs kernel cannot do this: it takes a causal mask over consecutive places, as many "
            "queries as keys with "
            "as many heads, no bias and no dropout, in float32 or float64; use the tiled or the reference "
            "kernel"
        )
    return Stairs.apply(q, k, v, terms.scale)[0]


class Stairs(torch.autograd.Function):
    """The output, and the weights of each strip for the gradient.
    b h n c -> b h n e, b·h rows columns each"""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, ...]:
        b, h, n, _ = q.shape
        out = q.new_empty(b, n, h, v.shape[-1]).transpose(1, 2)  # as layers want it next
        q, k, v = _laid(q, scale), _laid(k), _laid(v)
        kept = []
        for start, stop in _strips(n):
            scores = q[:, start:stop] @ k[:, :stop].mT
            scores[:, :, start:].add_(_hidden(stop - start, q))
            weights = scores.softmax(-1)
            out[:, :, start:stop] = (weights @ v[:, :stop]).unflatten(0, (b, h))
            kept.append(weights)
        return out, *kept

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, float], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.scale = inputs
        ctx.save_for_backward(*tensors, *output[1:])
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, None, None, None
        q, k, v, *kept = ctx.saved_tensors
        # the gradient of a gradient is asked for: the same by steps that can be followed
        if torch.is_grad_enabled():
            return *_by_definition(q, k, v, grad, ctx.scale), None
        b, h, n, _ = q.shape
        dq = q.new_empty(b, n, h, q.shape[-1]).transpose(1, 2)
        q, k, v, grad = _laid(q, ctx.scale), _laid(k), _laid(v), _laid(grad)
        dk, dv = torch.empty_like(k), torch.empty_like(v)
        for (start, stop), weights in reversed(list(zip(_strips(n), kept, strict=True))):
            above, fresh = (grad[:, start:stop], stop == n)  # the last strip has all columns: it writes, the others add
            dscores = torch._softmax_backward_data(above @ v[:, :stop].mT, weights, -1, weights.dtype)
            dv[:, :stop].baddbmm_(weights.mT, above, beta=0 if fresh else 1)
            dk[:, :stop].baddbmm_(dscores.mT, q[:, start:stop], beta=0 if fresh else 1)
            dq[:, :, start:stop] = (dscores @ k[:, :stop]).mul_(ctx.scale).unflatten(0, (b, h))
        return dq, dk.unflatten(0, (b, h)), dv.unflatten(0, (b, h)), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], q: Tensor, k: Tensor, v: Tensor, scale: float) -> Any:
        """Many attentions at once are one with more rows in its batch."""
        many = [
            x.movedim(axis, 0) if axis is not None else x.expand(info.batch_size, *x.shape)
            for x, axis in zip((q, k, v), in_dims, strict=False)
        ]
        outs = Stairs.apply(*(x.flatten(0, 1) for x in many), scale)
        found = tuple(x.unflatten(0, (info.batch_size, -1)) for x in outs)
        return found, (0,) * len(found)


def _strips(n: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + ROWS, n)) for start in range(0, n, ROWS))


def _laid(x: Tensor, scale: float | None = None) -> Tensor:
    """Side by side, perhaps times a number.   b h n c -> b·h n c"""
    b, h, n, c = x.shape
    out = x.new_empty(b * h, n, c)
    if scale is None:
        out.view(b, h, n, c).copy_(x)
    else:
        torch.mul(x, scale, out=out.view(b, h, n, c))
    return out


def _hidden(n: int, like: Tensor) -> Tensor:
    """−inf above the diagonal, 0 elsewhere.   n n"""
    return torch.full((n, n), -torch.inf, dtype=like.dtype, device=like.device).triu_(1)


def _by_definition(q: Tensor, k: Tensor, v: Tensor, grad: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v in operations that have gradients themselves."""
    weights = (scale * (q @ k.mT) + _hidden(q.shape[2], q)).softmax(-1)
    dweights = grad @ v.mT
    dscores = weights * (dweights - (dweights * weights).sum(-1, keepdim=True)) * scale
    return dscores @ k, dscores.mT @ q, weights.mT @ grad
