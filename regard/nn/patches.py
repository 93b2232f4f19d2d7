"""Patches: an image as a set of tokens, each a square of it, with row and column as its place."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.linear import Linear
from regard.shapes import expect_images
from regard.symmetry.groups import EVERYTHING


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
        return f"takes squares of {side} × {side} pixels, side by side, and weighs each pixel by its place in its square"

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
