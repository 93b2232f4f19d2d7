"""Exact attention whose memory is linear in the length, and whose cost follows what the mask allows.

Rows are cut into strips; each gets the columns it may attend to, a whole softmax, and nothing else (see `strips`). What the
processor's flash kernel can do is done by it (`flash`), the rest by the reference, replayed for the gradient (`replay`).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.attention.biases import Bias
from regard.attention.kernels.flash import FlashStrips, Tiles
from regard.attention.kernels.fused import refuses
from regard.attention.kernels.precision import native
from regard.attention.kernels.prune import prune
from regard.attention.kernels.reference import reference
from regard.attention.kernels.replay import ReplayedStrips, Settings
from regard.attention.kernels.strips import (
    Strip,
    alike_everywhere,
    block_structure,
    columns_of,
    cut,
    plan,
    rows_of,
    small_enough,
)
from regard.attention.mask import Mask
from regard.attention.places import Side

BLOCK = 128  # rows and columns of a block; measured in benchmarks/attention.py
MOST = 2**23  # scores held at once where the reference computes a strip


def tiled(
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
    """Attention in strips of rows: every mask, bias and device, memory linear in the length.  -> b h n e"""
    b, h = q.shape[:2]
    if torch.compiler.is_compiling():
        strips = tuple(small_enough(plan(mask, bias, here, there, h, BLOCK), b, MOST))
        return traced(q, k, v, strips, here=here, there=there, mask=mask, bias=bias, scale=scale, dropout=dropout)
    if q.device.type == "cpu" and refuses(q, bias, dropout) is None and v.shape[-1] == q.shape[-1]:
        given = q.dtype
        if not native(q):
            q, k, v = q.float(), k.float(), v.float()
        if bias is not None and alike_everywhere(mask, bias, here):
            blocks = block_structure(mask, here, there, BLOCK)
            with torch.no_grad():
                blocks = prune(blocks, q, k, here=here, there=there, mask=mask, bias=bias, scale=scale, block=BLOCK)
            strips = tuple(cut(blocks, here.count, there.count, h, BLOCK, join=True))
        else:
            strips = plan(mask, bias, here, there, h, BLOCK)
        tiles = Tiles(q, strips, here=here, there=there, mask=mask, bias=bias)
        return FlashStrips.apply(q, k, v, strips, tiles, scale).to(given)
    strips = tuple(small_enough(plan(mask, bias, here, there, h, BLOCK), b, MOST))
    settings = Settings(strips, here=here, there=there, mask=mask, bias=bias, scale=scale, dropout=dropout)
    return ReplayedStrips.apply(q, k, v, settings, *settings.learned())


def traced(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    strips: tuple[Strip, ...],
    *,
    here: Side,
    there: Side,
    mask: Mask | None,
    bias: Bias | None,
    scale: float,
    dropout: float,
) -> Tensor:
    """The same strips in operations a tracer can follow: each is checkpointed, so memory stays linear."""
    h, n = q.shape[1], q.shape[2]
    pieces: list[Tensor] = []
    done = 0
    for strip in strips:
        rows, columns = strip.sides(here, there)

        def compute(
            q: Tensor, k: Tensor, v: Tensor, rows: Side = rows, columns: Side = columns, full: bool = strip.full
        ) -> Tensor:
            shown = None if full else mask
            return reference(q, k, v, here=rows, there=columns, mask=shown, bias=bias, scale=scale, dropout=dropout)

        parts = rows_of(q, strip), columns_of(k, strip, h), columns_of(v, strip, h)
        out = checkpoint(compute, *parts, use_reentrant=False)
        if strip.repeat > 1:
            out = out.unflatten(0, (-1, strip.repeat)).transpose(1, 2).flatten(2, 3)
        every = strip.every_row()
        pieces += [
            q.new_zeros(*q.shape[:2], every.start - done, v.shape[-1]),
            out,
        ]  # rows that see nothing have no strip
        done = every.stop
    pieces.append(q.new_zeros(*q.shape[:2], n - done, v.shape[-1]))
    return torch.cat(pieces, 2)
