"""Strips computed by PyTorch's flash kernel for the CPU, forward and backward.

The kernel returns the log-sum-exp of its rows and its backward takes it, so nothing is computed twice and
only outputs are kept: memory is linear in the length.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.kernels.fused import additive_mask
from regard.attention.kernels.reference import Terms
from regard.attention.kernels.row_strips import Strip, add_columns, alike_everywhere, columns_of, put_rows, rows_of
from regard.attention.places import Side

forward_op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
backward_op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


class Tiles:
    """What is added to the scores of each strip. Where it depends on distance alone, it is laid out once and
    sliced."""

    def __init__(self, q: Tensor, strips: tuple[Strip, ...], terms: Terms) -> None:
        self.q, self.terms = q.detach(), terms
        self.laid: Tensor | None = None
        apart = [(s.columns, s.rows) for s in strips if self.needed(s) and isinstance(s.columns, slice)]
        if apart and alike_everywhere(terms):
            self.low = min(columns.start - rows.start for columns, rows in apart)
            width = max(columns.stop - rows.start for columns, rows in apart) - self.low
            height = max(rows.stop - rows.start for _, rows in apart)
            here, there = terms.here, terms.there
            rows = Side(True, height, slice(0, height), here.first, None, here.device)
            columns = Side(False, width, slice(0, width), there.first + self.low, None, there.device)
            self.laid = additive_mask(self.q, Terms(rows, columns, terms.mask, terms.bias, terms.scale, terms.dropout))

    def needed(self, strip: Strip) -> bool:
        return self.terms.bias is not None or not strip.full

    def of(self, strip: Strip) -> Tensor | None:
        """b|1 h|1 step width, or None if nothing is added."""
        if not self.needed(strip):
            return None
        if self.laid is not None and isinstance(strip.columns, slice):
            start = strip.columns.start - strip.rows.start - self.low
            tile = self.laid[:, :, : strip.step, start : start + strip.width]
        else:
            tile = additive_mask(self.q, strip.terms(self.terms))
        if tile.shape[1] > 1:
            return tile[:, strip.heads]
        return tile


def _even(x: Tensor) -> Tensor:
    """The kernel takes any strides but one: the channels of a token must lie side by side, or its numbers are
    wrong."""
    return x if x.stride(-1) == 1 else x.contiguous()


class FlashStrips(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, strips: tuple[Strip, ...], tiles: Tiles) -> Tensor:
        q, k, v = _even(q), _even(k), _even(v)
        b, h, n, _ = q.shape
        out = q.new_zeros(b, h, n, v.shape[-1])
        # transposed like the kernel's own, whose backward wants it so
        lse = q.new_zeros(b, n, h, dtype=torch.float64 if q.dtype == torch.float64 else torch.float32).transpose(1, 2)
        scale = tiles.terms.scale
        for strip in strips:
            columns = columns_of(k, strip, h), columns_of(v, strip, h)
            part, sums = forward_op(rows_of(q, strip), *columns, attn_mask=tiles.of(strip), scale=scale)
            put_rows(out, strip, part)
            put_rows(lse[..., None], strip, sums[..., None])
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.strips, ctx.tiles = strips, tiles
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse = ctx.saved_tensors
        h, grad, scale = q.shape[1], _even(grad), ctx.tiles.terms.scale
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for strip in ctx.strips:
            parts = backward_op(
                rows_of(grad, strip),
                rows_of(q, strip),
                columns_of(k, strip, h),
                columns_of(v, strip, h),
                rows_of(out, strip),
                rows_of(lse[..., None], strip)[..., 0],
                0.0,
                False,
                attn_mask=ctx.tiles.of(strip),
                scale=scale,
            )
            put_rows(dq, strip, parts[0])
            add_columns(dk, strip, h, parts[1])
            add_columns(dv, strip, h, parts[2])
        return dq, dk, dv, None, None
