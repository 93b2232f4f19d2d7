"""GroupCNN: a convolutional network whose filters come in all poses, so that turned images give the same prediction."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import Classes, Count, Depth, Kernel, Share, Size, Width, config
from regard.errors import RegardError
from regard.models.image_model import ImageModel
from regard.models.registered_model import Options
from regard.nn.group_conv import POSES, TURNS, GroupConvolution, PoseNorm, halve, pooled_poses
from regard.shapes import expect_images
from regard.symmetry.groups import Group, Shifts, Trivial, product


@config
class GroupCNNConfig:
    """A network of group convolutions."""  # the defaults are the P4CNN of Cohen and Welling for 28 × 28; a recipe has its own

    classes: Classes
    colours: Count = 1  # channels of an image
    size: Size = 28  # the sides of images in training; others are taken, too
    hidden: Width = 10  # channels of each layer, each in all poses
    depth: Depth = 7  # layers; the last one gives the classes
    kernel: Kernel = 3  # sides of a filter
    last: Kernel = 4  # of a filter of the last layer; 1: a linear map
    halve: tuple[Depth, ...] = (2,)  # sides are halved after these layers, counted from 1
    group: Literal["p1", "p4", "p4m"] = "p4"  # no turns (a plain network), quarter turns, turns and mirrors
    padding: Literal["circular", "zeros", "valid"] = "valid"  # what a filter sees beyond the border
    dropout: Share = 0.0  # share of channels dropped in training, after each layer

    def __post_init__(self) -> None:
        if any(layer >= self.depth for layer in self.halve):
            raise RegardError(f"names layers from 1 to {self.depth - 1}, got {self.halve}", option="halve")
        if self.padding != "valid" and not (self.kernel % 2 and self.last % 2):
            sides = f"kernel={self.kernel} and last={self.last}"
            raise RegardError(
                f"filters need odd sides unless padding is 'valid', got {sides}; last=3 is odd, last=1 linear"
            )
        least, lost = self.least()
        if self.size < least:
            raise RegardError(
                f"must be at least {least}: nothing of {self.size} is left after {self.depth} layers; {lost}",
                option="size",
            )

    def least(self) -> tuple[int, str]:
        """The smallest sides that leave something."""
        side = self.last if self.padding == "valid" else 1
        for i in range(self.depth - 1, 0, -1):
            if i in self.halve:
                side = side * 2
            side += self.kernel - 1 if self.padding == "valid" else 0
        return side, "take fewer layers, or padding='zeros'"


class GroupCNN(ImageModel):
    """Convolutions with filters in all poses, then the mean over places and the largest pose.   b c h w -> b classes

    Invariant under quarter turns (p4) and mirrors (p4m) of square images; with circular padding also under shifts, by
    multiples of 2 for each halving. Batch norm: in training an image is normed together with its batch, in eval it is alone.
    """

    Config = GroupCNNConfig
    TINY: ClassVar[Options] = dict(
        classes=5, colours=2, size=12, hidden=4, depth=3, last=1, group="p4m", padding="circular"
    )

    def __init__(self, config: GroupCNNConfig) -> None:
        super().__init__()
        self.config = config
        widths = [config.colours, *[config.hidden] * (config.depth - 1), config.classes]
        self.layers = nn.ModuleList(
            GroupConvolution(
                widths[i],
                widths[i + 1],
                config.last if i == config.depth - 1 else config.kernel,
                group=config.group,
                lifted=i > 0,
                padding=config.padding,
                bias=i == config.depth - 1,  # a norm takes the mean away, and brings its own
            )
            for i in range(config.depth)
        )
        poses = POSES[config.group]
        self.norms = nn.ModuleList(PoseNorm(config.hidden, poses) for _ in range(config.depth - 1))
        self.dropout = config.dropout

    @property
    def symmetry(self) -> Group:
        """What may be done to an image of the config's size so that the prediction stays."""
        step = 2 ** len(self.config.halve)
        around = self.config.padding == "circular" and self.config.size % step == 0
        return product(Shifts(step) if around else Trivial(), TURNS[self.config.group])

    def forward(self, x: Tensor) -> Tensor:
        _, _, h, w = expect_images(x, self.layers[0].weight, c=self.config.colours)
        least, advice = self.config.least()
        if min(h, w) < least:
            raise RegardError(f"images must have sides of at least {least}, got {h} × {w}; {advice}")
        for i, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=False), 1):
            x = F.relu(norm(layer(x)))
            if i in self.config.halve:
                x = halve(x)
            x = self.dropped(x)
        return pooled_poses(self.layers[-1](x).mean((-2, -1)), POSES[self.config.group])

    def dropped(self, x: Tensor) -> Tensor:
        """Whole channels are dropped, in all poses at once."""
        if not self.training or not self.dropout:
            return x
        whole = x.unflatten(1, (-1, POSES[self.config.group])).flatten(2, 3)  # b c (p h) w
        return F.dropout2d(whole, self.dropout).view(x.shape)
