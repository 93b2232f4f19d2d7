"""What every basis of linear maps can do: count, show one map as a matrix, and apply a weighted sum of all of
them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.symmetry.actions import Action
from regard.symmetry.elements import Element

MOST_ENTRIES = 2**26


class Basis(nn.Module):
    """Linear maps from n_in numbers to n_out, of which every one that commutes with a group is a weighted
    sum, in one way.

    It has no parameters. What it holds follows from the group, so it is in no state_dict, but it goes along
    to other devices.
    """

    how = ""  # how a weighted sum is computed, in words

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.n_in, self.n_out = n_in, n_out

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must say how many maps it has: define __len__()")

    def matrix(self, k: int) -> Tensor:
        """Map number k.   n_out n_in"""
        raise NotImplementedError(f"{type(self).__name__} must define matrix()")

    def spread(self) -> Tensor:
        """For each map, how many numbers of the input it adds up for a number of the output (where it gives
        any)."""
        raise NotImplementedError(f"{type(self).__name__} must define spread()")

    def mix(self, x: Tensor, weight: Tensor, n: int | None = None) -> Tensor:
        """Σ_k map_k x weight_kᵀ.   x: b n_in c, weight: k e c -> b n_out e

        n: how many things there are, if another number than the basis was made for; only `Diagrams` take
        another.
        """
        raise NotImplementedError(f"{type(self).__name__} must define mix()")

    def matrices(self) -> Tensor:
        """All maps.   k n_out n_in"""
        entries = len(self) * self.n_out * self.n_in
        if entries > MOST_ENTRIES:
            raise RegardError(
                f"{len(self)} maps of {self.n_out} × {self.n_in} are too many numbers to write down; ask "
                "for one with matrix(k)"
            )
        if len(self):
            return torch.stack([self.matrix(k) for k in range(len(self))])
        return torch.zeros(0, self.n_out, self.n_in)

    def extra_repr(self) -> str:
        return f"{len(self)} maps from {self.n_in} to {self.n_out} numbers, by {self.how}"


# ── which axis of a tensor is what
#
# The axes that are acted on; the rest are the batch, and after it the channels.
#
# OnAxis(1)       b n c          OnGrid()     b c h w        OnBoth()     b c n n
# OnVectors()     b c v          Fixed()      b c            Together((OnPoses(-3), OnGrid()))     b c p h w

Size = int | tuple[int, ...]


def as_sizes(size: Size) -> tuple[int, ...]:
    sizes = (size,) if isinstance(size, int) else tuple(size)
    if not sizes or any(type(each) is not int or each < 1 for each in sizes):
        raise RegardError(f"size is one whole number above zero, or one for each side of a grid, got {size}")
    return sizes


@dataclass(frozen=True)
class Layout:
    """Tensors that an action acts on: `axes` are acted on and have these `sizes`, in the order of the
    tensor."""

    action: Action
    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    batch: int
    channels: int

    @classmethod
    def of(cls, action: Action, size: Size) -> Layout:
        if not isinstance(action, Action):
            raise RegardError(f"an action is an object like OnAxis(1) or Fixed(), got {action!r}")
        along, lengths = action.along(), action.shape(as_sizes(size))
        rank = len(along) + 2
        if len(lengths) != len(along):
            raise RegardError(f"a group that acts {action} needs a size for each of {len(along)} axes, got {size}")
        if not all(-rank <= axis < rank for axis in along) or len({axis % rank for axis in along}) < len(along):
            raise RegardError(f"acting {action} needs different axes of {rank}: batch, channels and {len(along)} more")
        found = sorted(zip((axis % rank for axis in along), lengths, strict=True))
        axes, sizes = tuple(axis for axis, _ in found), tuple(length for _, length in found)
        batch, channels = (axis for axis in range(rank) if axis not in axes)
        return cls(action, axes, sizes, batch, channels)

    @property
    def count(self) -> int:
        """How many numbers there are for each channel."""
        return math.prod(self.sizes)

    def pattern(self, *, alike: bool = False) -> str:
        """For `expect`: "b n c", "b c i j". `alike`: all axes that are acted on are equally long."""
        letters = dict(zip(self.axes, "n" * len(self.axes) if alike else "ijklmnop", strict=False))
        letters |= {self.batch: "b", self.channels: "c"}
        return " ".join(letters[axis] for axis in range(len(letters)))

    def flat(self, x: Tensor) -> Tensor:
        """The axes acted on become one, channels come last.   -> b n c"""
        x = x.movedim((self.batch, *self.axes, self.channels), tuple(range(x.dim())))
        return x.reshape(len(x), math.prod(x.shape[1:-1]), x.shape[-1])

    def unflat(self, x: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """Back again.   b n c ->"""
        x = x.reshape(len(x), *sizes, x.shape[-1])
        return x.movedim(tuple(range(x.dim())), (self.batch, *self.axes, self.channels))

    def moved(self, element: Element, numbers: Tensor) -> Tensor:
        """What an element does to numbers n, or to each row of r n."""
        rows = numbers if numbers.dim() == 2 else numbers[None]
        before = self.unflat(rows[..., None], self.sizes)
        after = self.action.act(element, before)
        if after.shape != before.shape:
            raise RegardError(
                f"{element} makes {tuple(after.shape)} of {tuple(before.shape)}; it acts on a square grid only"
            )
        return self.flat(after)[..., 0].view(numbers.shape)

    def order(self, element: Element) -> Tensor | None:
        """The order in which an element puts the numbers, (g x)_i = x_order[i], or None if it does more than
        move them."""
        labels = torch.arange(1.0, self.count + 1, dtype=torch.float64)
        found = self.moved(element, labels)
        if not torch.equal(found.sort().values, labels):
            return None
        order = found.long() - 1
        other = torch.rand(self.count, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        # no accident of the labels
        if torch.equal(self.moved(element, other), other[order]):
            return order
        return None

    def matrix(self, element: Element) -> Tensor:
        """The matrix of an element.   n n"""
        zeros = torch.zeros(self.count, dtype=torch.float64)
        if self.moved(element, zeros).any():
            raise RegardError(
                f"{element} {self.action} is not linear, it moves 0; this is no group action on linear maps"
            )
        return self.moved(element, torch.eye(self.count, dtype=torch.float64)).T
