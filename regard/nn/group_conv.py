"""Group convolution: every filter is used in all its poses, turned by quarters (p4) and also mirrored (p4m).

A map has its poses beside its channels, b (c p) h w: entry r of p for r quarter turns, entry 4 + r for a
mirror image turned r times, as in `OnPoses`. When an image is turned, its maps are turned, and their poses
move on by one.

A turned filter holds the same numbers at other places, so all poses of a filter are one dense filter that is
gathered by a table, and the convolution itself is torch's own. The table can be made by turning, or from the
basis of all linear maps that commute with the group (`symmetry/linear/bases.py`): they are the same table.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.convolve import Padding, check, kept
from regard.shapes import expect
from regard.symmetry.actions import Action, OnGrid, OnPoses, Together
from regard.symmetry.elements import Composed, Element, Mirror, quarter
from regard.symmetry.groups import Group, Reflections, Rotations, Trivial, product
from regard.symmetry.linear.bases import Orbits, basis

PlaneGroup = Literal["p1", "p4", "p4m"]  # as crystals name them: shifts alone, with quarter turns, and with mirrors
POSES: dict[str, int] = {"p1": 1, "p4": 4, "p4m": 8}
TURNS: dict[str, Group] = {"p1": Trivial(), "p4": Rotations(), "p4m": product(Rotations(), Reflections())}


def elements(group: PlaneGroup) -> list[Element]:
    """What brings a filter into each of its poses, in the order of the poses."""
    mirrors: list[tuple[Element, ...]] = [(), (Mirror(1),)]
    turns = 4 if group != "p1" else 1
    return [Composed((*mirror, quarter(r))) for mirror in mirrors[: 2 if group == "p4m" else 1] for r in range(turns)]


def by_turning(group: PlaneGroup, kernel: int, lifted: bool) -> Tensor:
    """Which number of a filter is where in each of its poses: turn the numbers themselves.   p n

    A filter has kernel² numbers if it reads an image, and so many for each pose if it reads maps that have
    poses (`lifted`).
    """
    count = POSES[group]
    numbers = torch.arange(kernel * kernel * (count if lifted else 1)).view(-1, kernel, kernel)
    if lifted and count > 1:
        act: Action = Together((OnPoses(0, 8 if count == 8 else 4), OnGrid()))
    else:
        act = OnGrid()
    return torch.stack([act.act(element, numbers).flatten() for element in elements(group)])


def by_basis(group: PlaneGroup, kernel: int, lifted: bool) -> Tensor:
    """The same table from the orbits of all linear maps from such numbers to poses that commute with the
    group.   p n

    Each orbit has one number in the first pose, and is named after it.
    """
    count: Literal[4, 8] = 8 if group == "p4m" else 4
    if lifted:
        into: Action = Together((OnPoses(-3, count), OnGrid()))
    else:
        into = OnGrid()
    found = basis(TURNS[group], into, OnPoses(-1, count), (kernel, kernel))
    assert isinstance(found, Orbits)
    return found.labels[0].argsort()[found.labels]


@lru_cache(maxsize=64)
def _table(group: PlaneGroup, kernel: int, lifted: bool) -> Tensor:
    with torch.device("cpu"):  # what is kept must serve a model on any device, whichever asked first
        return by_turning(group, kernel, lifted)


class GroupConvolution(nn.Module):
    """Σ over places, channels and poses of the filter in each of its poses.   b (c p) h w -> b (e p) h' w'

    With `lifted=False` it reads an image b c h w, which has no poses yet, and gives it some: the first
    layer. It commutes with turns (p4) and mirrors (p4m) of square images for every padding, and with shifts
    as `Convolution` does. `p1` has one pose: a plain convolution. One bias for all poses of a channel.
    """

    table: Tensor

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 3,
        *,
        group: PlaneGroup = "p4",
        lifted: bool = True,
        padding: Padding = "circular",
        bias: bool = True,
    ) -> None:
        super().__init__()
        check(padding, (kernel, kernel))
        if group not in POSES:
            raise RegardError(f"group must be one of {', '.join(POSES)}, got {group!r}")
        self.inputs, self.outputs, self.kernel, self.group = inputs, outputs, kernel, group
        self.poses, self.padding = POSES[group], padding
        # poses of what comes in
        if lifted:
            self.before = self.poses
        else:
            self.before = 1
        self.weight = nn.Parameter(torch.empty(outputs, inputs, self.before * kernel * kernel))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        fan = inputs * self.before * kernel * kernel
        nn.init.normal_(self.weight, std=(2 / fan) ** 0.5)  # He: a relu comes after it
        self.register_buffer("table", _table(group, kernel, lifted).flatten(), persistent=False)

    @property
    def keeps(self) -> Group:
        """What it commutes with."""
        return product(kept(self.padding, 1, self.kernel), TURNS[self.group])

    def filters(self) -> Tensor:
        """Every filter in every pose, as torch's convolution takes it.   (e p) (c p') k k"""
        k = self.kernel
        each = self.weight.index_select(-1, self.table) if self.poses > 1 else self.weight
        each = each.view(self.outputs, self.inputs, self.poses, self.before, k, k).transpose(1, 2)
        return each.reshape(self.outputs * self.poses, self.inputs * self.before, k, k)

    def forward(self, x: Tensor) -> Tensor:
        expect(x, "b c h w", name="x", c=self.inputs * self.before)
        bias = None if self.bias is None else self.bias.repeat_interleave(self.poses)
        edge = self.kernel // 2
        if self.padding == "circular" and edge:
            x = F.pad(x, (edge, edge, edge, edge), mode="circular")
        return F.conv2d(x, self.filters(), bias, padding=edge if self.padding == "zeros" else 0)

    def extra_repr(self) -> str:
        return f"{self.inputs}, {self.outputs}, kernel={self.kernel}, group={self.group}, padding={self.padding}"


class PoseNorm(nn.Module):
    """Batch norm with one mean and one variance for all poses of a channel, so that poses may move.
    b (c p) h w -> the same

    In training a row is measured together with its neighbours in the batch; in eval each row stands alone.
    """

    def __init__(self, channels: int, poses: int) -> None:
        super().__init__()
        self.poses = poses
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        return self.norm(x.reshape(b, c // self.poses, self.poses * h, w)).view(x.shape)


def halve(x: Tensor) -> Tensor:
    """The largest of each 2 × 2 places; on an odd side of 3, overlapping by one.
    b c h w -> b c h/2 w/2, rounded down

    Either way the windows lie symmetrically, so that turning and then halving is the same as halving and then
    turning. On even sides it keeps shifts by 2.
    """
    return F.max_pool2d(x, tuple(2 + side % 2 for side in x.shape[-2:]), stride=2)


def pooled_poses(x: Tensor, poses: int) -> Tensor:
    """The largest of all poses: what is left no longer knows how the image was turned.
    b (c p) … -> b c …"""
    return x.unflatten(1, (-1, poses)).amax(2)
