"""ResNet-9: a residual network of nine layers that learns from small images in minutes, on a processor too.

Each stage is one convolution, the largest of each 2 × 2 places, and residual convolutions on the smaller map:
so most of the work is done on maps that are already small. Images are laid out with their channels last, the
order in which processors convolve fastest.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.config import Kernel, Width, config
from regard.errors import RegardError
from regard.models.convnets import ConvNetConfig
from regard.models.image_model import ImageModel
from regard.models.sample_inputs import build_seeded
from regard.nn.convolve import Convolution
from regard.shapes import expect_images
from regard.symmetry.groups import Group, Shifts, Trivial


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

    @classmethod
    def tiny(cls) -> tuple[Self, dict[str, Tensor]]:
        """A small one, and inputs for it: model(**inputs)."""
        config = ResNet9Config(
            classes=5, colours=2, size=12, stem=4, widths=(4, 8), residual=(1, 1), padding="circular"
        )
        model = build_seeded(cls, config)
        return model, model.sample_inputs()
