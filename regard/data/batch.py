"""Batches, and where they come from. A source is asked by number: the batch of step 700 is the same whatever
was asked before, in this process or another, so going on after a stop needs nothing but the step.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from regard.data.array import Array
from regard.errors import RegardError
from regard.shapes import expect

IGNORE = -100  # a target that is not to be predicted


@dataclass(frozen=True, eq=False)
class Batch(Mapping[str, Any]):
    """The inputs of a model by the names of its forward, and the target.

    It knows no kind of data: what a tensor is, its name says. The first input is the one that the model cannot do
    without; an input that is None is left out.
    """

    inputs: Mapping[str, Any]
    # b ids, b n ids (IGNORE where there is no target), b values; None: the batch has inputs alone
    target: Tensor = None  # type: ignore[assignment]
    rows: int = 0  # how many examples; 0: as many as the first input has rows
    size: int = 0  # how much work it is, such as tokens with their padding; 0: as many as examples
    # (batch, part, parts) -> one of several slices, where not each tensor has the examples as its first axis
    cut: Callable[[Batch, int, int], Any] | None = None

    def __post_init__(self) -> None:
        inputs = {name: x for name, x in self.inputs.items() if x is not None}
        rows = self.rows or len(next(iter(inputs.values())))
        made = {"inputs": inputs, "rows": rows, "size": self.size or rows}
        for name, value in made.items():
            object.__setattr__(self, name, value)
        if self.cut is None:
            for name, x in {**inputs, "target": self.target}.items():
                if isinstance(x, Tensor) and x.shape[:1] != (rows,):
                    raise RegardError(
                        f"all inputs and the target must have the same number of rows, got {rows} and "
                        f"{tuple(x.shape)} in {name}"
                    )
        real = inputs.get("real")
        if real is not None:
            if real.dtype != torch.bool:
                raise RegardError(f"real must be a bool tensor 'b n', True = real, got {real.dtype}")
            expect(real, "b n", name="real", b=rows, n=next(iter(inputs.values())).shape[1])

    def __getitem__(self, name: str) -> Any:
        return self.inputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.inputs)

    def __len__(self) -> int:
        return len(self.inputs)

    __eq__, __hash__ = object.__eq__, object.__hash__

    def replace(self, target: Tensor | None = None, **inputs: Any) -> Batch:
        """The same batch with some other inputs, or with another target."""
        changed = self.target if target is None else target
        return replace(self, inputs={**self.inputs, **inputs}, target=changed)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        moved = {name: x.to(device) if hasattr(x, "to") else x for name, x in self.inputs.items()}
        target = None if self.target is None else self.target.to(device)
        return replace(self, inputs=moved, target=target)


@runtime_checkable
class Source(Protocol):
    """Batches by number. batch(step) depends on the seed and the step alone, so resuming needs nothing but
    the step.

    For several processes: a source whose batches cannot be cut into rows says why in `whole`; one that can
    read some rows of a batch without the others has `slice(step, part, parts)` (slices.py)."""

    def batch(self, step: int) -> Batch:
        """The training batch of step 0, 1, 2, ..."""
        ...

    def validation(self) -> Iterator[Batch]:
        """The whole validation split, in the same order every time."""
        ...


# ── what sources share


class Epochs:
    """Which rows each step takes: an order for each epoch, drawn by (seed, epoch), cut into batches of one
    size.

    The rows that do not fill a last batch are left out, other ones in each epoch. With `lengths`, rows of
    like length come together (sorted within stretches of STRETCH batches, then the batches are shuffled), so
    that there is little padding.
    """

    STRETCH = 50

    def __init__(self, rows: Array, batch: int, seed: int, lengths: Array | None = None) -> None:
        if batch < 1:
            raise RegardError(f"batch must be at least 1, got {batch}")
        self.all, self.seed, self.lengths = rows, seed, lengths
        self.batch = min(batch, len(rows))
        self.steps = len(rows) // self.batch
        self._kept: tuple[int, Array] = (-1, rows)  # the last epoch, to draw each order once

    def rows(self, step: int) -> Array:
        """The rows of this step."""
        epoch, place = divmod(step, self.steps)
        if self._kept[0] != epoch:
            self._kept = (epoch, self._order(epoch))
        rows: Array = self._kept[1][place]
        return rows

    def _order(self, epoch: int) -> Array:
        random = generator(self.seed, 1, epoch)
        order = random.permutation(self.all)[: self.steps * self.batch]
        if self.lengths is not None:
            stretch = np.arange(len(order)) // (self.STRETCH * self.batch)
            order = order[np.lexsort((self.lengths[order], stretch))]
            return random.permutation(order.reshape(self.steps, self.batch))
        return order.reshape(self.steps, self.batch)


def generator(seed: int, *numbers: int) -> np.random.Generator:
    """Random numbers for this seed and these numbers (a step, an epoch), the same in every process."""
    return np.random.default_rng([number % 2**64 for number in (seed, *numbers)])


def held_out(count: int, share: float, without: str = "--data.validation 0") -> int:
    """The number of rows in the validation split: at least one if share > 0, and at least one stays for
    training. without: what is given to train without the split"""
    if not 0 <= share < 1:
        raise RegardError(f"validation is a share of the rows: at least 0 and below 1, got {share}")
    if share and count < 2:
        rows = "is 1 row" if count == 1 else f"are {count} rows"
        raise RegardError(
            f"there {rows}, too few for a validation split; give more rows, or train without one: {without}"
        )
    if share:
        return min(count - 1, max(1, round(count * share)))
    return 0


def pad_rows(rows: Sequence[Array], context: int | None = None) -> tuple[Tensor, Tensor | None]:
    """Rows of ids in one tensor, as long as the longest, and which slots are real (None: all).
    b n, bool b n

    Rows longer than `context` are cut off at their end. What is no token is 0 and not real.
    """
    rows = [row[:context] for row in rows]
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    real = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
    tokens = np.zeros(real.shape, dtype=np.int64)
    tokens[real] = np.concatenate(rows) if rows else 0
    return torch.from_numpy(tokens), None if real.all() else torch.from_numpy(real)


# ── rows that are packed


def pack_rows(lengths: Sequence[int], most: int, order: Iterable[int]) -> list[list[int]]:
    """The texts of each row, by their numbers; a row has at most `most` tokens. Each text goes, in this order, where
    the least room is left that it fits into (best fit)."""
    rows: list[list[int]] = []
    room: list[tuple[int, int]] = []  # (tokens left, row), sorted
    for text in order:
        length = lengths[text]
        place = bisect_left(room, (length, -1))
        if place == len(room):
            left, row = most, len(rows)
            rows.append([])
        else:
            left, row = room.pop(place)
        rows[row].append(text)
        if left > length:
            insort(room, (left - length, row))
    return rows
