"""A model as a function of one input: the others are fixed. What contributions are asked of."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.given import Given


class OfTokens(nn.Module):
    """ids b n -> what the model returns."""

    def __init__(self, model: nn.Module, given: Given) -> None:
        super().__init__()
        self.model, self.given = model, given

    def forward(self, ids: Tensor) -> Any:
        return self.model(**self.given.with_ids(ids))


class OfThings(nn.Module):
    """Things b n d -> what the model returns for the set of them."""

    def __init__(self, model: nn.Module, given: Given) -> None:
        super().__init__()
        self.model, self.given = model, given

    def forward(self, x: Tensor) -> Any:
        assert self.given.cloud is not None
        return self.model(**self.given.with_things(x))


class OfPatches(nn.Module):
    """Patches b n (c·p·q) -> what the model returns for the picture that they make."""

    def __init__(self, model: nn.Module, grid: tuple[int, int], shape: tuple[int, int, int], name: str) -> None:
        super().__init__()
        self.model, self.grid, self.shape, self.name = model, grid, shape, name

    def cut(self, pixels: Tensor) -> Tensor:
        """b c h w -> b n (c·p·q)"""
        (rows, columns), (c, h, w) = self.grid, self.shape
        parts = pixels.reshape(-1, c, rows, h // rows, columns, w // columns)
        return parts.permute(0, 2, 4, 1, 3, 5).reshape(len(pixels), rows * columns, -1)

    def forward(self, patches: Tensor) -> Any:
        (rows, columns), (c, h, w) = self.grid, self.shape
        parts = patches.reshape(-1, rows, columns, c, h // rows, w // columns)
        return self.model(**{self.name: parts.permute(0, 3, 1, 4, 2, 5).reshape(-1, c, h, w)})
