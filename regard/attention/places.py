"""Where the tokens are: the two sides of an attention tile, with their coordinates and slots.

A *place* is a coordinate: row and column of a patch, the position in a text. A *slot* is an index into the
tensors given. Masks and biases ask for places; only what belongs to a token and is no coordinate (is it real,
which document) is looked up by slot. **A token without a place** (a class token, a register) has NaN for all
its coordinates, so `where` must then be a float tensor: comparisons with NaN are False, and adding a constant
to NaN leaves it NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import RegardError

Where = Tensor | tuple[Tensor, Tensor] | None
Slots = slice | Tensor


# not frozen: attend makes two at every call, and frozen costs a microsecond each
@dataclass(eq=False, slots=True)
class Side:
    """Some tokens as the rows (queries) or the columns (keys) of a tile."""

    rows: bool
    count: int  # tokens on this side in all
    slots: Slots  # which of them these are
    first: int  # the place of slot 0 when places are consecutive
    where: Tensor | None  # b|1 count s; None: slot i has the place first + i
    device: torch.device

    @property
    def axes(self) -> int:
        return 1 if self.where is None else self.where.shape[-1]

    @property
    def consecutive(self) -> bool:
        """Are the places known without looking at any tensor?"""
        return self.where is None

    @property
    def size(self) -> int:
        """How many tokens these are."""
        if isinstance(self.slots, slice):
            return self.slots.stop - self.slots.start
        return self.slots.shape[0]

    def part(self, slots: Slots) -> Side:
        """The same side, with only the tokens at these slots."""
        return Side(self.rows, self.count, slots, self.first, self.where, self.device)

    def index(self) -> Tensor:
        """The slots as numbers.  n"""
        if isinstance(self.slots, slice):
            return torch.arange(self.slots.start, self.slots.stop, device=self.device)
        return self.slots

    def coordinates(self) -> Tensor:
        """b|1 n s"""
        if self.where is None:
            return (self.index() + self.first)[None, :, None]
        return self.where[:, self.slots]

    def axis(self, i: int) -> Tensor:
        """One coordinate, laid along its side of the tile: b|1 1 n 1 for rows, b|1 1 1 m for columns."""
        return self.lay(self.coordinates()[..., i])

    def lay(self, x: Tensor) -> Tensor:
        """b n -> b 1 n 1 for rows, b 1 1 n for columns."""
        return x[:, None, :, None] if self.rows else x[:, None, None, :]

    def pick(self, data: Tensor) -> Tensor:
        """What these tokens hold of data that belongs to all tokens of the side, laid along it.  b|1 count ->
        as `lay`"""
        return self.lay(data[:, self.slots])

    def bounds(self, block: int) -> Bounds:
        """The smallest and largest coordinates of each block of consecutive slots."""
        if self.where is None:
            low = np.arange(0, self.count, block, dtype=np.float64)
            high = np.minimum(low + block, self.count) - 1
            low, high = low[None, :, None] + self.first, high[None, :, None] + self.first
            return Bounds(self.rows, self.count, block, low, high, np.zeros(low.shape[:2], dtype=bool))
        where = self.where.detach().double().cpu().numpy()
        lost = np.isnan(where)
        low = blockwise(np.minimum, np.where(lost, np.inf, where), block)
        high = blockwise(np.maximum, np.where(lost, -np.inf, where), block)
        return Bounds(self.rows, self.count, block, low, high, blockwise(np.maximum, lost.any(-1), block))


@dataclass(frozen=True, eq=False)
class Bounds:
    """What is known of each block of tokens on one side without looking at every token."""

    rows: bool
    count: int
    block: int
    low: np.ndarray  # b|1 blocks s, of the tokens that have a place
    high: np.ndarray
    nowhere: np.ndarray  # b|1 blocks: has some token of the block no place?

    def lay(self, x: np.ndarray) -> np.ndarray:
        return x[:, None, :, None] if self.rows else x[:, None, None, :]

    def axis(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest coordinate, laid along this side of the grid of blocks."""
        return self.lay(self.low[..., i]), self.lay(self.high[..., i])

    def extremes(self, data: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest of data that belongs to tokens, block by block.  b|1 count -> as `axis`"""
        # numpy has no bfloat16
        held = (data.float() if data.dtype is torch.bfloat16 else data).detach().cpu().numpy()
        return self.lay(blockwise(np.minimum, held, self.block)), self.lay(blockwise(np.maximum, held, self.block))


def lost(here: Bounds, there: Bounds) -> Any:
    """Blocks in which some row or some column has no place."""
    return here.lay(here.nowhere) | there.lay(there.nowhere)


def blockwise(reduce: np.ufunc, x: np.ndarray, block: int) -> np.ndarray:
    """b count ... -> b blocks ...: an associative reduction over each run of `block` along axis 1."""
    return reduce.reduceat(x, np.arange(0, x.shape[1], block), axis=1)


def sides(where: Where, n: int, m: int, b: int, device: torch.device) -> tuple[Side, Side]:
    """The two sides of attention of n queries over m keys, from what `where` may be (see `attend`)."""
    if where is None:
        here = there = None
    elif isinstance(where, Tensor):
        if n > m:
            raise RegardError(
                f"where is one tensor, whose last n places are the queries', but there are n={n} queries "
                f"for m={m} keys; give a pair (here, there)"
            )
        there = spread(where, m, b, "where", device)
        here = there[:, m - n :]
    elif not isinstance(where, tuple) or len(where) != 2:
        raise RegardError(f"where must be a tensor, or a pair (here, there) of tensors, got {type(where).__name__}")
    else:
        here, there = spread(where[0], n, b, "where[0]", device), spread(where[1], m, b, "where[1]", device)
        if here.shape[-1] != there.shape[-1]:
            raise RegardError(
                f"queries and keys must have the same number of axes, got {here.shape[-1]} and "
                f"{there.shape[-1]} in where"
            )
    return (Side(True, n, slice(0, n), m - n, here, device), Side(False, m, slice(0, m), 0, there, device))


def spread(where: Tensor, n: int, b: int, name: str, device: torch.device) -> Tensor:
    """n, b n or b n s -> b|1 n s"""
    if not isinstance(where, Tensor):
        raise RegardError(f"{name} must be a tensor of coordinates, got {type(where).__name__}; use torch.tensor(...)")
    shape = tuple(where.shape)
    if where.dim() == 1:
        laid = where[None, :, None]
    else:
        laid = where[..., None] if where.dim() == 2 else where
    if laid.dim() != 3 or laid.shape[1] != n or laid.shape[0] not in (1, b) or laid.shape[2] == 0:
        axes = "; a place has at least one axis" if shape[-1:] == (0,) and len(shape) == 3 else ""
        raise RegardError(f"{name} must have the shape n, b n or b n s with n={n} and b={b}, got {shape}{axes}")
    if laid.dtype == torch.bool or laid.is_complex():
        raise RegardError(f"{name} must hold numbers (coordinates), got {where.dtype}")
    if laid.device != device:
        raise RegardError(
            f"{name} must be on {device} like the queries, got {laid.device}; use {name}.to({str(device)!r})"
        )
    return laid.detach()
