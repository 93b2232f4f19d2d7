"""A model as a function of how much of each patch of an image is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from regard.recipes.images.model_input import ImageInput


class OfPatches(nn.Module):
    """How much of each patch is there, b n from 0 to 1 -> what the model returns for an image whose rest is
    grey.

    Grey is 0: the mean of what the model learned from, where its inputs are scaled to it.
    """

    patch: Tensor

    def __init__(self, model: nn.Module, given: ImageInput) -> None:
        super().__init__()
        self.model, self.given, self.pixels = model, given, given.inputs[given.pixels]
        down, across = (
            torch.arange(size) // (given.patch or -(-size // count))
            for size, count in zip(self.pixels.shape[-2:], given.grid, strict=True)
        )
        # h w: in which one each pixel is
        self.patch = (down[:, None] * given.grid[1] + across).to(self.pixels.device)

    def all_there(self) -> Tensor:
        """The image as it is.   1 n"""
        return self.pixels.new_ones(1, self.given.grid[0] * self.given.grid[1])

    def forward(self, there: Tensor) -> Any:
        return self.model(**self.given.with_pixels(self.pixels * there[:, None, self.patch]))
