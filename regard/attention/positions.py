"""Positions: what tells attention where a token is, by acting on the tokens themselves or on queries and keys.

A model calls `place` on its tokens and `turn` on its queries and keys and never asks which position it has: each kind acts in
one of the two and leaves the other alone. `where` is n, b n or b n s, or None for consecutive places from `first` on. A token
without a place (NaN) is left as it is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.kernels.precision import HALF
from regard.attention.places import spread
from regard.symmetry.groups import EVERYTHING, Group, Shifts, Trivial


class Position(nn.Module):
    """Base of all positions.

    `keeps`: the symmetry that survives it. `widens`: the channels it adds to a token. `turns`: it acts on queries and keys, so
    that a query itself says where it is.
    """

    keeps: Group = Trivial()
    widens = 0
    turns = False

    def place(self, x: Tensor, where: Tensor | None = None, first: int = 0) -> Tensor:
        """Act on tokens.  b n d -> b n (d + widens)"""
        return x

    def turn(self, x: Tensor, where: Tensor | None = None, first: int = 0) -> Tensor:
        """Act on queries or keys.  b h n c -> b h n c"""
        return x


class Nothing(Position):
    """No position: attention keeps every order."""

    keeps = EVERYTHING


def coordinates(where: Tensor | None, first: int, n: int, b: int, device: torch.device, kind: str) -> Tensor:
    """One coordinate a token.  b|1 n"""
    if where is None:
        return torch.arange(first, first + n, device=device)[None]
    laid = spread(where, n, b, "where", device)
    if laid.shape[-1] != 1:
        raise ValueError(f"{kind} reads places on one axis, got where with {laid.shape[-1]}")
    return laid[..., 0]


def exact(device: torch.device) -> torch.dtype:
    """Angles grow with the place, so they want float64 where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def frequencies(channels: int, base: float, device: torch.device) -> Tensor:
    """base^(−2i/c), i from 0.  c/2"""
    return base ** (-torch.arange(0, channels, 2, device=device, dtype=exact(device)) / channels)


class Code(Position):
    """A position that is a vector of `dim` numbers for each place, added to the token."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def code(self, where: Tensor) -> Tensor:
        """b|1 n -> b|1 n dim, zeros where there is no place"""
        raise TypeError(f"{type(self).__name__} must define code(where)")

    def codes(self, x: Tensor, where: Tensor | None, first: int) -> Tensor:
        b, n = x.shape[:2]
        return self.code(coordinates(where, first, n, b, x.device, type(self).__name__)).to(x.dtype)

    def place(self, x: Tensor, where: Tensor | None = None, first: int = 0) -> Tensor:
        if x.shape[-1] != self.dim:
            raise ValueError(f"{type(self).__name__} was made for tokens of width {self.dim}, got {x.shape[-1]}")
        return x + self.codes(x, where, first)


class Sinusoidal(Code):
    """code_2i = sin(where·base^(−2i/d)), code_2i+1 = cos(the same): added to the token."""

    def __init__(self, dim: int, *, base: float = 10_000.0) -> None:
        super().__init__(dim)
        if dim % 2:
            raise ValueError(f"dim must be even, a sine and a cosine each, got {dim}; the next one that fits is {dim + 1}")
        self.base = base

    def code(self, where: Tensor) -> Tensor:
        angles = where[..., None].to(exact(where.device)) * frequencies(self.dim, self.base, where.device)
        code = torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)
        return torch.nan_to_num(code, nan=0.0) if where.is_floating_point() else code


class Learned(Code):
    """A vector for each of `length` places, learned: added to the token. Other places have none, and raise."""

    def __init__(self, length: int, dim: int) -> None:
        super().__init__(dim)
        self.table = nn.Parameter(torch.randn(length, dim) * 0.02)

    def code(self, where: Tensor) -> Tensor:
        rows = torch.nan_to_num(where, nan=0.0).round().long() if where.is_floating_point() else where.long()
        if where.device.type == "cpu" and not torch.compiler.is_compiling() and rows.numel():
            low, high = int(rows.min()), int(rows.max())
            if low < 0 or high >= len(self.table):
                raise ValueError(
                    f"place {low if low < 0 else high} is outside the {len(self.table)} that were learned (0 to "
                    f"{len(self.table) - 1}); use a longer table, or Rotary, ALiBi or Sinusoidal, which have no end"
                )
        code = self.table[rows]
        return code.masked_fill(where.isnan()[..., None], 0) if where.is_floating_point() else code


class Concatenated(Position):
    """[x ; code]: the code of another position beside the token instead of on top of it.  b n d -> b n (d + code's width)"""

    def __init__(self, of: Code) -> None:
        super().__init__()
        if not isinstance(of, Code):
            raise TypeError(f"Concatenated takes a position with a code (Sinusoidal, Learned), got {type(of).__name__}")
        self.of = of
        self.widens = of.dim

    def place(self, x: Tensor, where: Tensor | None = None, first: int = 0) -> Tensor:
        code = self.of.codes(x, where, first)
        return torch.cat((x, code.expand(*x.shape[:-1], -1)), -1)


class Rotary(Position):
    """Pairs of channels of q and k turned by where·base^(−2i/c): scores then depend on where_i − where_j only.

    Pair i is (i, i + c/2), the two halves, or (2i, 2i + 1) with `interleaved=True`; other people's weights need the one
    they were trained with.
    """

    keeps = Shifts()
    turns = True

    def __init__(self, channels: int, *, base: float = 10_000.0, interleaved: bool = False) -> None:
        super().__init__()
        if channels % 2:
            raise ValueError(f"channels must be even to be turned in pairs, got {channels}")
        self.channels, self.base, self.interleaved = channels, base, interleaved

    def turn(self, x: Tensor, where: Tensor | None = None, first: int = 0) -> Tensor:
        b, _, n, c = x.shape
        if c != self.channels:
            raise ValueError(f"Rotary was made for {self.channels} channels a head, got {c}")
        wide = torch.float32 if x.dtype in HALF else x.dtype
        if where is None and not torch.compiler.is_compiling():
            cos, sin = consecutive_turns(first, n, c, self.base, x.device, wide, self.interleaved)
        else:
            places = coordinates(where, first, n, b, x.device, "Rotary")
            cos, sin = turns(places, c, self.base, wide, self.interleaved)
        return Turn.apply(x.to(wide), cos, sin, self.interleaved).to(x.dtype)


class Turn(torch.autograd.Function):
    """x ⊙ cos + swapped(x) ⊙ sin, where swapped exchanges the two of each pair and sin has a minus for the first of them.

    Its gradient turns back by the same angle, so it keeps nothing of x.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
        return (x * cos).addcmul_(swapped(x, interleaved), sin)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, bool], output: Tensor) -> None:
        _, cos, sin, ctx.interleaved = inputs
        ctx.save_for_backward(cos, sin)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None, None, None]:
        cos, sin = ctx.saved_tensors
        return (dy * cos).addcmul_(swapped(dy, ctx.interleaved), sin, value=-1), None, None, None


def swapped(x: Tensor, interleaved: bool) -> Tensor:
    """The two channels of each pair exchanged.  ... c -> ... c"""
    return x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2) if interleaved else x.roll(x.shape[-1] // 2, -1)


def turns(where: Tensor, channels: int, base: float, dtype: torch.dtype, interleaved: bool) -> tuple[Tensor, Tensor]:
    """Cosine and signed sine for every channel.  b|1 n -> b|1 1 n c each"""
    angles = where[:, None, :, None].to(exact(where.device)) * frequencies(channels, base, where.device)
    if where.is_floating_point():
        angles = torch.nan_to_num(angles, nan=0.0)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    axis = -1 if interleaved else -2
    return torch.stack((cos, cos), axis).flatten(-2), torch.stack((-sin, sin), axis).flatten(-2)


@lru_cache(maxsize=16)
def consecutive_turns(
    first: int, n: int, channels: int, base: float, device: torch.device, dtype: torch.dtype, interleaved: bool
) -> tuple[Tensor, Tensor]:
    """`turns` for consecutive places, which every layer and every step asks for again."""
    with torch.inference_mode(False):  # what is kept must also serve a gradient later on
        return turns(torch.arange(first, first + n, device=device)[None], channels, base, dtype, interleaved)
