"""Positions: what tells attention where a token is, by acting on the tokens themselves or on queries and
keys.

A model calls `place` on its tokens and `turn` on its queries and keys and never asks which position it has:
each kind acts in one of the two and leaves the other alone. `where` is n, b n or b n s, or None for
consecutive places from `first` on. A token without a place (NaN) is left as it is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.kernels.precision import HALF
from regard.attention.places import spread
from regard.attention.rope_scaling import NO_SCALING, RopeScaling
from regard.errors import RegardError
from regard.symmetry.groups import EVERYTHING, Group, Shifts, Trivial


class Position(nn.Module):
    """Base of all positions.

    `keeps`: the symmetry that survives it. `axes`: how many numbers a place has. `widens`: the channels it
    adds to a token. `turns`: it acts on queries and keys, so that a query itself says where it is.
    """

    keeps: Group = Trivial()
    axes = 1
    widens = 0
    turns = False

    def place(self, x: Tensor, where: Tensor | None = None, first: int = 0) -> Tensor:
        """Act on tokens.  b n d -> b n (d + widens)"""
        return x

    def forward(self, x: Tensor, where: Tensor | None = None, first: int = 0) -> Tensor:
        """The same as `place`, as a call of the module, which is what hooks hear."""
        return self.place(x, where, first)

    def turn(self, x: Tensor, where: Tensor | None = None, first: int = 0) -> Tensor:
        """Act on queries or keys.  b h n c -> b h n c"""
        return x


class Nothing(Position):
    """No position: attention keeps every order."""

    keeps = EVERYTHING


def coordinates(
    where: Tensor | None, first: int, n: int, b: int, device: torch.device, name: str, axes: int = 1
) -> Tensor:
    """One coordinate a token, b|1 n, or one for each of several axes, b|1 n s"""
    if where is None:
        if axes > 1:
            raise RegardError(
                f"{name} reads places on {axes} axes, and only those on one are known by themselves; give where"
            )
        return torch.arange(first, first + n, device=device)[None]
    laid = spread(where, n, b, "where", device)
    if laid.shape[-1] != axes:
        on = "one axis" if axes == 1 else f"{axes} axes"
        raise RegardError(f"{name} reads places on {on}, got where with {laid.shape[-1]}")
    if axes == 1:
        return laid[..., 0]
    return laid


def _check_axes(channels: int, axes: int, name: str) -> None:
    """Each axis has an equal part of the channels, in pairs."""
    if axes < 1:
        raise RegardError(f"axes must be at least 1, got {axes}")
    if channels % (2 * axes):
        each = "" if axes == 1 else f" for each of {axes} axes"
        fits = channels + 2 * axes - channels % (2 * axes)
        raise RegardError(
            f"{name} must be even, two channels a pair{each}, got {channels}; the next one that fits is {fits}"
        )


def _exact(device: torch.device) -> torch.dtype:
    """Angles grow with the place, so they want float64 where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def _frequencies(channels: int, base: float, device: torch.device) -> Tensor:
    """base^(−2i/c), i from 0.  c/2"""
    return base ** (-torch.arange(0, channels, 2, device=device, dtype=_exact(device)) / channels)


class Code(Position):
    """A position that is a vector of `dim` numbers for each place, added to the token."""

    def __init__(self, dim: int, axes: int = 1) -> None:
        super().__init__()
        self.dim, self.axes = dim, axes

    def code(self, where: Tensor) -> Tensor:
        """b|1 n -> b|1 n dim, zeros where there is no place; with several axes b|1 n s -> b|1 n dim"""
        raise TypeError(f"{type(self).__name__} must define code(where)")

    def codes(self, x: Tensor, where: Tensor | None, first: int) -> Tensor:
        b, n = x.shape[:2]
        return self.code(coordinates(where, first, n, b, x.device, type(self).__name__, self.axes)).to(x.dtype)

    def place(self, x: Tensor, where: Tensor | None = None, first: int = 0) -> Tensor:
        if x.shape[-1] != self.dim:
            raise RegardError(f"{type(self).__name__} was made for tokens of width {self.dim}, got {x.shape[-1]}")
        return x + self.codes(x, where, first)


class Sinusoidal(Code):
    """code_2i = sin(where·base^(−2i/d)), code_2i+1 = cos(the same): added to the token.

    With several axes each has an equal part of the channels, one after another, and is coded there by itself.
    """

    def __init__(self, dim: int, *, axes: int = 1, base: float = 10_000.0) -> None:
        super().__init__(dim, axes)
        _check_axes(dim, axes, "dim")
        self.base = base

    def code(self, where: Tensor) -> Tensor:
        angles = where[..., None].to(_exact(where.device)) * _frequencies(
            self.dim // self.axes, self.base, where.device
        )
        code = torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)
        if self.axes != 1:
            code = code.flatten(-2)  # b n s d/s -> b n d
        if where.is_floating_point():
            return torch.nan_to_num(code, nan=0.0)
        return code


class Learned(Code):
    """A vector for each of `length` places, learned: added to the token. Other places have none, and
    raise. The table begins with `unused` rows that no place reads, as RoBERTa's does."""

    def __init__(self, length: int, dim: int, unused: int = 0) -> None:
        super().__init__(dim)
        self.unused = unused
        self.table = nn.Parameter(torch.randn(unused + length, dim) * 0.02)

    def code(self, where: Tensor) -> Tensor:
        if where.is_floating_point():
            rows = torch.nan_to_num(where, nan=0.0).round().long()
        else:
            rows = where.long()
        if where.device.type == "cpu" and not torch.compiler.is_compiling() and rows.numel():
            low, high, length = int(rows.min()), int(rows.max()), len(self.table) - self.unused
            if low < 0 or high >= length:
                raise RegardError(
                    f"place {low if low < 0 else high} is outside the {length} that were learned (0 to "
                    f"{length - 1}); use a longer table, or Rotary, ALiBi or Sinusoidal, which have no end"
                )
        code = self.table[rows + self.unused]
        if where.is_floating_point():
            return code.masked_fill(where.isnan()[..., None], 0)
        return code


class LearnedGrid(Code):
    """A vector for each place of a grid, learned: added to the token. `where` is row and column, b n 2.

    Whole numbers (an integer tensor) look vectors up. Places between, given as floats, get what a cubic curve
    through the learned vectors has there: an image of another resolution gives its places in units of the
    grid that was learned.
    """

    def __init__(self, sizes: tuple[int, int], dim: int) -> None:
        super().__init__(dim, axes=2)
        self.sizes = sizes
        self.table = nn.Parameter(torch.randn(sizes[0] * sizes[1], dim) * 0.02)

    def code(self, where: Tensor) -> Tensor:
        height, width = self.sizes
        if not where.is_floating_point():
            rows, columns = where.long().unbind(-1)
            looked = where.device.type == "cpu" and not torch.compiler.is_compiling() and where.numel() > 0
            if looked and (int(where.min()) < 0 or int(rows.max()) >= height or int(columns.max()) >= width):
                raise RegardError(
                    f"a place is outside the grid of {height} × {width} that was learned; give places of a "
                    f"larger grid in its units, as floats"
                )
            return self.table[rows * width + columns]
        lost = where.isnan().any(-1, keepdim=True)
        size = torch.tensor([height, width], dtype=where.dtype, device=where.device)
        # x first, −1 to 1 from border to border
        across = ((2 * where + 1) / size - 1).nan_to_num(0.0).flip(-1)
        grid = self.table.T.view(1, self.dim, height, width).expand(len(where), -1, -1, -1)
        # b d 1 n
        found = F.grid_sample(grid, across[:, None].to(grid.dtype), "bicubic", "border", align_corners=False)
        return found[:, :, 0].mT.masked_fill(lost, 0)


class Concatenated(Position):
    """[x ; code]: the code of another position beside the token instead of on top of it.  b n d -> b n (d +
    code's width)"""

    def __init__(self, of: Code) -> None:
        super().__init__()
        if not isinstance(of, Code):
            raise TypeError(f"Concatenated takes a position with a code (Sinusoidal, Learned), got {type(of).__name__}")
        self.of = of
        self.widens = of.dim

    def place(self, x: Tensor, where: Tensor | None = None, first: int = 0) -> Tensor:
        code = self.of.codes(x, where, first)
        return torch.cat((x, code.expand(*x.shape[:-1], -1)), -1)


class Spectrum(NamedTuple):
    """The frequencies of a Rotary: base^(−2i/c), i from 0, perhaps made slower."""

    base: float
    scaling: RopeScaling = NO_SCALING

    def frequencies(self, channels: int, device: torch.device) -> Tensor:
        """c/2"""
        return self.scaling.scale(_frequencies(channels, self.base, device), self.base)


class Rotary(Position):
    """Pairs of channels of q and k turned by where·base^(−2i/c): scores then depend on where_i − where_j
    only.

    Pair i is (i, i + c/2), the two halves, or (2i, 2i + 1) with `interleaved=True`; other people's weights
    need the one they were trained with. With several axes each has an equal part of the channels, one after
    another, and turns it by itself. `turned` < channels turns the first of them and leaves the others, as
    GPT-NeoX does. `scaling` makes turns slower for texts longer than those of the training.
    """

    keeps = Shifts()
    turns = True

    def __init__(
        self,
        channels: int,
        *,
        axes: int = 1,
        base: float = 10_000.0,
        interleaved: bool = False,
        turned: int | None = None,
        scaling: RopeScaling = NO_SCALING,
    ) -> None:
        super().__init__()
        self.turned = channels if turned is None else turned
        _check_axes(self.turned, axes, "channels")
        if not 0 < self.turned <= channels:
            raise RegardError(f"turned must be 1 to {channels}, the channels of a head, got {self.turned}")
        self.channels, self.axes, self.base, self.interleaved = channels, axes, base, interleaved
        self.spectrum = Spectrum(base, scaling)

    def turn(self, x: Tensor, where: Tensor | None = None, first: int = 0) -> Tensor:
        c = x.shape[-1]
        if c != self.channels:
            raise RegardError(f"Rotary was made for {self.channels} channels a head, got {c}")
        if self.turned < c:
            turned = self._turned(x[..., : self.turned], where, first)
            return torch.cat((turned, x[..., self.turned :]), -1)
        return self._turned(x, where, first)

    def _turned(self, x: Tensor, where: Tensor | None, first: int) -> Tensor:
        b, _, n, c = x.shape
        wide = torch.float32 if x.dtype in HALF else x.dtype
        if where is None and self.axes == 1 and not torch.compiler.is_compiling():
            cos, sin = _consecutive_turns(first, n, c, self.spectrum, x.device, wide, self.interleaved)
        elif where is None or not _repeats(where):
            cos, sin = turns_at(where, first, n, b, c, self.axes, self.spectrum, x.device, wide, self.interleaved)
        else:
            cos, sin = _kept_turns(
                where, where._version, n, b, c, self.axes, self.spectrum, x.device, wide, self.interleaved
            )
        given = (x.to(wide), cos, sin, self.interleaved, self.axes)
        # (the way through autograd takes longer than the turn itself of a single token)
        turned = Turn.apply(*given) if torch.is_grad_enabled() else Turn.forward(*given)
        return turned.to(x.dtype)


class Turn(torch.autograd.Function):
    """x ⊙ cos + swapped(x) ⊙ sin, where swapped exchanges the two of each pair and sin has a minus for the
    first of them.

    Its gradient turns back by the same angle, so it keeps nothing of x.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, axes: int) -> Tensor:
        return (x * cos).addcmul_(_swapped(x, interleaved, axes), sin)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, bool, int], output: Tensor) -> None:
        _, cos, sin, ctx.interleaved, ctx.axes = inputs
        ctx.save_for_backward(cos, sin)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None, None, None, None]:
        cos, sin = ctx.saved_tensors
        return ((dy * cos).addcmul_(_swapped(dy, ctx.interleaved, ctx.axes), sin, value=-1), None, None, None, None)


def _swapped(x: Tensor, interleaved: bool, axes: int = 1) -> Tensor:
    """The two channels of each pair exchanged, in each of `axes` equal parts.  ... c -> ... c"""
    if axes > 1 and not interleaved:
        return x.unflatten(-1, (axes, 2, -1)).flip(-2).flatten(-3)
    if interleaved:
        return x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    return x.roll(x.shape[-1] // 2, -1)


def _turns(
    where: Tensor, channels: int, spectrum: Spectrum, dtype: torch.dtype, interleaved: bool
) -> tuple[Tensor, Tensor]:
    """Cosine and signed sine for every channel.  b|1 n -> b|1 1 n c each"""
    angles = where[:, None, :, None].to(_exact(where.device)) * spectrum.frequencies(channels, where.device)
    if where.is_floating_point():
        angles = torch.nan_to_num(angles, nan=0.0)
    cos, sin = angles.cos(), angles.sin()
    if spectrum.scaling.amplitude != 1.0:
        cos, sin = cos * spectrum.scaling.amplitude, sin * spectrum.scaling.amplitude
    cos, sin = cos.to(dtype), sin.to(dtype)
    axis = -1 if interleaved else -2
    return torch.stack((cos, cos), axis).flatten(-2), torch.stack((-sin, sin), axis).flatten(-2)


def turns_at(
    where: Tensor | None,
    first: int,
    n: int,
    b: int,
    channels: int,
    axes: int,
    spectrum: Spectrum,
    device: torch.device,
    dtype: torch.dtype,
    interleaved: bool,
) -> tuple[Tensor, Tensor]:
    """`turns` at places given, with the channels of each axis one after another.   b|1 1 n c each"""
    places = coordinates(where, first, n, b, device, "Rotary", axes)
    if axes == 1:
        return _turns(places, channels, spectrum, dtype, interleaved)
    each = [_turns(places[..., i], channels // axes, spectrum, dtype, interleaved) for i in range(axes)]
    cos, sin = (torch.cat(parts, -1) for parts in zip(*each, strict=True))
    return cos, sin


def _repeats(where: Tensor) -> bool:
    """May what follows from these places be kept for the next layer, and nobody follows how it is made?"""
    followed = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    return not (followed or where.requires_grad or where.is_inference())


@lru_cache(maxsize=2)  # queries and keys of all layers have the same places, or a memory has others
def _kept_turns(
    where: Tensor,
    version: int,
    n: int,
    b: int,
    channels: int,
    axes: int,
    spectrum: Spectrum,
    device: torch.device,
    dtype: torch.dtype,
    interleaved: bool,
) -> tuple[Tensor, Tensor]:
    """`turns_at` places that are this very tensor, of this version: what is written into it has another."""
    with torch.inference_mode(False):  # what is kept must also serve a gradient later on
        return turns_at(where, 0, n, b, channels, axes, spectrum, device, dtype, interleaved)


@lru_cache(maxsize=16)
def _consecutive_turns(
    first: int, n: int, channels: int, spectrum: Spectrum, device: torch.device, dtype: torch.dtype, interleaved: bool
) -> tuple[Tensor, Tensor]:
    """`turns` for consecutive places, which every layer and every step asks for again."""
    with torch.inference_mode(False):  # what is kept must also serve a gradient later on
        return _turns(torch.arange(first, first + n, device=device)[None], channels, spectrum, dtype, interleaved)
