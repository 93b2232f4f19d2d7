"""Pools: many tokens become one vector, b n d -> b d, whatever their order.

All take `real` (bool b n, True = real; None: all are). Padded slots may hold anything, NaN included: they
reach neither the output nor the gradients. A row with nothing real gives zeros, with zero gradients.

A pool reads no places, so it keeps permutations and shifts, and its output does not move with them: what was
equivariant before the pool is **invariant** after it. The memories of `memory.py` can be used as pools, too.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.masks import Padding
from regard.errors import RegardError
from regard.nn.padding import check_real, zero_padding
from regard.shapes import expect
from regard.symmetry.groups import EVERYTHING, Group, Shifts


class SumPool(nn.Module):
    """Σ over the real tokens: it depends on their number.   b n d -> b d, invariant under permutations"""

    keeps: Group = EVERYTHING

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        expect(x, "b n d", name="x")
        return zero_padding(x, real).sum(1)


class MeanPool(nn.Module):
    """1/t Σ over the t real tokens: it does not depend on their number.
    b n d -> b d, invariant under permutations"""

    keeps: Group = EVERYTHING

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        _, n, _ = expect(x, "b n d", name="x")
        # float16 cannot hold a large sum, nor bfloat16 a count
        wide = torch.promote_types(x.dtype, torch.float32)
        total = zero_padding(x, real).sum(1, dtype=wide)
        if real is None:
            return (total / max(n, 1)).to(x.dtype)
        return (total / real.sum(1, keepdim=True).clamp(min=1)).to(x.dtype)


class MaxPool(nn.Module):
    """The largest of each channel over the real tokens.   b n d -> b d, invariant under permutations

    Where several tokens share the largest value, they share its gradient: so the gradient does not know order
    either.
    """

    keeps: Group = EVERYTHING

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        b, n, d = expect(x, "b n d", name="x")
        if n == 0:
            return x.new_zeros(b, d)
        largest = zero_padding(x, real, fill=-torch.inf).amax(1)
        if real is None:
            return largest
        return largest.masked_fill(~real.any(1, keepdim=True), 0)


class AttentionPool(nn.Module):
    """mix(attend(seeds, to_k x, to_v x)): learned queries attend to all tokens.
    b n d -> b d, or b s d with s > 1 seeds

    The keys need no bias: it would add the same to all scores of a query, and cancel. Nor does `mix`: weights
    sum to 1, so the bias of the values does its work, and a row with nothing real stays zero. Invariant under
    permutations.
    """

    keeps: Group = EVERYTHING

    def __init__(self, dim: int, heads: int = 1, seeds: int = 1) -> None:
        super().__init__()
        if heads < 1 or dim % heads:
            raise RegardError(f"dim must be a multiple of heads, got dim={dim} and heads={heads}")
        if seeds < 1:
            raise RegardError(f"seeds must be at least 1, got {seeds}; each gives one vector")
        self.dim, self.heads = dim, heads
        self.seeds = nn.Parameter(torch.randn(seeds, dim))
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim)
        self.mix = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        b, _, _ = expect(x, "b n d", name="x", d=self.dim)
        x = zero_padding(x, real)
        q = rearrange(self.seeds, "s (h c) -> h s c", h=self.heads).expand(b, -1, -1, -1)
        k, v = (rearrange(to(x), "b n (h c) -> b h n c", h=self.heads) for to in (self.to_k, self.to_v))
        mask = None if real is None else Padding(real)
        out = self.mix(rearrange(attend(q, k, v, mask=mask), "b h s c -> b s (h c)"))  # b s d
        if self.seeds.shape[0] == 1:
            return out[:, 0]
        return out


class FirstToken(nn.Module):
    """σ(θᵀx + b) of the token that has the first place among the real ones, as BERT reads its [CLS].
    b n d -> b d

    σ is tanh, or relu. It goes by places, so shifts of all places change nothing, and other orders do.
    """

    keeps: Group = Shifts()

    def __init__(self, dim: int, activation: str = "tanh") -> None:
        super().__init__()
        self.dim = dim
        self.activation = {"tanh": torch.tanh, "relu": torch.relu}[activation]
        self.linear = nn.Linear(dim, dim)

    def forward(self, x: Tensor, real: Tensor | None = None, where: Tensor | None = None) -> Tensor:
        """where: n or b n; None: consecutive"""
        b, n, _ = expect(x, "b n d", name="x", d=self.dim)
        if real is None and where is None:
            return self.activation(self.linear(x[:, 0]))
        places = torch.arange(n, device=x.device) if where is None else where
        places = places.to(torch.float64).expand(b, n)
        if real is not None:
            check_real(real, "b n", b=b, n=n)
            places = places.masked_fill(~real, torch.inf)
        first = places.argmin(1)
        chosen = zero_padding(x, real)[torch.arange(b, device=x.device), first]
        return self.activation(self.linear(chosen))


class ClassToken(nn.Module):
    """A learned token that is put in front before the blocks, and taken out as the pool after them.
    b n d -> b d

        x, where, real = token.add(x, where, real)      # b 1+n d; the token has no place (NaN) and is real
        x = blocks(x, where, real)
        out = token(x, real)                            # b d

    It is told apart by what it holds, not by where it is: without a place, it makes no order among the
    others. What is taken out is invariant under permutations of the n others if the blocks between are
    equivariant.
    """

    keeps: Group = EVERYTHING

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.token = nn.Parameter(torch.randn(dim) * 0.02)

    def add(
        self, x: Tensor, where: Tensor | None = None, real: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The token first, with NaN in where and True in real (None stays None: all are real). Padding is
        cleared.

        where: n, b n or b n s; None means consecutive, and becomes NaN 0 1 2 ... Whole places become float32.
        """
        b, n, _ = expect(x, "b n d", name="x", d=self.dim)
        if where is None:
            where = torch.arange(n, device=x.device)
        if where.dim() not in (1, 2, 3) or where.shape[0 if where.dim() == 1 else 1] != n:
            raise RegardError(f"where must have the shape n, b n or b n s with n={n}, got {tuple(where.shape)}")
        x = torch.cat([self.token.to(x.dtype).expand(b, 1, -1), zero_padding(x, real)], 1)
        places = where if where.is_floating_point() else where.float()
        places = F.pad(places, (0, 0, 1, 0) if where.dim() == 3 else (1, 0), value=torch.nan)
        if real is not None:
            real = F.pad(real, (1, 0), value=True)
        return x, places, real

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """The first token.   b 1+n d -> b d"""
        b, n, _ = expect(x, "b n d", name="x", d=self.dim)
        if real is None:
            return x[:, 0]
        check_real(real, "b n", b=b, n=n)
        return x[:, 0].masked_fill(~real[:, :1], 0)
