"""Images a little changed, a whole batch at once, on the device that learns: what a label survives.

All is drawn from torch's generator, which the trainer seeds by (seed, step). Pixels are numbers from 0,
black, to 1, white, and so is what is made of them.   b c h w
"""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from regard.config import Fraction, config


@config
class AugmentConfig:
    """How images are changed in training; 0 is not at all."""

    # moved by up to this share of the side, by whole pixels; the border mirrors what is beyond (0.1 is usual)
    crop: Fraction = 0.0
    zoom: Fraction = 0.0  # made larger or smaller by up to this share (0.1 is usual)
    flip: bool = False  # half of them mirrored, left and right (for photos; not for letters and digits)
    # flip, if a quick trial on the training images finds that a mirror does not change their classes
    auto_flip: bool = False
    # turned by up to so many degrees, either way (10 is usual; 180 for what has no up and down)
    turn: Annotated[float, Field(ge=0, le=180)] = 0.0
    colour: Fraction = 0.0  # brightness, contrast and saturation changed by up to this share (0.3 is usual)
    # share of images that lose a rectangle of a tenth to a third of them (0.25 is usual)
    erase: Fraction = 0.0
    # mixup: two images and their labels are blended, by a share from Beta(a, a); this is a (0.2 is usual)
    mixup: Annotated[float, Field(ge=0, le=100)] = 0.0
    # CutMix: a rectangle comes from another image, its area from Beta(a, a); this is a (1.0 is usual)
    cutmix: Annotated[float, Field(ge=0, le=100)] = 0.0


def augment(x: Tensor, config: AugmentConfig) -> Tensor:
    """Each image in its own way."""
    if config.flip:
        x = torch.where(_drawn(x, 1) < 0.5, x.flip(-1), x)
    if config.crop or config.turn or config.zoom:
        x = _moved(x, config)
    if config.colour:
        x = _recoloured(x, config.colour)
    if config.erase:
        return _erased(x, config.erase)
    return x


def mixup(x: Tensor, shares: Tensor, config: AugmentConfig) -> tuple[Tensor, Tensor]:
    """Images with another of their batch in them, and labels with its share.   b c h w, b classes"""
    mixes = [mix for mix in ("mixup", "cutmix") if getattr(config, mix)]
    if not mixes:
        return x, shares
    mix = mixes[int(torch.rand(()) * len(mixes))]
    strength = torch.tensor(getattr(config, mix))
    share = float(torch.distributions.Beta(strength, strength).sample())
    order = torch.randperm(len(x)).to(x.device)
    if mix == "mixup":
        x = share * x + (1 - share) * x[order]
    else:
        inside = rectangles(x[:1], torch.tensor([1 - share]))
        x = torch.where(inside, x[order], x)
        share = 1 - float(inside.float().mean())
    return x, share * shares + (1 - share) * shares[order]


def _moved(x: Tensor, config: AugmentConfig) -> Tensor:
    """Turned, moved and made larger or smaller, in one reading of the pixels. What comes in from beyond the
    edge mirrors it."""
    b = len(x)
    angle = (2 * torch.rand(b) - 1) * torch.pi * config.turn / 180
    scale = torch.exp((2 * torch.rand(b) - 1) * torch.log1p(torch.tensor(config.zoom)))
    shift = (2 * torch.rand(b, 2) - 1) * 2 * config.crop
    if not (config.turn or config.zoom):
        # by whole pixels, so that training images are as sharp as those that are predicted
        half_sides = torch.tensor([x.shape[-1], x.shape[-2]]) / 2
        shift = (shift * half_sides).round() / half_sides
    ratio = x.shape[-1] / x.shape[-2]  # places are counted from −1 to 1 along both sides
    cos, sin = scale * angle.cos(), scale * angle.sin()
    rows = [torch.stack((cos, -sin / ratio, shift[:, 0]), 1), torch.stack((sin * ratio, cos, shift[:, 1]), 1)]
    grid = F.affine_grid(torch.stack(rows, 1).to(x.device, x.dtype), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


def _recoloured(x: Tensor, strength: float) -> Tensor:
    """Brighter or darker (times a number), nearer to or further from its mean grey, nearer to or further from
    grey."""
    light, contrast, colour = (1 + (2 * _drawn(x, 1) - 1) * strength for _ in range(3))
    x = x * light
    middle = _grey(x).mean((2, 3), keepdim=True)
    x = middle + (x - middle) * contrast
    return (_grey(x) + (x - _grey(x)) * colour).clamp(0, 1)


def _grey(x: Tensor) -> Tensor:
    """As the eye weighs red, green and blue.   b c h w -> b 1 h w"""
    if x.shape[1] == 1:
        return x
    return (x * x.new_tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, keepdim=True)


def _erased(x: Tensor, share: float) -> Tensor:
    """Some lose a rectangle of a tenth to a third of them: it becomes the mean of the image."""
    inside = rectangles(x, 0.1 + 0.23 * torch.rand(len(x))) & (_drawn(x, 1) < share)
    return torch.where(inside, x.mean((2, 3), keepdim=True), x)


def rectangles(x: Tensor, areas: Tensor) -> Tensor:
    """Where a rectangle of this share of the image is, somewhere in it.   bool b 1 h w"""
    b, (h, w) = len(areas), x.shape[-2:]
    side = areas.sqrt()
    # so that neither side is longer than the image
    stretch = torch.exp(torch.rand(b) - 0.5).clamp(side, 1 / side)
    sides = torch.stack((side * stretch, side / stretch), 1) * torch.tensor([h, w])
    start = torch.rand(b, 2) * (torch.tensor([h, w]) - sides)
    low, high = start[:, :, None, None], (start + sides)[:, :, None, None]
    rows, columns = (torch.arange(n, dtype=torch.float32) + 0.5 for n in (h, w))
    inside = (
        (rows[:, None] >= low[:, 0]) & (rows[:, None] < high[:, 0]) & (columns >= low[:, 1]) & (columns < high[:, 1])
    )
    return inside[:, None].to(x.device)


def _drawn(x: Tensor, channels: int) -> Tensor:
    """One number for each image, from 0 to 1.   b c 1 1"""
    return torch.rand(len(x), channels, 1, 1).to(x.device)
