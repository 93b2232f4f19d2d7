"""Shuffled batches of rows that can be read one by one: images, measurements, rows of a Dataset."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from regard.data.array import Array
from regard.data.batch import Batch, Epochs
from regard.data.slices import Slice, take_slice

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
