"""Strips computed by the reference, and computed once more when their gradient is wanted: for every mask, bias and device.

Only inputs are kept, so memory is linear in the length. The bias' parameters get their gradients, and dropout draws the
same again from its seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.biases import Bias
from regard.attention.kernels.reference import reference
from regard.attention.kernels.strips import Strip, add_columns, columns_of, put_rows, rows_of
from regard.attention.mask import Mask
from regard.attention.places import Side


class Settings:
    """What a strip needs beside tensors."""

    def __init__(
        self,
        strips: tuple[Strip, ...],
        *,
        here: Side,
        there: Side,
        mask: Mask | None,
        bias: Bias | None,
        scale: float,
        dropout: float,
    ) -> None:
        self.strips, self.here, self.there, self.mask, self.bias = strips, here, there, mask, bias
        self.scale, self.dropout = scale, dropout
        self.seed = int(torch.randint(2**31, ())) if dropout else 0

    def compute(self, strip: Strip, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """One strip, from its own rows and columns."""
        rows, columns = strip.sides(self.here, self.there)
        mask = None if strip.full else self.mask
        return reference(q, k, v, here=rows, there=columns, mask=mask, bias=self.bias, scale=self.scale, dropout=self.dropout)

    def learned(self) -> list[Tensor]:
        """The bias' parameters that want a gradient."""
        return [] if self.bias is None else [p for p in self.bias.parameters() if p.requires_grad]

    def drawing(self, i: int, device: torch.device) -> AbstractContextManager[None]:
        """Strip i draws its dropout from a seed of its own, forward and backward alike."""
        return drawn_from(self.seed + i, device) if self.dropout else nullcontext()


@contextmanager
def drawn_from(seed: int, device: torch.device) -> Iterator[None]:
    """Random numbers from a seed of their own; the global state is as before afterwards."""
    devices = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices=devices, device_type=device.type if devices else "cuda"):
        torch.manual_seed(seed)
        yield


class ReplayedStrips(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, settings: Settings, *params: Tensor) -> Tensor:
        b, h, n, _ = q.shape
        out = q.new_zeros(b, h, n, v.shape[-1])
        for i, strip in enumerate(settings.strips):
            with settings.drawing(i, q.device):
                put_rows(
                    out,
                    strip,
                    settings.compute(strip, rows_of(q, strip), columns_of(k, strip, h), columns_of(v, strip, h)),
                )
        ctx.save_for_backward(q, k, v, *params)
        ctx.settings = settings
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, *_ = ctx.saved_tensors  # the parameters were saved so that changing them in place is noticed
        settings: Settings = ctx.settings
        h, params = q.shape[1], settings.learned()
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        dparams = [torch.zeros_like(p) for p in params]
        for i, strip in enumerate(settings.strips):
            parts = [rows_of(q, strip), columns_of(k, strip, h), columns_of(v, strip, h)]
            parts = [part.detach().requires_grad_() for part in parts]
            with torch.enable_grad(), settings.drawing(i, q.device):
                out = settings.compute(strip, *parts)
            found = torch.autograd.grad(out, [*parts, *params], rows_of(grad, strip), allow_unused=True)
            put_rows(dq, strip, found[0])
            add_columns(dk, strip, h, found[1])
            add_columns(dv, strip, h, found[2])
            for total, part in zip(dparams, found[3:], strict=True):
                if part is not None:
                    total += part
        return dq, dk, dv, None, *dparams
