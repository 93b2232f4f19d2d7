"""Convolution as what it is: one small filter, used at every place. As a matrix it is constant along its
diagonals.

`taps` says which place of the input each tap of the filter reads at each place of the output. Everything
follows from this one table: the matrix of a filter (W, with conv x = W x) and the matrix of the data (X, with
conv x = w X). Around the end the matrix is circulant, with zeros beyond it is Toeplitz.

As in torch the filter is not turned round (that is correlation): the circulant matrix of a textbook is that
of w backwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.errors import RegardError
from regard.nn.norm import RMSNorm
from regard.nn.padding import zero_padding
from regard.shapes import expect
from regard.symmetry.groups import Group, Shifts, Trivial

Padding = Literal["circular", "zeros", "valid"]
PADDINGS = ("circular", "zeros", "valid")
NOTHING = -1  # the place of what is beyond the border


def taps(sizes: Sequence[int], kernel: Sequence[int], padding: Padding = "circular") -> Tensor:
    """The number of the input's place that tap t reads at place o of the output, −1 for a zero beyond the
    border.   o t

    Places are numbered row by row, and so are taps. The middle tap reads the place itself; with "valid" there
    is output only where all taps find something, and the first tap reads the place itself.
    """
    check(padding, kernel)
    inside = padding == "valid"
    ends = [n - k + 1 if inside else n for n, k in zip(sizes, kernel, strict=True)]
    if min(ends, default=1) < 1:
        raise RegardError(f"a filter of {tuple(kernel)} does not fit into {tuple(sizes)}; take a smaller one")
    places = torch.tensor(list(product(*map(range, ends))))[:, None]  # o 1 s
    offsets = torch.tensor(
        [
            [t - (0 if inside else k // 2) for t, k in zip(tap, kernel, strict=True)]
            for tap in product(*map(range, kernel))
        ]
    )  # t s
    read, size = places + offsets, torch.tensor(list(sizes))
    beyond = ((read < 0) | (read >= size)).any(-1)
    strides = torch.tensor([int(torch.tensor(sizes[i + 1 :]).prod()) for i in range(len(sizes))])
    numbers = (read % size * strides).sum(-1)
    if padding == "circular":
        return numbers
    return numbers.masked_fill(beyond, NOTHING)


def check(padding: str, kernel: Sequence[int]) -> None:
    if padding not in PADDINGS:
        raise RegardError(f"padding must be one of {', '.join(PADDINGS)}, got {padding!r}")
    if padding != "valid" and not all(k % 2 for k in kernel):
        raise RegardError(
            f"a filter with a middle has odd sides, got {tuple(kernel)}; take odd ones, or padding='valid'"
        )


def filter_matrix(weight: Tensor, sizes: Sequence[int], padding: Padding = "circular") -> Tensor:
    """The matrix of a filter: conv x = W x, with x and the output written as one row of numbers.
    e c k… -> (e o) (c n)

    Around the end it commutes with shifts, W S = S W.
    """
    e, c, *kernel = _with_places(weight, "weight", "e c k…")
    if not isinstance(sizes, Sequence) or len(sizes) != len(kernel):
        raise RegardError(
            f"sizes must be a side for each of a filter's {tuple(kernel)}, as {(9,) * len(kernel)}, got {sizes}"
        )
    read = taps(sizes, kernel, padding).to(weight.device)
    n_out, n_in = len(read), int(torch.tensor(list(sizes)).prod())
    matrix = weight.new_zeros(n_out, n_in + 1, e, c)  # one column more, for what is beyond the border
    rows = torch.arange(n_out, device=weight.device)[:, None].expand_as(read)
    each = weight.flatten(2).permute(2, 0, 1).expand(n_out, -1, -1, -1)  # o t e c
    # a long filter comes around to itself
    matrix = matrix.index_put((rows, read % (n_in + 1)), each, accumulate=True)
    return matrix[:, :n_in].permute(2, 0, 3, 1).reshape(e * n_out, c * n_in)


def data_matrix(x: Tensor, kernel: Sequence[int], padding: Padding = "circular") -> Tensor:
    """The matrix of the data: conv x = w X, with w one row of numbers for each output channel.
    b c n… -> b (c t) o"""
    sizes = _with_places(x, "x", "b c n…")[2:]
    if not isinstance(kernel, Sequence) or len(kernel) != len(sizes):
        raise RegardError(
            f"kernel must be a side for each of {tuple(sizes)}, such as {(3,) * len(sizes)}, got {kernel}"
        )
    read = taps(sizes, kernel, padding).to(x.device)
    flat = torch.nn.functional.pad(x.flatten(2), (0, 1))  # the last place is beyond the border
    return flat[..., read.T % flat.shape[-1]].flatten(1, 2)


def _with_places(x: Tensor, name: str, pattern: str) -> Sequence[int]:
    """The sizes of what has channels, and at least one axis of places."""
    if x.dim() < 3:
        raise RegardError(f"{name} must be '{pattern}', three axes or more, got shape {tuple(x.shape)}")
    return x.shape


def shift_matrix(sizes: Sequence[int], by: Sequence[int]) -> Tensor:
    """S with (S x)_i = x_(i − by), around the end, for x written as one row of numbers.   n n"""
    numbers = torch.arange(int(torch.tensor(list(sizes)).prod())).view(*sizes)
    order = numbers.roll(tuple(by), tuple(range(len(sizes)))).flatten()
    return torch.eye(len(order))[order]


class Convolution(nn.Conv2d):
    """out_o = Σ_t w_t x_(o+t) + bias, with the same w at every place.   b c h w -> b e h' w'

    It commutes with every shift where the image goes on around its end ("circular"). "zeros" breaks that at
    the border, where the filter sees the zeros, and "valid" gives fewer places than came in. A stride looks
    only at every so many places, and keeps the shifts by multiples of it, on sides that are multiples of it.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 3,
        *,
        stride: int = 1,
        padding: Padding = "circular",
        bias: bool = True,
    ) -> None:
        check(padding, (kernel, kernel))
        if padding == "circular":
            mode: Literal["circular", "zeros"] = "circular"
        else:
            mode = "zeros"
        width = 0 if padding == "valid" else kernel // 2
        super().__init__(inputs, outputs, kernel, stride=stride, padding=width, bias=bias, padding_mode=mode)
        self.keeps: Group = kept(padding, stride, kernel)

    def forward(self, x: Tensor) -> Tensor:
        expect(x, "b c h w", name="x", c=self.in_channels)
        return super().forward(x)


def kept(padding: Padding, stride: int, kernel: int) -> Group:
    """The shifts of an image that a convolution commutes with; its output is coarser by the stride."""
    return Shifts(stride) if padding == "circular" or kernel == 1 else Trivial()


# ── gated convolution over a sequence: each place reads its neighbours, and a gate says how much of it counts


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
