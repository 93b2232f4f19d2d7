"""Strips computed by the reference, and computed once more when their gradient is wanted: for every mask,
bias and device.

Only inputs are kept, so memory is linear in the length. The bias' parameters get their gradients, and dropout
draws the same again from its seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.kernels.reference import reference
from regard.attention.kernels.strips import Strip, add_columns, columns_of, put_rows, rows_of
from regard.attention.terms import Terms


def bias_parameters(terms: Terms) -> list[Tensor]:
    """The bias' parameters that want a gradient."""
    if terms.bias is None:
        return []
    return list(terms.bias.learned())


class ReplayedStrips(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, strips: tuple[Strip, ...], terms: Terms, *params: Tensor
    ) -> Tensor:
        b, h, n, _ = q.shape
        if terms.dropout:
            seed = int(torch.randint(2**31, ()))
        else:
            seed = None
        out = q.new_zeros(b, h, n, v.shape[-1])
        for i, strip in enumerate(strips):
            columns = columns_of(k, strip, h), columns_of(v, strip, h)
            with _drawing(seed, i, q.device):
                put_rows(out, strip, reference(rows_of(q, strip), *columns, strip.terms(terms)))
        ctx.save_for_backward(q, k, v, *params)
        ctx.strips, ctx.terms, ctx.seed = strips, terms, seed
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, *_ = ctx.saved_tensors  # the parameters were saved so that changing them in place is noticed
        h, params = q.shape[1], bias_parameters(ctx.terms)
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        dparams = [torch.zeros_like(p) for p in params]
        for i, strip in enumerate(ctx.strips):
            parts = (rows_of(q, strip), columns_of(k, strip, h), columns_of(v, strip, h))
            rows, keys, values = (part.detach().requires_grad_() for part in parts)
            with torch.enable_grad(), _drawing(ctx.seed, i, q.device):
                out = reference(rows, keys, values, strip.terms(ctx.terms))
            found = torch.autograd.grad(
                out, [rows, keys, values, *params], rows_of(grad, strip), allow_unused=True
            )
            put_rows(dq, strip, found[0])
            add_columns(dk, strip, h, found[1])
            add_columns(dv, strip, h, found[2])
            for total, part in zip(dparams, found[3:], strict=True):
                if part is not None:
                    total += part
        return dq, dk, dv, None, None, *dparams


def _drawing(seed: int | None, i: int, device: torch.device) -> AbstractContextManager[None]:
    """Strip i draws its dropout from a seed of its own, forward and backward alike."""
    if seed is None:
        return nullcontext()
    return _drawn_from(seed + i, device)


@contextmanager
def _drawn_from(seed: int, device: torch.device) -> Iterator[None]:
    """Random numbers from a seed; the global state is as before afterwards."""
    devices = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices=devices, device_type=device.type if devices else "cuda"):
        torch.manual_seed(seed)
        yield
