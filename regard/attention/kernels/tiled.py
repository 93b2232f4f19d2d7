"""Exact attention whose memory is linear in the length, and whose cost follows what the mask allows.

Rows are cut into strips; each gets the columns it may attend to, a whole softmax, and nothing else (see
`strips`). What the processor's flash kernel can do is done by it (`flash`), the rest by the reference,
replayed for the gradient (`replay`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from regard.attention.kernels.flash import FlashStrips, Tiles
from regard.attention.kernels.fused import additive_mask, refuses
from regard.attention.kernels.precision import native
from regard.attention.kernels.reference import Terms, heads_of, reference
from regard.attention.kernels.row_strips import (
    Strip,
    add_columns,
    alike_everywhere,
    block_structure,
    columns_of,
    cut,
    plan,
    put_rows,
    rows_of,
    small_enough,
)
from regard.attention.mask import Blocks

BLOCK = 128  # rows and columns of a block; measured in benchmarks/attention.py
FINEST = 32  # rows of a block at least, if a mask is the same within smaller blocks
MOST = 2**23  # scores held at once where the reference computes a strip


# ── blocks that provably cannot matter: their whole weight is below the rounding of the dtype
#
# A bias that falls with distance (ALiBi) makes far blocks vanish. For row i and any key j of a block,
# score_ij ≤ |q_i|·max|k|·scale + upper(block), and the row's log-sum-exp is at least that of one near block,
# which is cheap to compute. If all m keys at that bound weigh less than half the spacing of numbers near 1,
# leaving the block out changes nothing that rounding would not.


def prune(blocks: Blocks, q: Tensor, k: Tensor, terms: Terms, block: int) -> Blocks:
    """The same blocks without those that cannot matter, head by head.  -> 1 h row-blocks column-blocks"""
    assert terms.bias is not None
    upper = terms.bias.upper(terms.here.bounds(block), terms.there.bounds(block))
    if upper is None:
        return blocks
    bound = np.where(blocks.some, upper.max(0, keepdims=True), -np.inf)  # 1 h nr nc
    nearest = bound[0].sum(0).argmax(-1)  # the block to glance at, for each block of rows
    slack = _row_slack(q, k, nearest, terms, block)
    threshold = math.log(torch.finfo(q.dtype).eps / 2) - math.log(max(terms.there.count, 1))
    with np.errstate(invalid="ignore"):
        # −inf + inf is NaN, a row that sees nothing: kept
        matters = ~(bound + slack[None, :, :, None] < threshold)
    return Blocks(blocks.some & matters, blocks.every)


def _row_slack(q: Tensor, k: Tensor, nearest: np.ndarray, terms: Terms, block: int) -> np.ndarray:
    """max over the rows of a block of |q_i|·max|k|·scale − a lower bound of the row's log-sum-exp.  h
    row-blocks"""
    n, m = terms.here.count, terms.there.count
    longest = heads_of(k.norm(dim=-1, keepdim=True).amax(2, keepdim=True), q.shape[1])  # b h 1 1
    most = (q.norm(dim=-1, keepdim=True) * longest * abs(terms.scale)).squeeze(-1)  # b h n
    slack = []
    for i, j in enumerate(nearest):
        rows = slice(i * block, min((i + 1) * block, n))
        columns = slice(int(j) * block, min((int(j) + 1) * block, m))
        scores = (q[:, :, rows] * terms.scale) @ heads_of(k[:, :, columns], q.shape[1]).mT
        scores = scores + additive_mask(q, terms.part(rows, columns))
        slack.append((most[:, :, rows] - scores.logsumexp(-1)).amax((0, 2)))
    return torch.stack(slack, -1).double().cpu().numpy()


# ── strips computed by the reference, and once more when their gradient is wanted: for every mask, bias and device
#
# Only inputs are kept, so memory is linear in the length. The bias' parameters get their gradients, and dropout
# draws the same again from its seed.


def bias_parameters(terms: Terms) -> list[Tensor]:
    """The bias' parameters that want a gradient."""
    return [] if terms.bias is None else list(terms.bias.learned())


class ReplayedStrips(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, strips: tuple[Strip, ...], terms: Terms, *params: Tensor
    ) -> Tensor:
        b, h, n, _ = q.shape
        seed = int(torch.randint(2**31, ())) if terms.dropout else None
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
            found = torch.autograd.grad(out, [rows, keys, values, *params], rows_of(grad, strip), allow_unused=True)
            put_rows(dq, strip, found[0])
            add_columns(dk, strip, h, found[1])
            add_columns(dv, strip, h, found[2])
            for total, part in zip(dparams, found[3:], strict=True):
                if part is not None:
                    total += part
        return dq, dk, dv, None, None, *dparams


def _drawing(seed: int | None, i: int, device: torch.device) -> AbstractContextManager[None]:
    """Strip i draws its dropout from a seed of its own, forward and backward alike."""
    return nullcontext() if seed is None else _drawn_from(seed + i, device)


@contextmanager
def _drawn_from(seed: int, device: torch.device) -> Iterator[None]:
    """Random numbers from a seed; the global state is as before afterwards."""
    devices = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices=devices, device_type=device.type if devices else "cuda"):
        torch.manual_seed(seed)
        yield


def tiled(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:
    """Attention in strips of rows: every mask, bias and device, memory linear in the length.  -> b h n e"""
    b, h, _, c = q.shape
    if not torch.compiler.is_compiling() and q.device.type == "cpu" and v.shape[-1] == c and refuses(terms) is None:
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
