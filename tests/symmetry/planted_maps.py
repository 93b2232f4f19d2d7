"""Planted bugs deep inside networks for images: one layer among many that does not follow a shift, a turn or a new order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.models.convnets import DenseNet, DenseNetConfig, ResNet, ResNetConfig
from regard.models.group_cnn import GroupCNN, GroupCNNConfig
from regard.models.vit import ViT, ViTConfig
from regard.nn.convolve import Convolution
from regard.symmetry.groups import Permutations, Rotations, Shifts, product
from regard.symmetry.roles import Roles
from tests.symmetry.planted import Case, planted
from tests.symmetry.planted_pictures import CHANNELS, KINDS, Around, Turned

SIDE = 16
TURNS = Rotations("quarter")


def case(model: nn.Module, group: object, patch: int | None = None, **promises: str) -> Case:
    told = {"roles": Roles(grid="x", patch=patch, promises=promises), "symmetry": group}
    return model, {"x": torch.randn(2, 3, SIDE, SIDE)}, told


class Network(nn.Module):
    """Layers, the mean over all places, a head.   b 3 h w -> b 10"""

    def __init__(self, *layers: nn.Module, flat: bool = False):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.pool = nn.Flatten() if flat else nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(CHANNELS * (SIDE // 4) ** 2 if flat else CHANNELS, KINDS)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(self.pool(x))


def unit(conv: nn.Module) -> nn.Module:
    return nn.Sequential(conv, nn.BatchNorm2d(CHANNELS), nn.ReLU(inplace=True))


def deep(at: int = -1, instead: Callable[[], nn.Module] | None = None, *, flat: bool = False) -> Network:
    """Four circular convolutions and two pools; the one number `at` is another module instead."""
    layers = [unit(Around(3, CHANNELS)), unit(Around(CHANNELS, CHANNELS)), nn.AvgPool2d(2)]
    layers += [unit(Around(CHANNELS, CHANNELS)), nn.MaxPool2d(2), unit(Around(CHANNELS, CHANNELS))]
    if instead is not None:
        layers[at] = instead()
    return Network(*layers, flat=flat)


def zeros(into: int = CHANNELS, **options: Any) -> Callable[[], nn.Module]:
    return lambda: unit(Around(into, CHANNELS, zeros=True, **options))


def plant_each(law: str, name: str, at: str, make: Callable[[bool], Case], also: tuple[str, ...] = ()) -> None:
    make.__name__ = name
    planted(law, at=at, also=also)(make)


def plant_along_the_way() -> None:
    """The same mistake at each depth."""
    for depth, name in ((0, "layers.0.0"), (1, "layers.1.0"), (3, "layers.3.0"), (5, "layers.5.0")):
        sick = zeros(3 if depth == 0 else CHANNELS)
        plant_each(
            "shift",
            f"zeros_at_the_edge_of_layer_{depth}",
            name,
            lambda bug, k=depth, sick=sick: case(deep(k, sick if bug else None), Shifts(4)),
        )  # type: ignore[misc]
    for depth in range(3):
        plant_each(
            "rotation",
            f"filter_of_layer_{depth}_knows_up_from_down",
            f"layers.{depth}.0",
            lambda bug, k=depth: turned(k if bug else -1),
        )  # type: ignore[misc]
    for name in ("stem", "blocks.0.conv2", "blocks.1.conv1", "blocks.2.conv2"):
        plant_each(
            "shift",
            f"zeros_in_{name.replace('.', '_')}_of_a_resnet",
            name,
            lambda bug, name=name: residual(name if bug else None),
        )  # type: ignore[misc]
    for name in ("layers.1.conv", "layers.4.conv"):
        plant_each(
            "shift",
            f"zeros_in_{name.replace('.', '_')}_of_a_densenet",
            name,
            lambda bug, name=name: dense(name if bug else None),
        )  # type: ignore[misc]
    for layer in (1, 2):
        plant_each(
            "rotation",
            f"layer_{layer}_of_a_group_network_turns_nothing",
            f"layers.{layer}",
            lambda bug, k=layer: grouped(k if bug else -1),
            also=("reflection",),
        )  # type: ignore[misc]


def turned(sick: int) -> Case:
    layers = [unit(Turned(3 if k == 0 else CHANNELS, CHANNELS, bug=k == sick)) for k in range(3)]
    return case(Network(*layers), product(TURNS, Shifts()), reflection="not promised")


def residual(name: str | None) -> Case:
    config = ResNetConfig(classes=KINDS, colours=3, size=SIDE, width=4, blocks=(1, 1, 1), padding="circular")
    return case(with_zeros(ResNet(config), name), Shifts(4), **{"neighbours in training": "not promised"})


def dense(name: str | None) -> Case:
    config = DenseNetConfig(classes=KINDS, colours=3, size=SIDE, growth=4, blocks=(2, 2), padding="circular")
    return case(with_zeros(DenseNet(config), name), Shifts(2), **{"neighbours in training": "not promised"})


def with_zeros(model: nn.Module, name: str | None) -> nn.Module:
    if name is not None:
        model.get_submodule(name).padding_mode = "zeros"  # type: ignore[assignment]
    return model


def grouped(sick: int) -> Case:
    """A layer of a group convolution replaced by a plain one of the same size. Poses are permuted before it."""
    config = GroupCNNConfig(
        classes=KINDS, colours=3, size=SIDE, hidden=4, depth=4, last=1, group="p4m", padding="circular"
    )
    model = GroupCNN(config)
    if sick >= 0:
        model.layers[sick] = Convolution(32, 32, 3)
    return case(model, model.symmetry, **{"neighbours in training": "not promised"})


plant_along_the_way()


# ---- strides and pools


@planted("shift", at="layers.2")
def pool_that_cannot_follow_a_single_step(bug: bool) -> Case:
    smooth = nn.Sequential(nn.CircularPad2d((0, 1, 0, 1)), nn.AvgPool2d(2, stride=1))
    layers = unit(Around(3, CHANNELS)), unit(Around(CHANNELS, CHANNELS)), nn.AvgPool2d(2) if bug else smooth
    return case(Network(*layers, unit(Around(CHANNELS, CHANNELS))), Shifts())


@planted("shift", at="layers.2")
def pool_that_sees_beyond_the_border(bug: bool) -> Case:
    around = nn.Sequential(nn.CircularPad2d(1), nn.MaxPool2d(3, 2))
    return case(deep(2, lambda: nn.MaxPool2d(3, 2, padding=1) if bug else around), Shifts(4))


@planted("shift", at="layers.3.0")
def stride_after_padding_that_is_right(bug: bool) -> Case:
    conv = nn.Conv2d(CHANNELS, CHANNELS, 3, stride=1 + bug)
    layers = (
        unit(Around(3, CHANNELS)),
        nn.CircularPad2d(1),
        nn.Identity(),
        unit(conv),
        unit(Around(CHANNELS, CHANNELS)),
    )
    return case(Network(*layers), Shifts())


@planted("shift", at="layers.1")
def padding_with_zeros_in_a_module_of_its_own(bug: bool) -> Case:
    pad = nn.ZeroPad2d(1) if bug else nn.CircularPad2d(1)
    return case(Network(unit(Around(3, CHANNELS)), pad, unit(nn.Conv2d(CHANNELS, CHANNELS, 3))), Shifts())


@planted("shift", at="layers.1")
def padding_with_a_mirror_image(bug: bool) -> Case:
    pad = nn.ReflectionPad2d(1) if bug else nn.CircularPad2d(1)
    return case(Network(unit(Around(3, CHANNELS)), pad, unit(nn.Conv2d(CHANNELS, CHANNELS, 3))), Shifts())


@planted("shift", at="layers.4.0")
def zeros_after_padding_that_was_right(bug: bool) -> Case:
    layers = [
        nn.CircularPad2d(1),
        unit(nn.Conv2d(3, CHANNELS, 3)),
        nn.CircularPad2d(1),
        unit(nn.Conv2d(CHANNELS, CHANNELS, 3)),
    ]
    return case(Network(*layers, unit(Around(CHANNELS, CHANNELS, zeros=bug))), Shifts())


@planted("shift", at="head")
def a_weight_for_each_place(bug: bool) -> Case:
    return case(deep(flat=bug), Shifts(4))


class Halving(nn.Module):
    """Pools in its forward, with no module for it."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug, self.first, self.second = bug, Around(3, CHANNELS), Around(CHANNELS, CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.second(functional.avg_pool2d(x, 2) if self.bug else x)


@planted("shift", at="layers.0")
def pool_between_the_modules(bug: bool) -> Case:
    return case(Network(Halving(bug), unit(Around(CHANNELS, CHANNELS))), Shifts())


# ---- what is right in the end breaks nothing


class Averaged(nn.Module):
    """Any network averaged over quarter turns: none of its layers follows a turn, and the mean does."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(Around(3, CHANNELS), nn.GELU(), Around(CHANNELS, CHANNELS))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.inner(x.rot90(k, (2, 3))).rot90(-k, (2, 3)) for k in range(4)]).mean(0)


@planted("rotation", at="layers.1.0")
def a_filter_after_an_average_over_turns(bug: bool) -> Case:
    model = Network(Averaged(), unit(Turned(CHANNELS, CHANNELS, bug)), Turned(CHANNELS, CHANNELS))
    return case(model, product(TURNS, Shifts()), reflection="not promised")


class Waves(nn.Module):
    """A filter as long as the image, by Fourier: what is inside moves in no way that is known, what comes out does."""

    def __init__(self) -> None:
        super().__init__()
        self.there = Spectrum()
        self.weight = nn.Parameter(torch.randn(3, SIDE, SIDE // 2 + 1))
        self.mix = nn.Conv2d(3, CHANNELS, 1)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.view_as_complex(self.there(x)) * self.weight
        return self.mix(torch.fft.irfft2(spectrum))


class Spectrum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.view_as_real(torch.fft.rfft2(x))


@planted("shift", at="layers.1.0")
def zeros_after_a_filter_by_fourier(bug: bool) -> Case:
    return case(Network(Waves(), unit(Around(CHANNELS, CHANNELS, zeros=bug))), Shifts())


# ---- places


class Tokens(nn.Module):
    """Patches as tokens, one for the class before them; places may be added by mistake in several ways.   b 3 h w -> b 10"""

    def __init__(self, how: str):
        super().__init__()
        self.how, count = how, (SIDE // 4) ** 2
        self.embed = nn.Conv2d(3, CHANNELS, 4, stride=4)
        self.first = nn.Parameter(torch.randn(1, 1, CHANNELS))
        self.table = nn.Parameter(torch.randn(1, count + 1, CHANNELS))
        self.places = nn.Embedding(count + 1, CHANNELS)
        self.blocks = nn.ModuleList([Mixing(), Mixing()])
        self.head = nn.Linear(CHANNELS, KINDS)

    def forward(self, x: Tensor) -> Tensor:
        maps = self.embed(x)
        turned_wrong = maps.reshape(len(x), -1, CHANNELS) if self.how == "reshape" else maps.flatten(2).transpose(1, 2)
        tokens = torch.cat([self.first.expand(len(x), -1, -1), turned_wrong], 1)
        tokens = self.blocks[0](tokens)
        if self.how == "table":
            tokens = tokens + self.table
        if self.how == "embedding":
            tokens = tokens + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.blocks[1](tokens)[:, 0])


class Mixing(nn.Module):
    """Attention and a layer for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.each = nn.LayerNorm(CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.attend = nn.MultiheadAttention(CHANNELS, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        return x + functional.gelu(self.each(x))


@planted("permutation", at="", also=("shift",))
def places_added_between_the_blocks(bug: bool) -> Case:
    return case(Tokens("table" if bug else ""), product(Permutations(), Shifts(4)), patch=4)


@planted("permutation", at="places", also=("shift",))
def places_of_a_table_added_between_the_blocks(bug: bool) -> Case:
    return case(Tokens("embedding" if bug else ""), product(Permutations(), Shifts(4)), patch=4)


@planted("permutation", at="", also=("shift",))
def a_map_reshaped_into_tokens(bug: bool) -> Case:
    return case(Tokens("reshape" if bug else ""), product(Permutations(), Shifts(4)), patch=4)


@planted("permutation", at="position", also=("shift",))
def learned_places_in_a_bag_of_patches(bug: bool) -> Case:
    how = "learned" if bug else "none"
    model = ViT(ViTConfig(classes=KINDS, size=SIDE, patch=4, dim=32, depth=2, heads=4, registers=1, position=how))
    return case(model, product(Permutations(), Shifts(4)), patch=4)


class Shuffle(nn.Module):
    """Pixels in a fixed other order, by mistake."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.register_buffer("order", torch.randperm(SIDE * SIDE))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2)[:, :, self.order].view_as(x) if self.bug else x


@planted("shift", at="layers.1")
def pixels_in_another_order(bug: bool) -> Case:
    return case(Network(unit(Around(3, CHANNELS)), Shuffle(bug), unit(Around(CHANNELS, CHANNELS))), Shifts())


class ChannelsLast(nn.Module):
    """As ConvNeXt has it: a filter for each channel, then a norm and a layer with the channels last."""

    def __init__(self, bug: bool):
        super().__init__()
        mode = "zeros" if bug else "circular"
        self.depthwise = nn.Conv2d(CHANNELS, CHANNELS, 5, padding=2, groups=CHANNELS, padding_mode=mode)
        self.norm, self.each = nn.LayerNorm(CHANNELS), nn.Linear(CHANNELS, CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.each(self.norm(self.depthwise(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


@planted("shift", at="layers.2.depthwise")
def zeros_between_layers_with_channels_last(bug: bool) -> Case:
    return case(
        Network(unit(Around(3, CHANNELS)), ChannelsLast(False), ChannelsLast(bug), ChannelsLast(False)), Shifts()
    )


# ---- vectors that turn with the image


class Slope(nn.Module):
    """How steep an image is, down and to the right: vectors, which turn with it.   b 3 h w -> b 6 h w"""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.roll(-1, axis) - x.roll(1, axis) for axis in (2, 3)], 1)


class Steepness(nn.Module):
    """The lengths of such vectors, or by mistake the two sides added up.   b 6 h w -> b 3 h w"""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, x: Tensor) -> Tensor:
        down, right = x.chunk(2, 1)
        return (down + right).tanh() if self.bug else (down.square() + right.square()).sqrt()


@planted("rotation", at="layers.1", also=("reflection",))
def a_vector_taken_for_two_numbers(bug: bool) -> Case:
    return case(
        Network(Slope(), Steepness(bug), Turned(3, CHANNELS)), product(TURNS, Shifts()), reflection="not promised"
    )
