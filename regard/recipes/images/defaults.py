"""Default settings for images: a model to their size, for each of seven kinds."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from regard.models.convnets import DenseNetConfig, LeNetConfig, ResNet9Config, ResNetConfig
from regard.models.group_cnn import GroupCNNConfig
from regard.models.swin import SwinConfig
from regard.models.vit import ViTConfig
from regard.recipes.example import Examples
from regard.recipes.images.augment import AugmentConfig
from regard.recipes.images.config import ImagesConfig
from regard.recipes.images.processor import LARGEST_SIDE, choose_size
from regard.recipes.settings import Settings, check_choice, settings_of_kind
from regard.training.config import TrainConfig

DIGITS = 8  # the side of the digits that come with scikit-learn
SMALL = 32  # up to this side, an image is
LARGEST_PATCH = 16  # in pixels
MANY, FEW = 7, 4  # patches in a row: enough to tell images apart, and enough for small ones
UNKNOWN = 2  # stands for a number that follows from the data


def data_section(data: Any) -> ImagesConfig:
    """A path, images in memory, or None: digits."""
    # (a small move is right for every image; what a mirror does to classes is tried on the images themselves;
    # what turns do only their owner knows)
    if data is None:
        return ImagesConfig(augment=AugmentConfig(crop=0.125, turn=15, zoom=0.15), smoothing=0.05)
    path = os.fspath(data) if isinstance(data, str | os.PathLike) else None
    return ImagesConfig(path=path, augment=AugmentConfig(crop=0.1, auto_flip=True), smoothing=0.05)


def choose_defaults(data: ImagesConfig, examples: Examples | None, kind: str | None) -> Settings:
    """A ResNet-9, unless another kind is asked for, sized for the images that are there, or for the size they
    are brought to."""
    kind = kind or "resnet9"
    check_choice("kind of model for images", kind, tuple(MODELS))
    are_digits = data.path is None and (examples is None or not examples.about.get("in_memory"))
    if examples is not None:
        side = choose_size(examples, data)[0]
    else:
        side = data.size or (DIGITS if are_digits else LARGEST_SIDE)
    train = TrainConfig(minutes=10.0, batch=128, lr=0.02, average=0.995)
    if are_digits:  # (so small a network has nothing of bfloat16 but its rounding)
        train = TrainConfig(minutes=1.45, batch=64, lr=0.02, average=0.99, precision="float32")
    return settings_of_kind(kind, ImagesConfig)(data=data, model=MODELS[kind](side), train=train)


def resnet9(side: int) -> ResNet9Config:
    """Three stages on a map of about 32 × 32, fewer on a smaller one. A larger image is looked at in steps, so
    that it costs no more."""
    stride = max(1, round(side / SMALL))
    across = -(-side // stride)
    stages = max(1, min(3, across.bit_length() - 2))  # so that 2 × 2 places are left, or more
    whole = ResNet9Config(classes=UNKNOWN, size=side, stride=stride)
    return replace(whole, widths=whole.widths[-stages:], residual=whole.residual[-stages:])


def vit(side: int) -> ViTConfig:
    """Patches so large that there are seven or more in a row, if they can be; a network that two cores teach
    in minutes."""
    if side > SMALL:
        size: dict[str, Any] = {"dim": 128, "depth": 6}
    else:
        size = {"dim": 64, "depth": 4}
    return ViTConfig(classes=UNKNOWN, size=side, patch=patch_of(side), heads=4, position="rotary", pool="mean", **size)


def swin(side: int) -> SwinConfig:
    """Seven or more patches in a row, fourteen or more of a large image, in windows that are smaller than
    all of them."""
    patch = _patch_near(side, 14 if side > SMALL else MANY)
    across = -(-side // patch)
    stages = 3 if across >= 28 else 2
    window = 7 if across % 14 == 0 else 4
    heads = tuple(2 * 2**i for i in range(stages))
    return SwinConfig(classes=UNKNOWN, size=side, patch=patch, dim=48, depths=(2,) * stages, heads=heads, window=window)


def _groupcnn(side: int) -> GroupCNNConfig:
    """The network of the paper for digits of 28 × 28; smaller images have fewer layers, and keep their
    border."""
    if side >= 28:
        return GroupCNNConfig(classes=UNKNOWN, size=side)
    return GroupCNNConfig(
        classes=UNKNOWN, size=side, depth=5, last=1, halve=(2,) if side >= 12 else (), padding="zeros"
    )


def patch_of(side: int) -> int:
    """Of a ViT: one that divides the side, with seven or more in a row, or if only tiny ones do, with four or
    more."""
    found = [_patch_near(side, many) for many in (MANY, FEW)]
    return next((each for each in found if each > 1 and side % each == 0), found[0])


def _patch_near(side: int, many: int) -> int:
    """The largest patch with so many in a row that divides the side. Where that is far smaller than patches
    could be, as for a side that is a prime number, one that does not: the last ones are then filled up."""
    largest = max(1, min(side // many, LARGEST_PATCH))
    whole = next(each for each in range(largest, 0, -1) if side % each == 0)
    if 2 * whole > largest:
        return whole
    return largest


MODELS: dict[str, Callable[[int], Any]] = {
    "resnet9": resnet9,
    "vit": vit,
    "swin": swin,
    "lenet": lambda side: LeNetConfig(classes=UNKNOWN, size=side),
    "resnet": lambda side: ResNetConfig(classes=UNKNOWN, size=side),
    "densenet": lambda side: DenseNetConfig(classes=UNKNOWN, size=side),
    "groupcnn": _groupcnn,
}
