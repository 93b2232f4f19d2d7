"""Batches of tensors, or of any torch Dataset."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from regard.data.array import Array
from regard.data.batch import Batch, generator, held_out
from regard.data.row_source import RowSource
from regard.data.slices import Slice, slice_batch
from regard.errors import RegardError


class TensorSource(RowSource):
    """Rows of a pair of tensors (tokens, target), or of any torch Dataset of such pairs, in shuffled batches.

    `validation` is the share of rows, drawn by the seed, that training never sees; or a pair or Dataset of
    its own. An epoch is one order of the rows, drawn by (seed, epoch); the rows left over when they do not
    fill a batch differ from epoch to epoch. A third tensor, bool b n, is `real`.
    """

    def __init__(self, data: Any, batch: int = 32, seed: int = 0, validation: Any = 0.1) -> None:
        self._data = self._held_data = _rows(data)
        rows = np.arange(_length(self._data))
        if isinstance(validation, int | float):
            count = held_out(len(rows), validation)
            order = generator(seed, 0).permutation(rows)
            self._held, rows = np.sort(order[:count]), np.sort(order[count:])
        else:
            self._held_data = _rows(validation)
            self._held = np.arange(_length(self._held_data))
        super().__init__(partial(_take, self._data), rows, batch, seed)

    def slice(self, step: int, part: int, parts: int) -> Slice:
        found = super().slice(step, part, parts)
        if "real" not in found.batch:
            return found
        return slice_batch(self.batch(step), part, parts)  # which has to know the padding of all rows

    def validation(self) -> Iterator[Batch]:
        for start in range(0, len(self._held), self.rows):
            yield _take(self._held_data, self._held[start : start + self.rows])


def _rows(data: Any) -> Any:
    if isinstance(data, Dataset):
        return data
    if not (isinstance(data, tuple | list) and len(data) in (2, 3) and all(isinstance(each, Tensor) for each in data)):
        raise RegardError(
            f"data must be a pair of tensors (tokens, target) or a torch Dataset of such pairs, got {_say(data)}"
        )
    counts = [len(each) if each.dim() else 0 for each in data]
    if len(set(counts)) > 1:
        raise RegardError(f"the tensors must have the same number of rows, got {' and '.join(map(str, counts))}")
    return tuple(data)


def _length(data: Any) -> int:
    try:
        if isinstance(data, tuple):
            count = len(data[0])
        else:
            count = len(data)
    except TypeError as error:
        raise RegardError(
            f"{type(data).__name__} has no __len__, so its number of rows is unknown; give a Dataset with __len__"
        ) from error
    if count == 0:
        raise RegardError("the data has no rows; give at least one")
    return count


def _take(data: Any, rows: Array) -> Batch:
    if isinstance(data, tuple):
        return _batch(*(each[torch.from_numpy(rows)] for each in data))
    items = [data[int(row)] for row in rows]
    if not (isinstance(items[0], tuple | list) and len(items[0]) in (2, 3)):
        raise RegardError(f"each row of the Dataset must be a pair (tokens, target), got {_say(items[0])}")
    return _batch(*default_collate([tuple(item) for item in items]))


def _batch(x: Tensor, target: Tensor, real: Tensor | None = None) -> Batch:
    """Ids are tokens of sequences, and so are steps b n d; anything else is one input for each example."""
    ids = x.dim() == 2 and not x.is_floating_point()
    sequences = ids or x.dim() == 3
    size = x.shape[0] * x.shape[1] if sequences else 0
    return Batch({"tokens" if ids else "x": x, "real": real}, target, size=size)


def _say(data: Any) -> str:
    if isinstance(data, tuple | list):
        return f"{type(data).__name__} of {len(data)}"
    return type(data).__name__
