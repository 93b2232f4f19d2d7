"""Planted bugs of images and points: a shift, a turn or a mirror that should change nothing, or only move the answer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.symmetry.actions import Fixed, OnAxis, OnVectors
from regard.symmetry.groups import Permutations, Reflections, Rotations, Scalings, Shifts, Translations, product
from regard.symmetry.laws import Symmetry
from regard.symmetry.roles import Roles, Stream
from tests.symmetry.planted import Case, planted
from tests.symmetry.planted_parts import WIDTH

SIDE, CHANNELS, KINDS = 12, 8, 10


class Around(nn.Conv2d):
    """A convolution whose edges meet. Each bug does something else at the edge, or between."""

    def __init__(self, into: int, out: int, *, zeros: bool = False, stride: int = 1):
        super().__init__(into, out, 3, padding=1, padding_mode="zeros" if zeros else "circular", stride=stride)


class Images(nn.Module):
    """Three convolutions, a pool over the whole image, a head.  b 3 h w -> b 10, or maps b 8 h w without a head"""

    def __init__(self, *convs: nn.Module, pool: nn.Module | None = None, head: bool = True):
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.pool = pool or nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(CHANNELS, KINDS) if head else None

    def forward(self, image: Tensor) -> Tensor:
        x = image
        for conv in self.convs:
            x = functional.gelu(conv(x))
        return x if self.head is None else self.head(self.pool(x).flatten(1))


def images() -> dict[str, Tensor]:
    return {"image": torch.randn(2, 3, SIDE, SIDE)}


def told(group: object) -> dict[str, object]:
    return {"roles": Roles(grid="image"), "symmetry": group}


@planted("shift", at="convs.1")
def zeros_at_the_edge(bug: bool) -> Case:
    convs = Around(3, CHANNELS), Around(CHANNELS, CHANNELS, zeros=bug), Around(CHANNELS, CHANNELS)
    return Images(*convs, head=False), images(), told(Shifts())


@planted("shift", at="convs.0")
def zeros_at_the_edge_of_a_classifier(bug: bool) -> Case:
    convs = Around(3, CHANNELS, zeros=bug), Around(CHANNELS, CHANNELS), Around(CHANNELS, CHANNELS)
    return Images(*convs), images(), told(Shifts())


@planted("shift", at="convs.1")
def stride_in_a_classifier(bug: bool) -> Case:
    convs = Around(3, CHANNELS), Around(CHANNELS, CHANNELS, stride=1 + bug), Around(CHANNELS, CHANNELS)
    return Images(*convs), images(), told(Shifts())


class Coordinates(nn.Module):
    """Adds how far to the right a pixel is, where a constant was meant."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.weight = nn.Parameter(torch.randn(CHANNELS, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        column = torch.linspace(-1, 1, x.shape[-1]).to(x.dtype) if self.bug else x.new_ones(x.shape[-1])
        return x + self.weight * column


@planted("shift", at="convs.1")
def coordinates_as_a_channel(bug: bool) -> Case:
    convs = Around(3, CHANNELS), Coordinates(bug), Around(CHANNELS, CHANNELS)
    return Images(*convs, head=False), images(), told(Shifts())


class Weighed(nn.Module):
    """A pool with a weight for each pixel.  b c h w -> b c"""

    def __init__(self, bug: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(SIDE, SIDE) if bug else torch.rand(1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.weight).mean((2, 3))


@planted("shift", at="pool")
def pool_that_weighs_pixels(bug: bool) -> Case:
    convs = Around(3, CHANNELS), Around(CHANNELS, CHANNELS)
    return Images(*convs, pool=Weighed(bug)), images(), told(Shifts())


class Turned(nn.Module):
    """A convolution whose filters are the mean of their four quarter turns (and mirrored, of their eight)."""

    def __init__(self, into: int, out: int, bug: bool = False, *, mirrored: bool = False):
        super().__init__()
        self.bug, self.mirrored = bug, mirrored
        self.weight = nn.Parameter(torch.randn(out, into, 5, 5) / (5 * into**0.5))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        if self.mirrored and not self.bug:
            weight = weight + weight.flip(-1)
        if self.mirrored or not self.bug:
            weight = weight + weight.rot90(1, (2, 3)) + weight.rot90(2, (2, 3)) + weight.rot90(3, (2, 3))
        return functional.conv2d(functional.pad(x, (2, 2, 2, 2), mode="circular"), weight)


@planted("rotation", at="convs.1")
def one_filter_that_knows_up_from_down(bug: bool) -> Case:
    convs = Turned(3, CHANNELS), Turned(CHANNELS, CHANNELS, bug), Turned(CHANNELS, CHANNELS)
    symmetry = product(Rotations("quarter"), Shifts())
    promises = {"reflection": "not promised"}
    return (
        Images(*convs, head=False),
        images(),
        {"roles": Roles(grid="image", promises=promises), "symmetry": symmetry},
    )


@planted("reflection", at="convs.0")
def one_filter_that_knows_left_from_right(bug: bool) -> Case:
    convs = [Turned(3, CHANNELS, bug, mirrored=True), Turned(CHANNELS, CHANNELS, mirrored=True)]
    symmetry = product(Rotations("quarter"), Reflections(), Shifts())
    return Images(*convs), images(), told(symmetry)


# ---- points


class Distances(nn.Module):
    """All distances between points, or by mistake the points themselves.  b n 3 -> b n 12"""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.weight = nn.Parameter(torch.randn(12, 3))

    def forward(self, points: Tensor) -> Tensor:
        if self.bug:
            return points @ self.weight.T
        apart = (points[:, :, None] - points[:, None]).square().sum(-1)
        return (-apart[..., None] / torch.arange(1, 13)).exp().mean(2)


class Normalised(nn.Module):
    """Centred, and divided by the spread: one for all axes, or by mistake one for each."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, points: Tensor) -> Tensor:
        points = points - points.mean(1, keepdim=True)
        return points / points.square().mean((1,) if self.bug else (1, 2), keepdim=True).sqrt()


class Centred(nn.Module):
    """Centred on the mean, or by mistake on the first point."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, points: Tensor) -> Tensor:
        return points - (points[:, :1] if self.bug else points.mean(1, keepdim=True))


class Lengths(nn.Module):
    """How far each point is from the origin, as waves.  b n 3 -> b n 12"""

    def forward(self, points: Tensor) -> Tensor:
        return (points.norm(dim=-1, keepdim=True) * torch.arange(1, 13)).cos()


class Handed(nn.Module):
    """Adds the volume that neighbouring points span: without its sign it is the same in a mirror."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, points: Tensor) -> Tensor:
        moments = torch.stack([(points * points.norm(dim=-1, keepdim=True) ** p).mean(1) for p in range(3)], -1)
        volume = 3 * torch.linalg.det(moments)[:, None, None]
        return torch.cat([Lengths()(points), (volume if self.bug else volume.abs()).expand(-1, points.shape[1], 1)], -1)


class Cloud(nn.Module):
    """Points, features that a turn leaves alone, Deep Sets.  b n 3 -> b 10"""

    def __init__(self, *first: nn.Module, features: nn.Module, width: int = 12):
        super().__init__()
        self.first, self.features = nn.Sequential(*first), features
        self.each = nn.Sequential(nn.Linear(width, WIDTH), nn.GELU())
        self.head = nn.Linear(WIDTH, KINDS)

    def forward(self, points: Tensor) -> Tensor:
        return self.head(self.each(self.features(self.first(points))).mean(1))


def points() -> dict[str, Tensor]:
    return {"points": torch.randn(3, 11, 3) * torch.tensor([1.0, 0.7, 1.5]) + 0.4}


CLOUD = Roles(streams=(Stream("points"),), points="points")


@planted("rotation", at="features", also=("reflection",))
def raw_coordinates_in_an_invariant_net(bug: bool) -> Case:
    symmetry = product(Rotations("space"), Reflections(), Permutations())
    return Cloud(features=Distances(bug)), points(), {"roles": CLOUD, "symmetry": symmetry}


@planted("rotation", at="first.0", also=("reflection",))
def each_axis_divided_by_its_own_spread(bug: bool) -> Case:
    symmetry = product(Rotations("space"), Reflections(), Permutations())
    return Cloud(Normalised(bug), features=Distances(False)), points(), {"roles": CLOUD, "symmetry": symmetry}


@planted("permutation", at="first.0")
def centred_on_the_first_point(bug: bool) -> Case:
    moved = Symmetry(Shifts(), {"points": OnVectors()}, Fixed(), "shift")
    turned = Symmetry(Rotations("space"), {"points": OnVectors()}, Fixed(), "rotation")
    ordered = Symmetry(Permutations(), {"points": OnAxis(1)}, Fixed(), "permutation")
    return (Cloud(Centred(bug), features=Lengths()), points(), {"roles": CLOUD, "symmetry": [moved, turned, ordered]})


@planted("reflection", at="features")
def left_and_right_hand_told_apart(bug: bool) -> Case:
    symmetry = product(Rotations("space"), Reflections(), Permutations())
    return Cloud(features=Handed(bug), width=13), points(), {"roles": CLOUD, "symmetry": symmetry}


class Unit(nn.Module):
    """Divided by its size, so that a larger cloud is the same cloud; what keeps from dividing by 0 must be small."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, points: Tensor) -> Tensor:
        size = points.square().mean((1, 2), keepdim=True).sqrt()
        return points / (size + 0.1 if self.bug else size.clamp(min=1e-12))


@planted("scaling", at="first.0")
def too_much_added_to_a_size(bug: bool) -> Case:
    symmetry = product(Scalings(), Rotations("space"), Reflections(), Permutations())
    return Cloud(Unit(bug), features=Lengths()), points(), {"roles": CLOUD, "symmetry": symmetry}


class Vectors(nn.Module):
    """Mixes channels of vectors, b n k 3 -> b n k 3: without a bias, which would point somewhere."""

    def __init__(self, into: int, out: int, bug: bool = False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, into) / into**0.5)
        self.stray = nn.Parameter(torch.randn(out, 3)) if bug else None

    def forward(self, x: Tensor) -> Tensor:
        x = torch.einsum("oi, bnik -> bnok", self.weight, x)
        x = x if self.stray is None else x + self.stray
        return x * x.norm(dim=-1, keepdim=True).sigmoid()


class Forces(nn.Module):
    """A force on each point, which turns along with the cloud.  b n 3 -> b n 3"""

    def __init__(self, bug: bool):
        super().__init__()
        self.layers = nn.ModuleList([Vectors(2, 8), Vectors(8, 8, bug), Vectors(8, 1)])

    def forward(self, points: Tensor) -> Tensor:
        x = torch.stack([points, (points - points.mean(1, keepdim=True))], 2)
        for layer in self.layers:
            x = layer(x)
        return x[:, :, 0]


@planted("rotation", at="layers.1")
def stray_bias_on_vectors(bug: bool) -> Case:
    turned = Symmetry(Rotations("space"), {"points": OnVectors()}, OnVectors(), "rotation")
    return Forces(bug), points(), {"roles": CLOUD, "symmetry": turned}


class AroundTheMean(nn.Module):
    """Points relative to their mean; by mistake, to the mean of the first half of the coordinates only."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, points: Tensor) -> Tensor:
        middle = points.mean(1, keepdim=True)
        if self.bug:
            middle = middle * torch.tensor([1.0, 1.0, 0.0], dtype=points.dtype)
        return points - middle


@planted("translation", at="first.0", also=("rotation", "reflection"))
def one_coordinate_is_not_centred(bug: bool) -> Case:
    symmetry = product(Translations(), Rotations("space"), Reflections(), Permutations())
    return Cloud(AroundTheMean(bug), features=Lengths()), points(), {"roles": CLOUD, "symmetry": symmetry}
