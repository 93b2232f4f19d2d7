"""What a mask is, and how masks combine: `&`, `|`, `~`. The masks themselves are in `masks.py`.

A mask answers for one tile at a time, from the coordinates and slots of its rows and columns, and for whole
blocks with three answers (empty, full, mixed) from what is known of each block. Combined answers are built
from the parts' answers, so nothing ever needs the n × m matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.attention.places import Bounds, Side
from regard.symmetry.groups import Group, Trivial


@dataclass(frozen=True, eq=False)
class Blocks:
    """For each block of a grid: may some pair in it attend, may every pair?  b|1 h|1 row-blocks column-blocks

    Empty is `not some`, full is `every`, anything else is mixed. `some` may be too generous and `every` too
    strict, never the other way round, so what combines them stays right.
    """

    some: np.ndarray
    every: np.ndarray

    def __and__(self, other: Blocks) -> Blocks:
        return Blocks(self.some & other.some, self.every & other.every)

    def __or__(self, other: Blocks) -> Blocks:
        return Blocks(self.some | other.some, self.every | other.every)

    def __invert__(self) -> Blocks:
        return Blocks(~self.every, ~self.some)


class Mask:
    """Base of all masks. **True means may attend.**

    `keeps` is the symmetry that survives it. `static` says that it is a frozen dataclass of numbers: equal
    ones are the same mask, so what is found out about its blocks can be kept. `leaves` says that every query
    surely sees some key, so that no kernel has to look for those that see none. `period`: after so many rows
    of a batch it comes again, as the windows of one image do for the next; None if nothing is known. `grain`: it is
    the same within blocks of so many places, so that cutting attention there wastes nothing; None: it is not.
    """

    keeps: Group = Trivial()
    static: bool = False
    leaves: bool = False
    period: int | None = None
    grain: int | None = None
    classes: ClassVar[dict[str, type[Mask]]] = {}

    def __init_subclass__(cls) -> None:
        Mask.classes[cls.__name__] = cls

    def tile(self, here: Side, there: Side) -> Tensor:
        """May row i attend to column j?  bool, broadcasts to b h n m"""
        raise TypeError(f"{type(self).__name__} must define tile(here, there)")

    def blocks(self, here: Bounds, there: Bounds) -> Blocks:
        """The three answers for whole blocks; mixed everywhere unless a mask knows better."""
        grid = (1, 1, here.low.shape[1], there.low.shape[1])
        return Blocks(np.ones(grid, dtype=bool), np.zeros(grid, dtype=bool))

    def fits(self, b: int, h: int, n: int, m: int) -> None:
        """Raise a ValueError if it cannot be a mask of n queries over m keys with b rows and h heads."""

    def unseen(self, m: int, device: torch.device) -> Tensor | None:
        """Keys that no query may see, as far as this is known without a tile.  bool b|1 h|1 m"""
        return None

    def take(self, order: Tensor) -> Mask:
        """The same mask after tokens moved: slot i now holds what slot order[i] held.  order: m or b m"""
        return self

    def settings(self) -> tuple[Any, ...]:
        """Name and numbers of a static mask, from which `from_settings` makes it again."""
        return (type(self).__name__, *(getattr(self, field.name) for field in fields(self)))  # type: ignore[arg-type]

    def parts(self) -> tuple[Mask, ...]:
        """The masks it is combined of."""
        return (self,)

    @property
    def farthest(self) -> float:
        """How far from a query a key can be at most, as far as this is known."""
        return float("inf")

    def __bool__(self) -> bool:
        raise TypeError("masks combine with &, | and ~, not with `and`, `or` and `not`; ask `mask is None` for no mask")

    def __and__(self, other: Mask) -> Mask:
        return And(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Or(self, other)

    def __invert__(self) -> Mask:
        return Not(self)

    def __rand__(self, other: Any) -> Mask:
        return And(other, self)  # asked only when the left one is no mask, which And refuses

    def __ror__(self, other: Any) -> Mask:
        return Or(other, self)


def from_settings(settings: tuple[Any, ...]) -> Mask:
    """A static mask from its `settings`, those of its parts included."""
    name, *values = settings
    return Mask.classes[name](*(from_settings(v) if isinstance(v, tuple) else v for v in values))


def _must_be_masks(*parts: Any) -> None:
    for part in parts:
        if isinstance(part, type) and issubclass(part, Mask):
            raise TypeError(f"a mask combines with a mask, got the class {part.__name__}; write {part.__name__}(...)")
        if not isinstance(part, Mask):
            raise TypeError(f"a mask combines with a mask, got {type(part).__name__}; wrap a bool tensor in Dense(...)")


class Pair(Mask):
    """Two masks combined; static when both are, and hashable like them."""

    def __init__(self, left: Mask, right: Mask) -> None:
        _must_be_masks(left, right)
        self.left, self.right = left, right
        self.static = left.static and right.static
        self.keeps = left.keeps & right.keeps

    def parts(self) -> tuple[Mask, ...]:
        return (*self.left.parts(), *self.right.parts())

    def settings(self) -> tuple[Any, ...]:
        return (type(self).__name__, self.left.settings(), self.right.settings())

    def fits(self, b: int, h: int, n: int, m: int) -> None:
        self.left.fits(b, h, n, m)
        self.right.fits(b, h, n, m)

    def take(self, order: Tensor) -> Mask:
        return type(self)(self.left.take(order), self.right.take(order))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and (self.left, self.right) == (other.left, other.right)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.left, self.right))

    def __repr__(self) -> str:
        return f"({self.left} {'&' if isinstance(self, And) else '|'} {self.right})"


class And(Pair):
    """Both allow it."""

    @property
    def farthest(self) -> float:
        return min(self.left.farthest, self.right.farthest)

    def tile(self, here: Side, there: Side) -> Tensor:
        return self.left.tile(here, there) & self.right.tile(here, there)

    def blocks(self, here: Bounds, there: Bounds) -> Blocks:
        return self.left.blocks(here, there) & self.right.blocks(here, there)

    def unseen(self, m: int, device: torch.device) -> Tensor | None:
        left, right = self.left.unseen(m, device), self.right.unseen(m, device)
        if left is None:
            return right
        if right is None:
            return left
        return left | right


class Or(Pair):
    """Either allows it."""

    @property
    def farthest(self) -> float:
        return max(self.left.farthest, self.right.farthest)

    def tile(self, here: Side, there: Side) -> Tensor:
        return self.left.tile(here, there) | self.right.tile(here, there)

    def blocks(self, here: Bounds, there: Bounds) -> Blocks:
        return self.left.blocks(here, there) | self.right.blocks(here, there)

    def unseen(self, m: int, device: torch.device) -> Tensor | None:
        left, right = self.left.unseen(m, device), self.right.unseen(m, device)
        if left is None or right is None:
            return None
        return left & right


class Not(Mask):
    """What the other does not allow."""

    def __init__(self, mask: Mask) -> None:
        _must_be_masks(mask)
        self.mask = mask
        self.static = mask.static
        self.keeps = mask.keeps

    def tile(self, here: Side, there: Side) -> Tensor:
        return ~self.mask.tile(here, there)

    def blocks(self, here: Bounds, there: Bounds) -> Blocks:
        return ~self.mask.blocks(here, there)

    def parts(self) -> tuple[Mask, ...]:
        return self.mask.parts()

    def settings(self) -> tuple[Any, ...]:
        return ("Not", self.mask.settings())

    def fits(self, b: int, h: int, n: int, m: int) -> None:
        self.mask.fits(b, h, n, m)

    def take(self, order: Tensor) -> Mask:
        return Not(self.mask.take(order))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Not) and self.mask == other.mask

    def __hash__(self) -> int:
        return hash(("Not", self.mask))

    def __repr__(self) -> str:
        return f"~{self.mask}"
