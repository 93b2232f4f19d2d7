"""Shuffled batches of rows that can be read one by one: images, measurements, tensors, rows of a Dataset."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

from regard.data.array import Array
from regard.data.batch import Batch, Epochs, generator, held_out
from regard.data.slices import Slice, slice_batch, take_slice
from regard.errors import RegardError

TARGETS = ("labels", "label", "target")  # what the target of a row is called
AHEAD = 2  # batches that are read while a step is computed


class RowSource:
    """Batches of rows, which depend on (seed, step) alone. take: the batch of some rows, without padding

    slow: rows take long to read (from files), so the next ones are read while a step is computed. Of several
    processes, each reads its own rows.
    """

    def __init__(self, take: Callable[[Array], Batch], rows: Array, batch: int, seed: int, slow: bool = False) -> None:
        self._take, self._epochs = take, Epochs(rows, batch, seed)
        self.rows = self._epochs.batch  # of a batch
        self._reader = ThreadPoolExecutor(1) if slow else None
        self._coming: dict[tuple[int, int, int], Future[Batch]] = {}

    def batch(self, step: int) -> Batch:
        return self._read(step, 0, self.rows)

    def slice(self, step: int, part: int, parts: int) -> Slice:
        """The rows of one of several processes."""
        return take_slice(partial(self._read, step), self.rows, part, parts)

    def _read(self, step: int, first: int, last: int) -> Batch:
        if self._reader is None:
            return self._take(self._epochs.rows(step)[first:last])
        wanted = [(each, first, last) for each in range(step, step + 1 + AHEAD)]
        for each in wanted:
            if each not in self._coming:
                rows = self._epochs.rows(each[0])[first:last]
                self._coming[each] = self._reader.submit(self._take, rows)
        found = self._coming[wanted[0]].result()
        self._coming = {each: self._coming[each] for each in wanted[1:]}
        return found


# ── tensors, and torch Datasets


class TensorSource(RowSource):
    """Rows of a pair of tensors or arrays (tokens, target), of any torch Dataset of such pairs or of dicts, or of what a
    DataLoader reads and collates, in shuffled batches. The target of a dict is its item "labels", "label" or "target".

    `validation` is the share of rows, drawn by the seed, that training never sees; or a pair or Dataset of
    its own. An epoch is one order of the rows, drawn by (seed, epoch); the rows left over when they do not
    fill a batch differ from epoch to epoch. A third tensor, bool b n, is `real`. dtype: of what is float64
    """

    def __init__(
        self, data: Any, batch: int = 32, seed: int = 0, validation: Any = 0.1, dtype: torch.dtype | None = None
    ) -> None:
        self._dtype = dtype
        self._collate = data.collate_fn if isinstance(data, DataLoader) else default_collate
        self._data = self._held_data = _rows(data)
        rows = np.arange(_length(self._data))
        if isinstance(validation, int | float):
            count = held_out(
                len(rows), validation, "data=TensorSource(data, validation=0) (from regard.data.row_source)"
            )
            order = generator(seed, 0).permutation(rows)
            self._held, rows = np.sort(order[:count]), np.sort(order[count:])
        else:
            self._held_data = _rows(validation)
            self._held = np.arange(_length(self._held_data))
        super().__init__(partial(self._gather, self._data), rows, batch, seed)

    def slice(self, step: int, part: int, parts: int) -> Slice:
        found = super().slice(step, part, parts)
        if "real" not in found.batch:
            return found
        return slice_batch(self.batch(step), part, parts)  # which has to know the padding of all rows

    def validation(self) -> Iterator[Batch]:
        for start in range(0, len(self._held), self.rows):
            yield self._gather(self._held_data, self._held[start : start + self.rows])

    def _gather(self, data: Any, rows: Array) -> Batch:
        if isinstance(data, tuple):
            return _batch(*(self._cast(each[torch.from_numpy(rows)]) for each in data))
        items = [data[int(row)] for row in rows]
        if isinstance(items[0], tuple | list) and len(items[0]) in (2, 3):
            items = [tuple(item) for item in items]
        elif not isinstance(items[0], Mapping):
            raise RegardError(
                f"each row of the Dataset must be a pair (tokens, target) or a dict, got {_say(items[0])}"
            )
        found = self._collate(items)
        if isinstance(found, Mapping):
            return _batch_of({name: self._cast(each) for name, each in found.items()})
        if not (isinstance(found, tuple | list) and len(found) in (2, 3)):
            raise RegardError(f"collate_fn must give a pair (tokens, target) or a dict, got {_say(found)}")
        return _batch(*map(_check_tensor, map(self._cast, found)))

    def _cast(self, x: Any) -> Any:
        """float64 as what the model computes with."""
        return x.to(self._dtype) if isinstance(x, Tensor) and x.dtype == torch.float64 and self._dtype else x


def _rows(data: Any) -> Any:
    if isinstance(data, DataLoader):
        data = data.dataset
    if isinstance(data, list) and data and isinstance(data[0], Mapping | tuple):
        return data
    if isinstance(data, str | bytes | os.PathLike):
        raise RegardError(f"data must be in memory, as (x, y), got a path: {os.fspath(data)!r}; a path is for a recipe")
    if isinstance(data, Mapping) or type(data).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow"):
        raise RegardError(
            f"data must be a pair of tensors or arrays, got a {_say(data)}; give its columns as (x, y), such as "
            "(numbers, labels)"
        )
    if isinstance(data, tuple | list):
        data = tuple(_tensor(each) if isinstance(each, np.ndarray) else each for each in data)
    elif hasattr(data, "__getitem__") and not isinstance(data, Tensor | np.ndarray):
        return data
    if not (isinstance(data, tuple) and len(data) in (2, 3) and all(isinstance(each, Tensor) for each in data)):
        raise RegardError(
            "data must be a pair of tensors or arrays (tokens, target), a Dataset (or list) of such pairs or of dicts, or "
            f"a DataLoader of one, got {_say(data)}"
        )
    counts = [len(each) if each.dim() else 0 for each in data]
    if len(set(counts)) > 1:
        raise RegardError(f"the tensors must have the same number of rows, got {' and '.join(map(str, counts))}")
    return tuple(data)


def _length(data: Any) -> int:
    try:
        count = len(data[0]) if isinstance(data, tuple) else len(data)
    except TypeError as error:
        raise RegardError(
            f"{type(data).__name__} has no __len__, so its number of rows is unknown; give a Dataset with __len__"
        ) from error
    if count == 0:
        raise RegardError("the data has no rows; give at least one")
    return count


def _tensor(array: Array) -> Tensor:
    """An array with the numbers that layers compute with."""
    if array.dtype.kind not in "biufc":
        raise _no_numbers(array.dtype)
    found = torch.from_numpy(np.ascontiguousarray(array))
    if found.is_floating_point():
        return found.to(torch.get_default_dtype())
    return found if found.dtype == torch.bool else found.long()


def _batch(x: Tensor, target: Tensor, real: Tensor | None = None) -> Batch:
    """Ids are tokens of sequences, and so are steps b n d; anything else is one input for each example."""
    ids = x.dim() == 2 and not x.is_floating_point()
    sequences = ids or x.dim() == 3
    size = x.shape[0] * x.shape[1] if sequences else 0
    return Batch({"tokens" if ids else "x": x, "real": real}, target, size=size)


def _batch_of(inputs: dict[str, Any]) -> Batch:
    """Inputs by the names of a forward, and the target among them."""
    name = next((name for name in TARGETS if name in inputs), None)
    if name is None:
        raise RegardError(f"a row must have one of {', '.join(TARGETS)}, got {', '.join(map(str, inputs))}")
    target = _check_tensor(inputs.pop(name))
    return Batch({key: each for key, each in inputs.items() if isinstance(each, Tensor)}, target, size=0)


def _check_tensor(x: Any) -> Tensor:
    if not isinstance(x, Tensor):
        raise _no_numbers(_say(x))
    return x


def _no_numbers(what: Any) -> RegardError:
    return RegardError(
        f"data must be numbers, got {what}; number labels from 0: np.unique(labels, return_inverse=True)[1]"
    )


def _say(data: Any) -> str:
    if isinstance(data, tuple | list):
        return f"{type(data).__name__} of {len(data)}"
    return type(data).__name__
