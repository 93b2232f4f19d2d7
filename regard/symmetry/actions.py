"""How a group acts on a tensor: on an axis, on a grid, on vectors, on coordinates, on edges, on poses, or not
at all.

One element acts on several tensors of an input, on each in its own way: a permutation of nodes moves the rows
of their features and renames the ends of the edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.symmetry.elements import Composed, Element, Mirror, Permutation, Scale, Shift, Translate, Turn


@dataclass(frozen=True)
class Action:
    """What an element does to one tensor."""

    def act(self, element: Element, x: Tensor) -> Tensor:
        """g·x, in new memory or x itself where nothing moves."""
        if isinstance(element, Composed):  # every action comes here with what it does not know itself
            for part in element.parts:
                x = self.act(part, x)
            return x
        raise RegardError(f"{element} has no meaning {self}; choose another action for this tensor")

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        """The sizes that elements are drawn for."""
        return ()

    def along(self) -> tuple[int, ...]:
        """The axes of a tensor along which values move; () where none do."""
        raise RegardError(
            f"{self}, values do not move along axes, so there is no linear map to speak of; use another action"
        )

    def shape(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """How long these axes are, where the group acts on so many things, on such a grid, or on vectors so
        wide."""
        return size

    def __str__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True)
class Fixed(Action):
    """Nothing happens: an invariant output, or an input that is no part of it."""

    def act(self, element: Element, x: Tensor) -> Tensor:
        return x

    def along(self) -> tuple[int, ...]:
        return ()

    def shape(self, size: tuple[int, ...]) -> tuple[int, ...]:
        return ()


@dataclass(frozen=True)
class OnAxis(Action):
    """Along one axis: permutations reorder it, shifts roll it, mirrors reverse it."""

    axis: int = 1

    def act(self, element: Element, x: Tensor) -> Tensor:
        if isinstance(element, Permutation):
            if x.shape[self.axis] != len(element.order):
                raise RegardError(f"a permutation of {len(element.order)} acts on no axis of {x.shape[self.axis]}")
            return x.index_select(self.axis, torch.tensor(element.order, device=x.device))
        if isinstance(element, Shift):
            return x.roll(element.by[0], self.axis)
        if isinstance(element, Mirror):
            return x.flip(self.axis)
        return super().act(element, x)

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        return (x.shape[self.axis],)

    def along(self) -> tuple[int, ...]:
        return (self.axis,)

    def __str__(self) -> str:
        return f"on axis {self.axis}"


@dataclass(frozen=True)
class OnGrid(Action):
    """On the axes of a grid: shifts roll around, quarter turns are torch.rot90's, mirrors flip.

    A feature map that is `stride` times coarser than the image moves by a stride-th of the shift.
    """

    axes: tuple[int, int] = (-2, -1)
    stride: int = 1

    def act(self, element: Element, x: Tensor) -> Tensor:
        if isinstance(element, Shift):
            if any(by % self.stride for by in element.by):
                raise RegardError(f"{element} is no whole number of steps on a grid {self.stride} times coarser")
            return x.roll([by // self.stride for by in element.by], self.axes)
        if isinstance(element, Turn) and element.quarters is not None:
            return x.rot90(element.quarters, self.axes)
        if isinstance(element, Mirror):
            return x.flip(self.axes[element.axis])
        return super().act(element, x)

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        return tuple(x.shape[axis] for axis in self.axes)

    def along(self) -> tuple[int, ...]:
        return self.axes

    def shape(self, size: tuple[int, ...]) -> tuple[int, ...]:
        if any(each % self.stride for each in size):
            raise RegardError(
                f"a grid of {size} has no whole number of steps of {self.stride}; choose a multiple of it"
            )
        return tuple(each // self.stride for each in size)

    def __str__(self) -> str:
        return f"on the grid of axes {self.axes[0]} and {self.axes[1]}"


@dataclass(frozen=True)
class OnPatches(Action):
    """On the squares of `side` pixels that an image b c h w is cut into, numbered row by row: permutations
    reorder them."""

    side: int

    def act(self, element: Element, x: Tensor) -> Tensor:
        if not isinstance(element, Permutation):
            return super().act(element, x)
        rows, columns = x.shape[-2] // self.side, x.shape[-1] // self.side
        # … rows columns p p
        apart = x.unflatten(-1, (columns, self.side)).unflatten(-3, (rows, self.side)).transpose(-2, -3)
        moved = OnAxis(-3).act(element, apart.flatten(-4, -3))
        return moved.unflatten(-3, (rows, columns)).transpose(-2, -3).flatten(-4, -3).flatten(-2)

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        return ((x.shape[-2] // self.side) * (x.shape[-1] // self.side),)

    def __str__(self) -> str:
        return f"on patches of {self.side} × {self.side}"


@dataclass(frozen=True)
class OnVectors(Action):
    """On vectors along one axis: turns multiply by their matrix, mirrors negate a coordinate, scalings
    multiply, translations add."""

    axis: int = -1

    def act(self, element: Element, x: Tensor) -> Tensor:
        if isinstance(element, Scale):
            return x * element.factor
        if isinstance(element, Turn):
            matrix = torch.tensor(element.matrix, dtype=x.dtype, device=x.device)
            if x.shape[self.axis] != len(matrix):
                raise RegardError(f"a turn of {len(matrix)} dimensions acts on no vectors of {x.shape[self.axis]}")
            return torch.movedim(torch.movedim(x, self.axis, -1) @ matrix.T, -1, self.axis)
        if isinstance(element, Mirror):
            signs = torch.ones(x.shape[self.axis], dtype=x.dtype, device=x.device)
            signs[element.axis] = -1
            return torch.movedim(torch.movedim(x, self.axis, -1) * signs, -1, self.axis)
        if isinstance(element, Shift | Translate):
            by = torch.tensor(element.by, dtype=x.dtype, device=x.device)
            return torch.movedim(torch.movedim(x, self.axis, -1) + by, -1, self.axis)
        return super().act(element, x)

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        return (0,) * x.shape[self.axis]

    def along(self) -> tuple[int, ...]:
        return (self.axis,)

    def __str__(self) -> str:
        return f"on the vectors along axis {self.axis}"


@dataclass(frozen=True)
class OnWhere(Action):
    """On coordinates: a shift is added to all of them."""

    def act(self, element: Element, x: Tensor) -> Tensor:
        if isinstance(element, Shift):
            return x + torch.tensor(
                element.by if len(element.by) > 1 else element.by[0], dtype=x.dtype, device=x.device
            )
        return super().act(element, x)

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        return (0,) * (x.shape[-1] if x.dim() == 3 else 1)  # there is no end to coordinates

    def __str__(self) -> str:
        return "on coordinates"


@dataclass(frozen=True)
class OnEdges(Action):
    """On an edge list 2 e: node i of the new order was node order[i], so the ends are renamed by the
    inverse."""

    def act(self, element: Element, x: Tensor) -> Tensor:
        if isinstance(element, Permutation):
            return torch.tensor(element.inverse().order, device=x.device, dtype=x.dtype)[x.long()]
        return super().act(element, x)

    def __str__(self) -> str:
        return "on the ends of edges"


@dataclass(frozen=True)
class OnBoth(Action):
    """On two axes at once: rows and columns of an adjacency matrix move together."""

    axes: tuple[int, int] = (-2, -1)

    def act(self, element: Element, x: Tensor) -> Tensor:
        for axis in self.axes:
            x = OnAxis(axis).act(element, x)
        return x

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        return (x.shape[self.axes[0]],)

    def along(self) -> tuple[int, ...]:
        return self.axes

    def shape(self, size: tuple[int, ...]) -> tuple[int, ...]:
        return (*size, *size)

    def __str__(self) -> str:
        return f"on axes {self.axes[0]} and {self.axes[1]} at once"


@dataclass(frozen=True)
class OnPoses(Action):
    """On one axis of 4 or 8 entries, one for each quarter turn (p4), or for each turn and mirror image of it
    (p4m).

    Entry r stands for r quarter turns, entry 4 + r for a mirrored axis 1 and then r quarter turns. An element
    g brings entry h to gh, as the group's own multiplication says. Shifts leave poses alone.
    """

    axis: int = -1
    count: Literal[4, 8] = 4

    def act(self, element: Element, x: Tensor) -> Tensor:
        if isinstance(element, Shift):
            return x
        turn = isinstance(element, Turn) and element.quarters is not None
        if not turn and not (isinstance(element, Mirror) and self.count == 8):
            return super().act(element, x)
        if x.shape[self.axis] != self.count:
            raise RegardError(f"{self.count} poses are on no axis of {x.shape[self.axis]}")
        back = element.inverse()  # (g x)_h = x_(g⁻¹ h)
        source = [_pose_after(back, mirrored, r) for mirrored in range(self.count // 4) for r in range(4)]
        return x.index_select(self.axis, torch.tensor(source, device=x.device))

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        return (0, 0)  # they turn and are mirrored as the plane is, which has two axes

    def along(self) -> tuple[int, ...]:
        return (self.axis,)

    def shape(self, size: tuple[int, ...]) -> tuple[int, ...]:
        return (self.count,)

    def __str__(self) -> str:
        return f"on the {self.count} poses along axis {self.axis}"


def _pose_after(element: Element, mirrored: int, r: int) -> int:
    """Which pose comes of one: a mirror s turns the other way round, s t = t⁻¹ s, and mirrors of both axes
    differ by t²."""
    if isinstance(element, Turn):
        return 4 * mirrored + (r + (element.quarters or 0)) % 4
    assert isinstance(element, Mirror)
    return 4 * (1 - mirrored) + (-r + (0 if element.axis else 2)) % 4


@dataclass(frozen=True)
class Together(Action):
    """Several actions on different axes of one tensor: three axes that are permuted alike, or poses on a
    grid."""

    actions: tuple[Action, ...]

    def act(self, element: Element, x: Tensor) -> Tensor:
        for action in self.actions:
            x = action.act(element, x)
        return x

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        # those with an end say more
        return max((action.sizes(x) for action in self.actions), default=(), key=any)

    def along(self) -> tuple[int, ...]:
        return tuple(axis for action in self.actions for axis in action.along())

    def shape(self, size: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(each for action in self.actions for each in action.shape(size))

    def __str__(self) -> str:
        return ", ".join(map(str, self.actions))
