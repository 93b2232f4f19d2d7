"""Embeddings: what the tokens are becomes vectors. Where they are comes in later, with a position or a
bias."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.padding import check_real, zero_padding
from regard.shapes import expect


class TokenEmbedding(nn.Module):
    """A learned vector for each of `vocab` ids.   b n -> b n d

    `scale=True` multiplies it by √d, so that it is not small beside a position that is added. With `real`
    (bool b n, True = real) padded ids may be anything, −1 too, and give zeros. Each token by itself, so every
    order is kept.
    """

    def __init__(self, vocab: int, dim: int, scale: bool = False) -> None:
        super().__init__()
        if vocab < 1 or dim < 1:
            raise RegardError(f"vocab and dim must be at least 1, got vocab={vocab} and dim={dim}")
        self.vocab, self.dim = vocab, dim
        self.scale = dim**0.5 if scale else 1.0
        self.weight = nn.Parameter(torch.randn(vocab, dim) * 0.02)

    def forward(self, ids: Tensor, real: Tensor | None = None) -> Tensor:
        b, n = expect(ids, "b n", name="ids")
        if ids.dtype not in (torch.int64, torch.int32):
            raise RegardError(
                f"ids must be int64 or int32, got {ids.dtype}; use ids.long() if they are whole numbers"
            )
        if real is not None:
            check_real(real, "b n", b=b, n=n)
            ids = ids.masked_fill(~real, 0)
        # elsewhere a look would wait for the device
        if ids.device.type == "cpu" and not torch.compiler.is_compiling():
            self.check(ids)
        x = F.embedding(ids, self.weight)
        return zero_padding(x if self.scale == 1.0 else x * self.scale, real)

    def check(self, ids: Tensor) -> None:
        """A ValueError that names the first id out of range."""
        if ids.numel() == 0:
            return
        low, high = ids.aminmax()
        if low < 0 or high >= self.vocab:
            row, place = ((ids < 0) | (ids >= self.vocab)).nonzero()[0].tolist()
            raise RegardError(
                f"ids must be from 0 to {self.vocab - 1}, got {ids[row, place].item()} in row {row} at place "
                f"{place}; use the vocabulary the ids were made with, or say with `real` that this is padding"
            )

    def extra_repr(self) -> str:
        return f"{self.vocab}, {self.dim}" + (f", scale={self.scale:.4g}" if self.scale != 1.0 else "")


class StepEmbedding(nn.Module):
    """θᵀx + b for real-valued steps: a measurement, an observation, a pixel.   b n inputs -> b n d

    With `real` (bool b n, True = real) padded steps may hold anything, NaN too, and give zeros. Each step by
    itself, so every order of the steps is kept.
    """

    def __init__(self, inputs: int, dim: int, bias: bool = True) -> None:
        super().__init__()
        self.inputs, self.dim = inputs, dim
        self.linear = nn.Linear(inputs, dim, bias=bias)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        expect(x, "b n inputs", name="x", inputs=self.inputs)
        # again: a cleared step still adds its bias
        return zero_padding(self.linear(zero_padding(x, real)), real)
