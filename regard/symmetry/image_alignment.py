"""What becomes of an image inside a model when the image is shifted, turned or mirrored, or its patches
change places.

A tensor is what it should be if it holds the same numbers as before, moved in a way that the next layer can
follow: maps roll, turn and flip like the image, by fewer steps where they are coarser; tokens change
places; channels may change places as well, in the same way everywhere, since a group convolution has one for
each pose. What was flattened only has to hold the same numbers, moved in the same way in every row of the
batch; windows that were cut out, the same windows in another order. Numbers are compared, so no layout has to
be guessed.

Features that mix when an image turns, as those of steerable networks do, are recognised by their lengths,
and of them it is said that it is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from regard.symmetry.actions import OnGrid, OnPatches
from regard.symmetry.align import Alignment, Pair
from regard.symmetry.compare import DIFFERENT, EQUAL, UNKNOWN, close
from regard.symmetry.elements import Composed, Element, Permutation, Shift

WIDEST_MARGIN = 8  # rows or columns that padding adds to a map


@dataclass(frozen=True)
class OnMaps(Alignment):
    """An image b c h w is moved, and what is made of it follows."""

    rows: int  # of the batch
    sides: tuple[int, int]  # of the image
    element: Element
    patch: int = 1  # the sides of what a permutation moves

    def pairs(self, first: Tensor, second: Tensor) -> list[Pair]:
        return [Pair(moved, second, sure=False) for moved in self.readings(first)]

    def compared(self, first: Tensor, second: Tensor, tolerance: float) -> str:
        """Is the second run's tensor what the law makes of the first run's?"""
        if first.shape != second.shape:
            return UNKNOWN
        if close(first, second, tolerance):
            return EQUAL
        if first.dim() == 0 or not first.numel():
            return UNKNOWN
        if len(first) % self.rows == 0:
            answers = {self.with_rows(first, second, tolerance)}
        else:
            answers = set()
        if first.dim() > 1 and first.shape[1] == self.rows != len(first):  # tokens first, then the batch
            answers.add(self.with_rows(first.transpose(0, 1), second.transpose(0, 1), tolerance))
        return next((answer for answer in (EQUAL, UNKNOWN, DIFFERENT) if answer in answers), UNKNOWN)

    def with_rows(self, first: Tensor, second: Tensor, tolerance: float) -> str:
        """The same of tensors whose first axis is the batch, alone or with windows or heads folded into
        it."""
        if not first.is_floating_point():  # what counts or names something may change its values
            if _shuffled(first.flatten(1), second.flatten(1), 1, tolerance):
                return EQUAL
            return UNKNOWN
        first, second = torch.nan_to_num(first), torch.nan_to_num(second)
        if len(first) > self.rows:
            if self.cut_alike(first, second, tolerance):
                return EQUAL
            return DIFFERENT
        framed = self.framed(first, second, tolerance)
        if framed is not None:
            if framed:
                return EQUAL
            return DIFFERENT
        if not self.as_long(first, second, tolerance):
            return DIFFERENT
        if self.moved_along(first, second, tolerance):
            return EQUAL
        # the same numbers, moved as nothing can follow
        strayed = _shuffled(first.flatten(1), second.flatten(1), 1, tolerance)
        if not strayed and self.mixed(first, second, tolerance):
            return UNKNOWN
        return DIFFERENT

    def cut_alike(self, first: Tensor, second: Tensor, tolerance: float) -> bool:
        """Windows or heads that were folded into the batch: do the same numbers stay together in each of
        them?"""
        one, two = (x.flatten(1).sort(1).values for x in (first, second))
        return any(
            _shuffled(one.reshape(*shape, -1), two.reshape(*shape, -1), axis, tolerance)
            for shape, axis in (((self.rows, len(one) // self.rows), 1), ((len(one) // self.rows, self.rows), 0))
        )

    def moved_along(self, first: Tensor, second: Tensor, tolerance: float) -> bool:
        """The same numbers, moved in a way that can be followed."""
        readings = list(self.readings(first))
        if any(close(x, second, tolerance) or _shuffled(x, second, 1, tolerance) for x in readings):
            return True
        if first.dim() == 3:  # tokens b n d, or channels first
            return _shuffled_twice(first, second, 1, tolerance)
        if readings:  # it could be a map, and is none that has moved; is it about pairs of tokens?
            return _shuffled_twice(first, second, 2, tolerance)
        return _shuffled(first.flatten(1), second.flatten(1), 1, tolerance)

    def readings(self, x: Tensor) -> Iterator[Tensor]:
        """A map moved along with the image, for each pair of axes that may be its rows and columns."""
        if x.dim() == 4 and len(x) == self.rows:
            for axes in ((2, 3), (3, 2), (1, 2), (2, 1)):
                moved = self.moved(x, axes)
                if moved is not None and moved.shape == x.shape:
                    yield moved

    def moved(self, x: Tensor, axes: tuple[int, int]) -> Tensor | None:
        """None: the element is no whole number of steps on this map."""
        sides = (x.shape[axes[0]], x.shape[axes[1]])
        if isinstance(self.element, Permutation):
            stride = self.sides[0] // sides[0]
            whole = stride and sides == (self.sides[0] // stride, self.sides[1] // stride) and self.patch % stride == 0
            if not whole or self.sides[0] % stride or self.sides[1] % stride:
                return None
            return OnPatches(self.patch // stride).act(self.element, x.movedim(axes, (-2, -1))).movedim((-2, -1), axes)
        element = self.scaled(self.element, sides)
        if element is None:
            return None
        return OnGrid(axes).act(element, x)

    def scaled(self, element: Element, sides: tuple[int, int]) -> Element | None:
        """The same on a map that is coarser, or finer, than the image."""
        if isinstance(element, Composed):
            parts = [self.scaled(part, sides) for part in element.parts]
            if None in parts:
                return None
            return Composed(tuple(part for part in parts if part is not None))
        if not isinstance(element, Shift):
            return element
        (height, width), (tall, wide) = sides, self.sides
        if (
            height * wide != width * tall
            or (tall % height and height % tall)
            or any(by * height % tall for by in element.by)
        ):
            return None
        return Shift(tuple(by * height // tall for by in element.by))

    def framed(self, first: Tensor, second: Tensor, tolerance: float) -> bool | None:
        """For a map with a margin around it: does the image go on there from its other side? None: it is no
        such map."""
        if not isinstance(self.element, Shift) or first.dim() != 4 or next(self.readings(first), None) is not None:
            return None
        for stride in range(1, min(self.sides) + 1):
            sides = (self.sides[0] // stride, self.sides[1] // stride)
            more = [have - side for have, side in zip(first.shape[-2:], sides, strict=True)]
            if any(full % stride for full in self.sides) or not all(0 <= extra <= WIDEST_MARGIN for extra in more):
                continue
            for top, left in product(*(range(extra + 1) for extra in more)):
                middle = (..., slice(top, top + sides[0]), slice(left, left + sides[1]))
                moved = self.moved(first[middle], (2, 3))
                if moved is not None and close(moved, second[middle], tolerance):
                    return all(close(x, _around(x[middle], x.shape, top, left), tolerance) for x in (first, second))
        return None

    def as_long(self, first: Tensor, second: Tensor, tolerance: float) -> bool:
        """Σ x² is the same in every row, which no way to move numbers changes."""
        one, two = (x.flatten(1).square().sum(1) for x in (first, second))
        return bool(((one - two).abs() <= 1e3 * tolerance * one).all())

    def mixed(self, first: Tensor, second: Tensor, tolerance: float) -> bool:
        """Are the channels of each place as long as before, and all else in them not? They may have turned
        into each other."""
        if first.dim() not in (3, 4):
            return False
        for channels, axes in ((1, (2, 3)), (first.dim() - 1, (1, 2))):
            one, two = (torch.linalg.vector_norm(x, dim=channels, keepdim=True) for x in (first, second))
            if float(one.max() - one.min()) < 1e-3 * float(one.max()):  # a norm has made all equally long
                continue
            if first.dim() == 3 and _shuffled(one, two, 3 - channels, tolerance):
                return True
            moved = self.moved(one, axes) if first.dim() == 4 else None
            if moved is not None and close(moved, two, tolerance):
                return True
        return False

    def difference(self, first: Tensor, second: Tensor, tolerance: float) -> str:
        """In words: in what way a map is not what it should be."""
        if first.dim() != 4 or first.shape != second.shape or len(first) != self.rows:
            return ""
        sides, moved = tuple(first.shape[-2:]), self.moved(first, (2, 3))
        if moved is None and isinstance(self.element, Shift):
            stride = self.sides[0] // sides[0]
            if all(side * stride == full for side, full in zip(sides, self.sides, strict=True)):
                return f", a map {stride} times coarser than the image, on which a {self.element} is no whole step"
            whole = f"the image of {self.sides[0]} × {self.sides[1]}"
            return f", a map of {sides[0]} × {sides[1]}, which does not go on around its end as {whole} does"
        if moved is None or moved.shape != second.shape:
            return ""
        off = ((moved - second).abs() > tolerance * first.abs().max()).any(0).any(0)
        down, right = (torch.arange(side, device=off.device) for side in sides)
        depth = torch.minimum(
            torch.minimum(down, sides[0] - 1 - down)[:, None], torch.minimum(right, sides[1] - 1 - right)
        )
        # rows or columns from the border inwards
        reach = int(depth[off].max()) + 1 if off.any() else 0
        if 0 < 4 * reach <= min(sides):
            return f", only within {reach} of the border of its map"
        return ""


def _around(x: Tensor, shape: torch.Size, top: int, left: int) -> Tensor:
    """A map that goes on around its end, `top` rows and `left` columns before it begins, up to a shape."""
    height, width = x.shape[-2:]
    down = (torch.arange(shape[-2]) - top) % height
    right = (torch.arange(shape[-1]) - left) % width
    return x.index_select(-2, down.to(x.device)).index_select(-1, right.to(x.device))


def _order(x: Tensor, axis: int) -> Tensor:
    """An order of the slices along an axis that follows from their numbers alone."""
    flat = x.movedim(axis, 0).flatten(1).double()
    draw = torch.Generator().manual_seed(0)
    return (flat @ torch.randn(flat.shape[1], generator=draw, dtype=torch.float64).to(x.device)).argsort()


def _shuffled(first: Tensor, second: Tensor, axis: int, tolerance: float) -> bool:
    """Are slices along one axis the same, in another order?"""
    return close(
        first.index_select(axis, _order(first, axis)), second.index_select(axis, _order(second, axis)), tolerance
    )


def _shuffled_twice(first: Tensor, second: Tensor, axis: int, tolerance: float) -> bool:
    """Are slices along an axis and along the next one the same, each in another order?"""
    if _shuffled(first, second, axis, tolerance) or _shuffled(first, second, axis + 1, tolerance):
        return True
    one, two = (x.index_select(axis, _order(x.sort(axis + 1).values, axis)) for x in (first, second))
    return _shuffled(one, two, axis + 1, tolerance)
