"""The backbones of an autoencoder: an encoder from an input to `outputs` numbers, and a decoder from a code back.

Each has `encode(x, real)` and `decode(z)`, and says by `keeps` which changes of an input leave its code as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.deep_sets import DeepSets, DeepSetsConfig
from regard.models.vit import ViT, ViTConfig
from regard.nn.block import Stack
from regard.nn.convolve import Convolution
from regard.symmetry.groups import Group, Permutations, Shifts, Trivial

KERNEL = 5  # pixels of the side of a filter
BLOB = 2.5  # s: how far a blob reaches, in pixels
SHARP = 4.0  # of the softmax at the beginning


class Body(nn.Module):
    """The base of bodies. config: that of an autoencoder; outputs: numbers that the encoder gives"""

    keeps: Group = Trivial()

    def encode(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """b shape -> b outputs"""
        raise NotImplementedError(f"{type(self).__name__} must define encode()")

    def decode(self, z: Tensor) -> Tensor:
        """b latent -> b shape"""
        raise NotImplementedError(f"{type(self).__name__} must define decode()")


# ── a body whose code says where things are in an image: the expected place of each channel
#
#     p_k = softmax over all places of channel k;   code = Σ p_k(x, y) · (x, y), x and y from −1 to 1
#     image = convolutions of blobs exp(−|place − code_k|² / 2s²), and a ground that is the same for all
#
# So a thing that moves by a fraction of a pixel moves its code by as much, wherever it is (a spatial autoencoder). For
# scenes in which the same few things move; a code of the mean of all places would not know where they are.


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
        down, across = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
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


# ── a body for each kind of input


def layers(*widths: int) -> nn.Sequential:
    """Linear maps with a relu between."""
    found: list[nn.Module] = []
    for a, b in pairwise(widths):
        found += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*found[:-1])


class MLPBody(Body):
    """All numbers in one row, linear maps with relus, and the same backwards. Every number has its own weights."""

    def __init__(self, config: Any, outputs: int) -> None:
        super().__init__()
        self.shape = config.shape
        inside = [config.hidden] * config.depth
        self.encoder = layers(prod(config.shape), *inside, outputs)
        self.decoder = layers(config.latent, *inside, prod(config.shape))

    def encode(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        return self.encoder(x.flatten(1))

    def decode(self, z: Tensor) -> Tensor:
        return self.decoder(z).unflatten(-1, self.shape)


class ConvBody(Body):
    """Convolutions that halve the sides `depth` times, a linear layer, and the same backwards.

    With zeros beyond the border, a linear map reads every place, and the code knows where everything is. With
    "circular", an image goes on around its end, and the code is made of the mean over all places: shifts by
    whole steps of the coarsest layer leave it as it is.

    A code that is a map has the same few numbers for each place of the coarsest layer, and no layer that reads
    all places: it is large, and keeps details.
    """

    def __init__(self, config: Any, outputs: int) -> None:
        super().__init__()
        colours, self.size, _ = config.shape
        widths = [config.width * 2**i for i in range(config.depth)]
        self.side = -(-self.size // 2**config.depth)
        self.mean = config.padding == "circular"
        self.down = nn.ModuleList(
            Convolution(a, b, 3, stride=2, padding=config.padding) for a, b in pairwise([colours, *widths])
        )
        area = self.side**2
        self.encoder: nn.Module
        self.decoder: nn.Module
        if config.code == "map":
            self.mean = False
            self.encoder = _by_place(widths[-1], config.hidden, outputs // area, self.side)
            self.decoder = _by_place(config.latent // area, config.hidden, widths[-1], self.side)
        else:
            self.encoder = layers(widths[-1] * (1 if self.mean else area), config.hidden, outputs)
            self.decoder = layers(config.latent, config.hidden, widths[-1] * area)
        back = [*reversed(widths), colours]
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 4, stride=2, padding=1) for a, b in pairwise(back))
        step = 2**config.depth
        if self.mean and self.size % step == 0:
            self.keeps: Group = Shifts(step)

    def encode(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        for convolution in self.down:
            x = F.relu(convolution(x))
        if self.mean:
            return self.encoder(x.mean((-2, -1)))
        return self.encoder(x.flatten(1))

    def decode(self, z: Tensor) -> Tensor:
        before = z.shape[:-1]
        x = F.relu(self.decoder(z.reshape(-1, z.shape[-1]))).unflatten(-1, (-1, self.side, self.side))
        for convolution in self.up:
            x = convolution(x if convolution is self.up[0] else F.relu(x))
        return x[..., : self.size, : self.size].unflatten(0, before)


def _by_place(inputs: int, hidden: int, outputs: int, side: int) -> nn.Sequential:
    """The same small network at each place, which sees its neighbours.   b (c s s) -> b (e s s)"""
    return nn.Sequential(
        nn.Unflatten(-1, (inputs, side, side)),
        Convolution(inputs, hidden, 3, padding="zeros"),
        nn.ReLU(),
        Convolution(hidden, outputs, 1),
        nn.Flatten(),
    )


class ViTBody(Body):
    """A Vision Transformer whose head gives the code; the code and learned places, attending to each other, give
    the patches back."""

    def __init__(self, config: Any, outputs: int) -> None:
        super().__init__()
        self.colours, self.size, _ = config.shape
        self.patch = config.patch
        self.encoder = ViT(encoder_config(config, outputs))
        self.across = -(-self.size // self.patch)
        self.start = nn.Linear(config.latent, config.dim)
        self.places = nn.Parameter(torch.randn(self.across**2, config.dim) * 0.02)
        self.stack = Stack(max(1, config.depth // 2), config.dim, config.heads)
        self.end = nn.Linear(config.dim, self.colours * self.patch**2)

    def encode(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        return self.encoder(x)

    def decode(self, z: Tensor) -> Tensor:
        before = z.shape[:-1]
        tokens = self.start(z.reshape(-1, 1, z.shape[-1])) + self.places.to(z.dtype)
        x = self.end(self.stack(tokens))  # b n (c p p)
        x = x.unflatten(-1, (self.colours, self.patch, self.patch)).unflatten(1, (self.across, self.across))
        x = x.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)  # b c h w
        return x[..., : self.size, : self.size].unflatten(0, before)


def encoder_config(config: Any, outputs: int) -> ViTConfig:
    """The Vision Transformer that reads the images of an autoencoder."""
    colours, size, _ = config.shape
    return ViTConfig(
        classes=outputs,
        colours=colours,
        size=size,
        patch=config.patch,
        dim=config.dim,
        depth=config.depth,
        heads=config.heads,
        position="rotary",
        pool="mean",
    )


class SetBody(Body):
    """DeepSets gives the code of a point cloud, whatever the order of its points; an MLP gives points back."""

    keeps = Permutations()

    def __init__(self, config: Any, outputs: int) -> None:
        super().__init__()
        self.shape = config.shape
        self.encoder = DeepSets(
            DeepSetsConfig(
                features=config.shape[-1], outputs=outputs, hidden=config.hidden, depth=config.depth, pool="max"
            )
        )
        self.decoder = layers(config.latent, *[config.hidden] * config.depth, prod(config.shape))

    def encode(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        return self.encoder(x, real=real)

    def decode(self, z: Tensor) -> Tensor:
        return self.decoder(z).unflatten(-1, self.shape)


BODIES: dict[str, Callable[[Any, int], Body]] = {
    "mlp": MLPBody,
    "conv": ConvBody,
    "vit": ViTBody,
    "set": SetBody,
    "spatial": SpatialBody,
}
