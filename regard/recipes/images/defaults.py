"""Default settings for images: a model to their size, for each of seven kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from regard.data.targets import Asks
from regard.models.convnets import DenseNetConfig, LeNetConfig, ResNetConfig
from regard.models.group_cnn import GroupCNNConfig
from regard.models.resnet9 import ResNet9Config
from regard.models.swin import SwinConfig
from regard.models.vit import ViTConfig
from regard.recipes.images.augment import AugmentConfig
from regard.recipes.images.dataset import LARGEST_SIDE, ImagesConfig, choose_size
from regard.recipes.images.labelled_images import find_images
from regard.recipes.settings import Settings, check_choice, path_of, settings_class
from regard.training.config import TrainConfig

DIGITS = 8  # the side of the digits that come with scikit-learn
SMALL = 32  # up to this side, an image is
LARGEST_PATCH = 16  # in pixels
MANY, FEW = 7, 4  # patches in a row: enough to tell images apart, and enough for small ones
UNKNOWN = 2  # stands for a number that follows from the data


def _settings(model: type[Any], sentence: str) -> type[Settings]:
    return settings_class(
        f"{model.__name__.removesuffix('Config')}Settings", sentence, data=ImagesConfig, model=model
    )


KINDS: dict[str, type[Settings]] = {  # the first is the default
    "resnet9": _settings(
        ResNet9Config, "ResNet-9: convolutions that learn from small images in minutes. The default."
    ),
    "vit": _settings(ViTConfig, "A Vision Transformer: patches that attend to each other."),
    "swin": _settings(
        SwinConfig, "Swin: patches that attend within windows, which shift from block to block."
    ),
    "lenet": _settings(LeNetConfig, "LeNet: two convolutions and two linear maps."),
    "resnet": _settings(ResNetConfig, "A residual network of convolutions."),
    "densenet": _settings(DenseNetConfig, "A DenseNet: every layer sees all layers before it."),
    "groupcnn": _settings(
        GroupCNNConfig,
        "A group convolutional network: its prediction does not change when the image makes a quarter turn.",
    ),
}


def defaults(
    data: Any = None,
    kind: str | None = None,
    *,
    size: Any = None,
    image: str = "file",
    label: str = "label",
    asks: Asks = "auto",
) -> Settings:
    """A ResNet-9, unless another kind is asked for, sized for the images that are there, or for the size they
    are brought to."""
    path, kind = path_of(data, "images"), kind or next(iter(KINDS))
    check_choice("kind of model for images", kind, tuple(KINDS))
    # (a small move is right for every image; what a mirror does to classes is tried on the images themselves;
    # what turns do only their owner knows)
    if path is None:
        changes = AugmentConfig(crop=0.125, turn=15, zoom=0.15)
    else:
        changes = AugmentConfig(crop=0.1, auto_flip=True)
    if type(size) is int and size > 0:
        side = size
    else:
        side = _side_of(path, image, label, asks)
    config = ImagesConfig(path=path, augment=changes, smoothing=0.05)
    return KINDS[kind](data=config, model=MODELS[kind](side), train=_train_of(path))


def _side_of(path: str | None, image: str, label: str, asks: Asks) -> int:
    """Of the images, where nobody says it. What is wrong with them is said later, when they are read as was
    asked for."""
    if path is None:
        return DIGITS
    try:
        return choose_size(find_images(path, image, label, asks=asks), ImagesConfig())[0]
    except ValueError:
        return LARGEST_SIDE


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
    return ViTConfig(
        classes=UNKNOWN, size=side, patch=patch_of(side), heads=4, position="rotary", pool="mean", **size
    )


def swin(side: int) -> SwinConfig:
    """Seven or more patches in a row, fourteen or more of a large image, in windows that are smaller than
    all of them."""
    patch = _patch_near(side, 14 if side > SMALL else MANY)
    across = -(-side // patch)
    stages = 3 if across >= 28 else 2
    window = 7 if across % 14 == 0 else 4
    heads = tuple(2 * 2**i for i in range(stages))
    return SwinConfig(
        classes=UNKNOWN, size=side, patch=patch, dim=48, depths=(2,) * stages, heads=heads, window=window
    )


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


def _train_of(path: str | None) -> TrainConfig:
    if path is None:  # (so small a network has nothing of bfloat16 but its rounding)
        return TrainConfig(minutes=1.45, batch=64, lr=0.02, average=0.99, precision="float32")
    return TrainConfig(minutes=10.0, batch=128, lr=0.02, average=0.995)


def model_kind(settings: Settings) -> str:
    """The kind of model that these are the settings of."""
    return next(name for name, cls in KINDS.items() if cls is type(settings))
