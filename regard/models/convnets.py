"""Convolutional networks for small images: LeNet, ResNet, DenseNet and ResNet-9.

ResNet and DenseNet have batch norms: in training an image is normed together with its batch, in eval each
stands alone. What they keep of shifts follows from padding and stride: around the end ("circular") they keep
shifts by whole steps of the coarsest layer, and the mean over all places at the end makes of that a
prediction that stays. With zeros beyond the border they keep nothing exactly.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.config import Classes, Count, Depth, Kernel, Share, Size, Width, config
from regard.errors import RegardError
from regard.models.image_model import ImageModel
from regard.models.registered_model import Options
from regard.nn.convolve import Convolution
from regard.shapes import expect_images
from regard.symmetry.groups import Group, Shifts, Trivial


@config
class ConvNetConfig:
    """Settings of all convolutional networks."""

    classes: Classes
    colours: Count = 1  # channels of an image
    size: Size = 28  # the sides of images in training


def _around(config: ResNetConfig | DenseNetConfig) -> Group:
    """Shifts by whole steps of the coarsest layer, for images that go on around their end and have whole
    steps."""
    step = 2 ** (len(config.blocks) - 1)
    if config.padding == "circular" and config.size % step == 0:
        return Shifts(step)
    return Trivial()


# ---- LeNet


@config
class LeNetConfig(ConvNetConfig):
    """LeNet, a little wider than it was in 1998."""

    size: Annotated[int, Field(ge=4, le=2**20)] = 28  # the sides of images in training; they are halved twice
    widths: tuple[Width, Width] = (32, 64)  # channels of the two convolutions
    hidden: Width = 128  # channels of the layer between
    dropout: Share = 0.25  # share of channels dropped in training, before both linear layers


class LeNet(ImageModel):
    """Twice a convolution, relu and the largest of each 2 × 2, then two linear layers.   b c h w -> b classes

    The convolutions know shifts; the linear layers have a weight for each place, and forget them. Images of
    one size only.
    """

    Config = LeNetConfig
    TINY: ClassVar[Options] = dict(classes=5, colours=2, size=12, widths=(4, 8), hidden=16)

    def __init__(self, config: LeNetConfig) -> None:
        super().__init__()
        self.config: LeNetConfig = config
        first, second = config.widths
        self.first = Convolution(config.colours, first, 5, padding="zeros")
        self.second = Convolution(first, second, 5, padding="zeros")
        side = config.size // 2 // 2
        self.between = nn.Linear(second * side * side, config.hidden)
        self.head = nn.Linear(config.hidden, config.classes)
        self.dropout = Dropout(config.dropout)

    def features(self, x: Tensor) -> Tensor:
        """What the head reads.   b c h w -> b d"""
        expect_images(x, self.first.weight, c=self.config.colours, h=self.config.size, w=self.config.size)
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.dropout(F.relu(self.between(self.dropout(x.flatten(1)))))


# ---- ResNet


@config
class ResNetConfig(ConvNetConfig):
    """A residual network for small images."""

    width: Width = 32  # channels of the first blocks; twice as many each time the sides are halved
    # residual blocks; sides are halved between the groups
    blocks: Annotated[tuple[Depth, ...], Field(min_length=1)] = (2, 2, 2)
    padding: Literal["circular", "zeros"] = "zeros"  # what a filter sees beyond the border


class Residual(nn.Module):
    """z + f(z), f = conv ∘ relu ∘ norm twice over; where sides are halved, a 1 × 1 convolution of z.
    b c h w -> b e h' w'"""

    def __init__(self, inputs: int, outputs: int, stride: int, padding: Literal["circular", "zeros"]) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.conv1 = Convolution(inputs, outputs, stride=stride, padding=padding, bias=False)
        self.conv2 = Convolution(outputs, outputs, padding=padding, bias=False)
        same = inputs == outputs and stride == 1
        if same:
            self.short = None
        else:
            self.short = Convolution(inputs, outputs, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(x))
        short = x if self.short is None else self.short(y)
        return short + self.conv2(F.relu(self.norm2(self.conv1(y))))


class ResNet(ImageModel):
    """Residual blocks, halving the sides between groups, then the mean over all places.
    b c h w -> b classes"""

    Config = ResNetConfig
    TINY: ClassVar[Options] = dict(classes=5, colours=2, size=12, width=4, blocks=(1, 1), padding="circular")

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.config: ResNetConfig = config
        self.stem = Convolution(config.colours, config.width, padding=config.padding, bias=False)
        blocks, width = [], config.width
        for group, count in enumerate(config.blocks):
            for i in range(count):
                halves = group > 0 and i == 0
                blocks.append(Residual(width, width * 2 if halves else width, 2 if halves else 1, config.padding))
                if halves:
                    width = width * 2
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.BatchNorm2d(width)
        self.head = nn.Linear(width, config.classes)

    @property
    def symmetry(self) -> Group:
        return _around(self.config)

    def features(self, x: Tensor) -> Tensor:
        """What the head reads.   b c h w -> b d"""
        expect_images(x, self.stem.weight, c=self.config.colours)
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return F.relu(self.norm(x)).mean((-2, -1))


# ---- DenseNet


@config
class DenseNetConfig(ConvNetConfig):
    """A densely connected network for small images."""

    growth: Width = 12  # channels that each layer adds
    # layers; channels and sides are halved between the groups
    blocks: Annotated[tuple[Depth, ...], Field(min_length=1)] = (6, 6, 6)
    padding: Literal["circular", "zeros"] = "zeros"  # what a filter sees beyond the border


class Dense(nn.Module):
    """[z, f(z)], f = conv ∘ relu ∘ norm: every later layer sees what all before it gave.
    b c h w -> b (c + growth) h w"""

    def __init__(self, inputs: int, growth: int, padding: Literal["circular", "zeros"]) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.conv = Convolution(inputs, growth, padding=padding, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((x, self.conv(F.relu(self.norm(x)))), 1)


class Halve(nn.Module):
    """Half of the channels, by a 1 × 1 convolution, and the mean of each 2 × 2 places.
    b c h w -> b c/2 h/2 w/2"""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.conv = Convolution(inputs, inputs // 2, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(self.conv(F.relu(self.norm(x))), 2)


class DenseNet(ImageModel):
    """Layers that add channels to all before them, then the mean over all places.   b c h w -> b classes"""

    Config = DenseNetConfig
    TINY: ClassVar[Options] = dict(classes=5, colours=2, size=12, growth=4, blocks=(2, 2), padding="circular")

    def __init__(self, config: DenseNetConfig) -> None:
        super().__init__()
        self.config: DenseNetConfig = config
        width = 2 * config.growth
        self.stem = Convolution(config.colours, width, padding=config.padding, bias=False)
        layers: list[nn.Module] = []
        for group, count in enumerate(config.blocks):
            if group:
                layers.append(Halve(width))
                width //= 2
            for _ in range(count):
                layers.append(Dense(width, config.growth, config.padding))
                width += config.growth
        self.layers = nn.ModuleList(layers)
        self.norm = nn.BatchNorm2d(width)
        self.head = nn.Linear(width, config.classes)

    @property
    def symmetry(self) -> Group:
        return _around(self.config)

    def features(self, x: Tensor) -> Tensor:
        """What the head reads.   b c h w -> b d"""
        _, _, height, width = expect_images(x, self.stem.weight, c=self.config.colours)
        least = 2 ** (len(self.config.blocks) - 1)
        if min(height, width) < least:
            raise RegardError(
                f"images must have sides of at least {least}, got {height} × {width}: they are halved so often"
            )
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return F.relu(self.norm(x)).mean((-2, -1))


# ── ResNet-9 learns from small images in minutes, on a processor too. Each stage is one convolution, the largest of each 2 × 2
# places, and residual convolutions on the smaller map: so most of the work is done on maps that are already small. Images are
# laid out with their channels last, the order in which processors convolve fastest.


@config
class ResNet9Config(ConvNetConfig):
    """A residual network of nine layers."""

    stem: Width = 24  # channels of the first convolution
    stride: Kernel = 1  # of the first convolution: larger images are looked at in steps of this many pixels
    # channels of each stage; each stage halves the sides
    widths: Annotated[tuple[Width, ...], Field(min_length=1)] = (32, 64, 128)
    # residual convolutions of each stage
    residual: tuple[Annotated[int, Field(ge=0, le=512)], ...] = (1, 1, 2)
    padding: Literal["circular", "zeros"] = "zeros"  # what a filter sees beyond the border

    def __post_init__(self) -> None:
        if len(self.residual) != len(self.widths):
            raise RegardError(
                f"must have a number for each of the {len(self.widths)} stages of widths={self.widths}, got {self.residual}",
                option="residual",
            )
        if self.stride > self.size:
            raise RegardError(
                f"must be at most size={self.size}, the side of the images, got {self.stride}", option="stride"
            )


class Stage(nn.Module):
    """z = relu(norm(max of 2 × 2 of conv(x))), then z + relu(norm(conv(z))) for each residual convolution.
    b c h w -> b e ⌈h/2⌉ ⌈w/2⌉"""

    def __init__(self, inputs: int, outputs: int, residual: int, padding: Literal["circular", "zeros"]) -> None:
        super().__init__()
        self.conv = Convolution(inputs, outputs, padding=padding, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.convs = nn.ModuleList(Convolution(outputs, outputs, padding=padding, bias=False) for _ in range(residual))
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(residual))

    def forward(self, x: Tensor) -> Tensor:
        # an odd side keeps its last row and column, and a side of 1 stays
        x = F.relu(self.norm(F.max_pool2d(self.conv(x), 2, ceil_mode=True)))
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + F.relu(norm(conv(x)))
        return x


class ResNet9(ImageModel):
    """A convolution, stages that each halve the sides, then the mean over all places.   b c h w -> b classes"""

    Config = ResNet9Config
    TINY: ClassVar[Options] = dict(
        classes=5, colours=2, size=12, stem=4, widths=(4, 8), residual=(1, 1), padding="circular"
    )

    def __init__(self, config: ResNet9Config) -> None:
        super().__init__()
        self.config: ResNet9Config = config
        self.stem = Convolution(
            config.colours,
            config.stem,
            config.stride // 2 * 2 + 3,  # filters overlap
            stride=config.stride,
            padding=config.padding,
            bias=False,
        )
        self.norm = nn.BatchNorm2d(config.stem)
        widths = (config.stem, *config.widths)
        self.stages = nn.ModuleList(
            Stage(inputs, outputs, residual, config.padding)
            for inputs, outputs, residual in zip(widths, config.widths, config.residual, strict=False)
        )
        self.head = nn.Linear(config.widths[-1], config.classes)

    @property
    def symmetry(self) -> Group:
        """Shifts by whole steps of the last stage, for images that go on around their end and have whole
        steps."""
        step = self.config.stride * 2 ** len(self.config.widths)
        if self.config.padding == "circular" and self.config.size % step == 0:
            return Shifts(step)
        return Trivial()

    def features(self, x: Tensor) -> Tensor:
        """What the head reads.   b c h w -> b d"""
        expect_images(x, self.stem.weight, c=self.config.colours)
        x = x.contiguous(memory_format=torch.channels_last)
        x = F.relu(self.norm(self.stem(x)))
        for stage in self.stages:
            x = stage(x)
        return x.mean((-2, -1))
