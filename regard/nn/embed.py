"""Embeddings: what the tokens are becomes vectors. Where they are comes in later, with a position or a
bias."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.positions import coordinates
from regard.errors import RegardError
from regard.nn.linear import Linear
from regard.nn.padding import check_real, zero_padding
from regard.shapes import expect, expect_images
from regard.symmetry.groups import EVERYTHING


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
            raise RegardError(f"ids must be int64 or int32, got {ids.dtype}; use ids.long() if they are whole numbers")
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


# ── patches: an image as a set of tokens, each a square of it, with row and column as its place


class PatchEmbedding(nn.Module):
    """θᵀx + b for each square of `patch` × `patch` pixels, all its numbers in one row.   b c h w -> b n d

    Patches come row by row. A side that is no multiple of `patch` is filled up with zeros at its end. Each
    patch by itself, so every order of the patches is kept.
    """

    keeps = EVERYTHING

    def __init__(self, colours: int, patch: int, dim: int) -> None:
        super().__init__()
        if patch < 1:
            raise RegardError(f"patch must be at least 1, got {patch}")
        self.colours, self.patch, self.dim = colours, patch, dim
        self.linear = Linear(colours * patch * patch, dim)

    @property
    def does(self) -> str:
        """In a sentence, for `check`."""
        side = self.patch
        return (
            f"takes squares of {side} × {side} pixels, side by side, and weighs each pixel by its place in its square"
        )

    def forward(self, x: Tensor) -> Tensor:
        expect_images(x, self.linear.weight, c=self.colours)
        return self.linear(cut(x, self.patch))

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """How many patches there are in an image: rows and columns."""
        return -(-height // self.patch), -(-width // self.patch)


def cut(x: Tensor, patch: int) -> Tensor:
    """Squares of pixels, row by row, each with its numbers in one row.   b c h w -> b n (c p p)"""
    height, width = x.shape[-2:]
    if height % patch or width % patch:
        x = F.pad(x, (0, -width % patch, 0, -height % patch))
    x = x.unflatten(3, (-1, patch)).unflatten(2, (-1, patch))  # b c rows p columns p
    return x.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def grid_places(grid: tuple[int, int], like: tuple[int, int], device: torch.device) -> Tensor:
    """Row and column of each patch, in units of a grid `like` the one a model was trained on.   1 n 2

    Whole numbers if the grids are the same. Else the two lie over each other from border to border, and
    places fall between.
    """
    axes = []
    for size, known in zip(grid, like, strict=True):
        places = torch.arange(size, device=device)
        axes.append(places if grid == like else (places + 0.5) * (known / size) - 0.5)
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, 1)[None]


# ── a token together with those beside it


def gather_neighbours(x: Tensor, reach: int, where: Tensor | None, real: Tensor | None) -> Tensor:
    """The vectors of a token and of `reach` tokens on each side, side by side.   b n d -> b n (2·reach+1)·d

    Neighbours are found by their places, one place on at a time, not by their slots: tokens may be given in any
    order with their places, and padding does not matter. Where a place is empty, it and all beyond it are zeros.
    """
    if where is None:
        return torch.cat([_slide(x, k) for k in range(-reach, reach + 1)], -1)
    b, n, d = x.shape
    places = coordinates(where, 0, n, b, x.device, "neighbours").expand(b, n).double()
    places = places.masked_fill(places.isnan(), torch.inf)
    if real is not None:
        places = places.masked_fill(~real, torch.inf)
    sorted_places, order = places.sort(dim=1, stable=True)
    line = x.gather(1, order[..., None].expand(b, n, d))
    follows = F.pad(sorted_places[:, 1:] - sorted_places[:, :-1] == 1, (1, 0))  # b n: right after the one before
    before, unbroken = [line], torch.ones_like(follows)
    after, open_on = [], torch.ones_like(follows)
    for k in range(1, reach + 1):
        unbroken = unbroken & _slide(follows, -(k - 1))
        before.insert(0, _slide(line, -k) * unbroken[..., None])
        open_on = open_on & _slide(follows, k)
        after.append(_slide(line, k) * open_on[..., None])
    both = torch.cat((*before, *after), -1)
    return torch.zeros_like(both).scatter(1, order[..., None].expand_as(both), both)


def _slide(x: Tensor, k: int) -> Tensor:
    """y_i = x_(i+k) along the second axis; zeros (or False) beyond the ends."""
    n = x.shape[1]
    if abs(k) >= n:
        return torch.zeros_like(x)
    empty = torch.zeros_like(x[:, : abs(k)])
    if k < 0:
        return torch.cat((empty, x[:, :k]), 1)
    return torch.cat((x[:, k:], empty), 1)
