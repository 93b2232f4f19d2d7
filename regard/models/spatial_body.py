"""A body of autoencoders whose code says where things are in an image: the expected place of each channel.

    p_k = softmax over all places of channel k;   code = Σ p_k(x, y) · (x, y), x and y from −1 to 1
    image = convolutions of blobs exp(−|place − code_k|² / 2s²), and a ground that is the same for all

So a thing that moves by a fraction of a pixel moves its code by as much, wherever it is (a spatial autoencoder). For
scenes in which the same few things move; a code of the mean of all places would not know where they are.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from regard.models.body import Body
from regard.nn.convolve import Convolution

KERNEL = 5  # pixels of the side of a filter
BLOB = 2.5  # s: how far a blob reaches, in pixels
SHARP = 4.0  # of the softmax at the beginning


class SpatialBody(Body):
    """Convolutions, a softmax over places, and blobs at the expected ones.   b c h w -> b outputs

    Half of a code are the places across, the other half those down.
    """

    grid: Tensor

    def __init__(self, config: Any, outputs: int) -> None:
        super().__init__()
        colours, height, width = config.shape
        self.points = config.latent // 2
        inside = [config.width] * config.depth
        self.encoder = _convolutions(colours, *inside, self.points)
        self.sharp = nn.Parameter(torch.full((self.points, 1), SHARP).log())
        self.variance: nn.Module | None = None
        if outputs > config.latent:
            self.variance = nn.Linear(config.latent, outputs - config.latent)
        self.decoder = _convolutions(self.points, *inside, colours)
        self.ground = nn.Parameter(torch.zeros(colours, height, width))
        down, across = torch.meshgrid(
            torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij"
        )
        self.register_buffer("grid", torch.stack((across, down)).flatten(1), persistent=False)  # 2 (h w)
        # pixels of one unit of a code, across and down
        self.pixels = ((width - 1) / 2, (height - 1) / 2)

    def encode(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        maps = self.encoder(x).flatten(2) * self.sharp.exp()  # b k (h w)
        places = maps.softmax(-1) @ self.grid.T  # b k 2
        code = places.transpose(1, 2).flatten(1)
        if self.variance is None:
            return code
        return torch.cat((code, self.variance(code)), -1)

    def decode(self, z: Tensor) -> Tensor:
        before = z.shape[:-1]
        across, down = z.reshape(-1, z.shape[-1]).chunk(2, -1)  # b k
        squares = ((across[..., None] - self.grid[0]) * self.pixels[0]).square()
        squares = squares + ((down[..., None] - self.grid[1]) * self.pixels[1]).square()
        blobs = torch.exp(-squares / (2 * BLOB**2)).unflatten(-1, self.ground.shape[1:])
        return (self.decoder(blobs) + self.ground).unflatten(0, before)


def _convolutions(*channels: int) -> nn.Sequential:
    """Convolutions that keep the sides, with a relu between."""
    found: list[nn.Module] = []
    for a, b in pairwise(channels):
        found += [Convolution(a, b, KERNEL, padding="zeros"), nn.ReLU()]
    return nn.Sequential(*found[:-1])
