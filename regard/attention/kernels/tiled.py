"""Exact attention whose memory is linear in the length, and whose cost follows what the mask allows.

Rows are cut into strips; each gets the columns it may attend to, a whole softmax, and nothing else (see
`strips`). What the processor's flash kernel can do is done by it (`flash`), the rest by the reference,
replayed for the gradient (`replay`).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.attention.kernels.flash import FlashStrips, Tiles
from regard.attention.kernels.fused import refuses
from regard.attention.kernels.precision import native
from regard.attention.kernels.prune import prune
from regard.attention.kernels.reference import reference
from regard.attention.kernels.replay import ReplayedStrips, bias_parameters
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
from regard.attention.terms import Terms

BLOCK = 128  # rows and columns of a block; measured in benchmarks/attention.py
FINEST = 32  # rows of a block at least, if a mask is the same within smaller blocks
MOST = 2**23  # scores held at once where the reference computes a strip


def tiled(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:
    """Attention in strips of rows: every mask, bias and device, memory linear in the length.  -> b h n e"""
    b, h, _, c = q.shape
    if (
        not torch.compiler.is_compiling()
        and q.device.type == "cpu"
        and v.shape[-1] == c
        and refuses(terms) is None
    ):
        return _by_flash(q, k, v, terms)
    strips = tuple(small_enough(plan(terms, h, block_size(terms)), b, MOST))
    if torch.compiler.is_compiling():
        return _traced(q, k, v, strips, terms)
    return ReplayedStrips.apply(q, k, v, strips, terms, *bias_parameters(terms))


def block_size(terms: Terms) -> int:
    """Rows and columns of a block: those of the mask, where it has blocks of its own that are not too small."""
    if terms.mask is None:
        return BLOCK
    grains = [part.grain for part in terms.mask.parts() if part.grain is not None and part.grain >= FINEST]
    return min((BLOCK, *grains))


def _by_flash(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:
    given, h = q.dtype, q.shape[1]
    if not native(q):
        q, k, v = q.float(), k.float(), v.float()
    if terms.bias is not None and alike_everywhere(terms):  # tiles are shared, so heads may go their own ways
        blocks = block_structure(terms.mask, terms.here, terms.there, BLOCK)
        with torch.no_grad():
            blocks = prune(blocks, q, k, terms, BLOCK)
        strips = tuple(cut(blocks, terms.here.count, terms.there.count, h, BLOCK, join=True))
    else:
        strips = plan(terms, h, block_size(terms))
    return FlashStrips.apply(q, k, v, strips, Tiles(q, strips, terms)).to(given)


def _traced(q: Tensor, k: Tensor, v: Tensor, strips: tuple[Strip, ...], terms: Terms) -> Tensor:
    """The same strips in operations a tracer can follow: each is checkpointed, so memory stays linear."""
    h, n = q.shape[1], q.shape[2]
    pieces: list[Tensor] = []
    done = 0
    for strip in strips:
        parts = rows_of(q, strip), columns_of(k, strip, h), columns_of(v, strip, h)
        out = checkpoint(reference, *parts, strip.terms(terms), use_reentrant=False)
        if strip.repeat > 1:
            out = out.unflatten(0, (-1, strip.repeat)).transpose(1, 2).flatten(2, 3)
        rows = strip.every_row()
        pieces += [
            q.new_zeros(*q.shape[:2], rows.start - done, v.shape[-1]),
            out,
        ]  # rows that see nothing have no strip
        done = rows.stop
    pieces.append(q.new_zeros(*q.shape[:2], n - done, v.shape[-1]))
    return torch.cat(pieces, 2)
