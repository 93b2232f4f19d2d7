"""Cross-entropy with smoothed labels, summed over rows, in two passes over the logits: one forward, one back.

PyTorch writes all log-probabilities, their gradient, and with smoothing another two tensors of that size. Of a
large vocabulary these are the largest tensors of a training step, so memory decides how long it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.data.batch import IGNORE

LARGE = 1 << 22  # logits that do not fit into the cache of a processor: fewer are done faster at once
PIECE = 1 << 20  # logits in a piece: large enough for two cores, small enough for their cache


def cross_entropy(logits: Tensor, target: Tensor, smoothing: float = 0.0) -> Tensor:
    """Σ_i logsumexp(x_i) − (1 − ε) x_i[target_i] − ε mean(x_i), over all targets that are not IGNORE.
    logits n v, target n -> a scalar, in float32 at least

    smoothing: ε, the share of each target that is given to all classes alike
    """
    exact = torch.promote_types(logits.dtype, torch.float32)
    # (a compiler fuses the plain form by itself)
    if logits.numel() < LARGE or torch.compiler.is_compiling():
        return F.cross_entropy(
            logits.to(exact), target, ignore_index=IGNORE, label_smoothing=smoothing, reduction="sum"
        )
    total: Tensor = _InPieces.apply(logits, target, smoothing, exact)
    return total


class _InPieces(torch.autograd.Function):
    """Some rows at a time, all of a piece done while it is in the cache. Only the logits are kept for backward."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, smoothing: float, exact: torch.dtype) -> Tensor:
        place = target.clamp(min=0)[:, None]
        each = logits.new_empty(len(logits), dtype=exact)
        for rows in _pieces(logits):
            known = torch.log_softmax(logits[rows].to(exact), -1)
            each[rows] = known.gather(1, place[rows])[:, 0]
            if smoothing:  # (0 times the mean is no number if a class is impossible)
                each[rows] = torch.lerp(each[rows], known.mean(-1), smoothing)
        ctx.save_for_backward(logits, target)
        ctx.smoothing, ctx.exact = smoothing, exact
        return -each.masked_fill_(target == IGNORE, 0).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_total: Tensor) -> tuple[Tensor | None, ...]:
        """(softmax(x_i) − ε / v − (1 − ε) at target_i) times the gradient of the total."""
        logits, target = ctx.saved_tensors
        place = target.clamp(min=0)[:, None]
        less = torch.full_like(place, ctx.smoothing - 1, dtype=ctx.exact)
        found = torch.empty_like(logits)
        for rows in _pieces(logits):
            piece = torch.softmax(logits[rows].to(ctx.exact), -1)
            piece.scatter_add_(1, place[rows], less[rows])
            if ctx.smoothing:
                piece.sub_(ctx.smoothing / logits.shape[1])
            found[rows] = piece.mul_(by_total)
        found.index_fill_(0, (target == IGNORE).nonzero()[:, 0], 0)
        return found, None, None, None


def _pieces(logits: Tensor) -> Iterator[slice]:
    """Rows of a piece, one piece after another."""
    size = max(1, PIECE // logits.shape[1])
    for first in range(0, len(logits), size):
        yield slice(first, first + size)
