"""Gated convolution over a sequence: each place reads its neighbours, and a gate says how much of it counts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.errors import RegardError
from regard.nn.norm import RMSNorm
from regard.nn.padding import zero_padding
from regard.shapes import expect
from regard.symmetry.groups import Shifts


class GatedConv(nn.Module):
    """x + a ⊙ σ(g),  [a; g]_i = Σ_t W_t norm(x)_(i+t) + bias.   b n d -> b n d

    t runs over `kernel` places: those up to i (causal), or around i. Beyond both ends, and at padding, there are
    zeros. It reads order and no places, so it keeps shifts of all places.
    """

    keeps = Shifts()

    def __init__(self, dim: int, kernel: int, *, causal: bool, dropout: float = 0.0) -> None:
        super().__init__()
        if kernel < 1 or (not causal and kernel % 2 == 0):
            raise RegardError(f"kernel must be at least 1, and odd unless it is causal, got {kernel}")
        self.dim, self.kernel, self.causal = dim, kernel, causal
        self.norm = RMSNorm(dim)
        # torch's weight of a convolution, (2·dim, dim, kernel), written as one matrix
        self.linear = nn.Linear(dim * kernel, 2 * dim)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, real: Tensor | None = None, before: Tensor | None = None) -> Tensor:
        """real: bool b n, False for padding   before: what `last` gave for the tokens before these, causal
        only"""
        expect(x, "b n d", name="x", d=self.dim)
        given = self.read(x, real)
        if before is not None:
            given = torch.cat((before.to(given.dtype), given), 1)
        elif self.causal:
            given = F.pad(given, (0, 0, self.kernel - 1, 0))
        else:
            given = F.pad(given, (0, 0, self.kernel // 2, self.kernel // 2))
        near = given.unfold(1, self.kernel, 1).flatten(2)  # b n d·kernel
        return x + self.dropout(F.glu(self.linear(near), -1))

    def read(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """What the filter reads at each place.   b n d -> b n d"""
        return zero_padding(self.norm(x), real)

    def empty(self, x: Tensor) -> Tensor:
        """What comes before the first token: nothing.   b kernel−1 d"""
        return x.new_zeros(x.shape[0], self.kernel - 1, self.dim)

    def last(self, x: Tensor, real: Tensor | None, before: Tensor) -> Tensor:
        """What the tokens after these must know of them.   b n d, b kernel−1 d -> b kernel−1 d"""
        both = torch.cat((before, self.read(x, real).to(before.dtype)), 1)
        if real is None:
            return both[:, x.shape[1] :]
        at = real.sum(1)[:, None] + torch.arange(self.kernel - 1, device=x.device)  # b kernel−1
        return torch.take_along_dim(both, at[..., None], 1)
