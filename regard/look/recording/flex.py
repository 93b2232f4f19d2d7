"""FlexAttention: its score and mask functions are evaluated for the rows that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention.kernels.reference import heads_of
from regard.look.recording.source import Rows, Source, softmax, wide

NAMES = (
    "query",
    "key",
    "value",
    "score_mod",
    "block_mask",
    "scale",
    "kernel_options",
    "score_buffers",
    "mask_buffers",
)


class Flexed(Source):
    """softmax over the keys that mask_mod allows of score_mod(scale·q kᵀ, b, h, i, j)."""

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any], out: Tensor) -> None:
        given = (
            {"score_buffers": (), "mask_buffers": ()} | dict(zip(NAMES, args, strict=False)) | dict(kwargs)
        )
        self.q, self.k, self.v, self.out = given["query"], given["key"], given["value"], out
        (self.b, self.h, self.n, _), self.m = self.q.shape, self.k.shape[2]
        self.scale = given["scale"]
        self.score_mod, self.score_buffers = given["score_mod"], given["score_buffers"]
        self.mask_mod, self.mask_buffers = given["block_mask"][-1], given["mask_buffers"]

    def all_weights(self, rows: Rows) -> Tensor:
        # lets a function index by a number
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

        assert self.q is not None and self.k is not None
        scores = (wide(self.q[:, :, rows]) @ wide(heads_of(self.k, self.h)).mT) * self.scale
        device = scores.device
        b, h, m = (torch.arange(size, device=device) for size in (self.b, self.h, self.m))
        index = b, h, torch.arange(self.n, device=device)[rows], m
        with TransformGetItemToIndex():
            score = _everywhere(self.score_mod, 1, len(self.score_buffers))(
                scores, *index, *self.score_buffers
            )
            allowed = _everywhere(self.mask_mod, 0, len(self.mask_buffers))(*index, *self.mask_buffers)
        return softmax(score.masked_fill(~allowed.bool(), -torch.inf).to(scores.dtype))


def _everywhere(f: Callable[..., Tensor], scores: int, buffers: int) -> Callable[..., Tensor]:
    """A function of one score and four numbers (b, h, i, j) as one of all scores and four ranges."""
    for axis in (3, 2, 1, 0):
        numbers = [0 if a == axis else None for a in range(4)]
        f = torch.vmap(f, in_dims=(*[0] * scores, *numbers, *[None] * buffers))
    return f
