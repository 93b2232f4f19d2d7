"""How a group acts on a tensor: on an axis, on a grid, on vectors, on coordinates, on edges, or not at all.

One element acts on several tensors of an input, on each in its own way: a permutation of nodes moves the rows of their
features and renames the ends of the edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.symmetry.elements import Element, Mirror, Permutation, Scale, Shift, Turn


@dataclass(frozen=True)
class Action:
    """What an element does to one tensor."""

    def act(self, element: Element, x: Tensor) -> Tensor:
        """g·x, in new memory or x itself where nothing moves."""
        raise ValueError(f"{element} has no meaning {self}; choose another action for this tensor")

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        """The sizes that elements are drawn for."""
        return ()

    def __str__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True)
class Fixed(Action):
    """Nothing happens: an invariant output, or an input that is no part of it."""

    def act(self, element: Element, x: Tensor) -> Tensor:
        return x


@dataclass(frozen=True)
class OnAxis(Action):
    """Along one axis: permutations reorder it, shifts roll it, mirrors reverse it."""

    axis: int = 1

    def act(self, element: Element, x: Tensor) -> Tensor:
        if isinstance(element, Permutation):
            if x.shape[self.axis] != len(element.order):
                raise ValueError(f"a permutation of {len(element.order)} acts on no axis of {x.shape[self.axis]}")
            return x.index_select(self.axis, torch.tensor(element.order, device=x.device))
        if isinstance(element, Shift):
            return x.roll(element.by[0], self.axis)
        if isinstance(element, Mirror):
            return x.flip(self.axis)
        return super().act(element, x)

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        return (x.shape[self.axis],)

    def __str__(self) -> str:
        return f"on axis {self.axis}"


@dataclass(frozen=True)
class OnGrid(Action):
    """On the axes of a grid: shifts roll around, quarter turns are torch.rot90's, mirrors flip.

    A feature map that is `stride` times coarser than the picture moves by a stride-th of the shift.
    """

    axes: tuple[int, int] = (-2, -1)
    stride: int = 1

    def act(self, element: Element, x: Tensor) -> Tensor:
        if isinstance(element, Shift):
            if any(by % self.stride for by in element.by):
                raise ValueError(f"{element} is no whole number of steps on a grid {self.stride} times coarser")
            return x.roll([by // self.stride for by in element.by], self.axes)
        if isinstance(element, Turn) and element.quarters is not None:
            return x.rot90(element.quarters, self.axes)
        if isinstance(element, Mirror):
            return x.flip(self.axes[element.axis])
        return super().act(element, x)

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        return tuple(x.shape[axis] for axis in self.axes)

    def __str__(self) -> str:
        return f"on the grid of axes {self.axes[0]} and {self.axes[1]}"


@dataclass(frozen=True)
class OnVectors(Action):
    """On vectors along one axis: turns multiply by their matrix, mirrors negate a coordinate, scalings multiply."""

    axis: int = -1

    def act(self, element: Element, x: Tensor) -> Tensor:
        if isinstance(element, Scale):
            return x * element.factor
        if isinstance(element, Turn):
            matrix = torch.tensor(element.matrix, dtype=x.dtype, device=x.device)
            if x.shape[self.axis] != len(matrix):
                raise ValueError(f"a turn of {len(matrix)} dimensions acts on no vectors of {x.shape[self.axis]}")
            return torch.movedim(torch.movedim(x, self.axis, -1) @ matrix.T, -1, self.axis)
        if isinstance(element, Mirror):
            signs = torch.ones(x.shape[self.axis], dtype=x.dtype, device=x.device)
            signs[element.axis] = -1
            return torch.movedim(torch.movedim(x, self.axis, -1) * signs, -1, self.axis)
        if isinstance(element, Shift):
            by = torch.tensor(element.by, dtype=x.dtype, device=x.device)
            return torch.movedim(torch.movedim(x, self.axis, -1) + by, -1, self.axis)
        return super().act(element, x)

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        return (0,) * x.shape[self.axis]

    def __str__(self) -> str:
        return f"on the vectors along axis {self.axis}"


@dataclass(frozen=True)
class OnWhere(Action):
    """On coordinates: a shift is added to all of them."""

    def act(self, element: Element, x: Tensor) -> Tensor:
        if isinstance(element, Shift):
            return x + torch.tensor(element.by if len(element.by) > 1 else element.by[0], dtype=x.dtype, device=x.device)
        return super().act(element, x)

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        return (0,) * (x.shape[-1] if x.dim() == 3 else 1)  # there is no end to coordinates

    def __str__(self) -> str:
        return "on coordinates"


@dataclass(frozen=True)
class OnEdges(Action):
    """On an edge list 2 e: node i of the new order was node order[i], so the ends are renamed by the inverse."""

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

    def __str__(self) -> str:
        return f"on axes {self.axes[0]} and {self.axes[1]} at once"
