"""Batches of steps in a row, a quarter of them around the end of an episode: few steps are ends, and all that is
known of *continue* is in them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from regard.data.array import Array
from regard.data.batch import Batch, Source, generator
from regard.recipes.world.store import EpisodeStore

AROUND_ENDS = 0.25


class EpisodeSource(Source):
    """Batch `number` depends on the seed, the number, and the episodes that there are.
    before: steps ahead of each row that are only looked back on"""

    def __init__(self, store: EpisodeStore, rows: int, length: int, seed: int, before: int = 0) -> None:
        self.store, self.rows, self.length, self.seed = store, rows, length, seed
        self.before = before

    def batch(self, step: int) -> Batch:
        random, store = generator(self.seed, 11, step), self.store
        at = random.choice(store.train_rows, self.rows)
        ends = int(AROUND_ENDS * self.rows)
        if len(store.end_rows):
            at[:ends] = random.choice(store.end_rows, ends)
        begins = store.all.starts[store.all.of[at]]
        first = np.maximum(begins, at - random.integers(self.length, size=self.rows))
        return store.all.chunk(first, self.length, self.before)

    def validation(self) -> Iterator[Batch]:
        return self._in_order(self.store.held_rows)

    def every(self) -> Iterator[Batch]:
        """All episodes, in order."""
        return self._in_order(np.arange(len(self.store.all)))

    def _in_order(self, rows: Array) -> Iterator[Batch]:
        if not len(rows):
            return
        episodes = self.store.all
        inside = rows - episodes.starts[episodes.of[rows]]
        first = rows[inside % self.length == 0]
        for start in range(0, len(first), self.rows):
            yield episodes.chunk(first[start : start + self.rows], self.length, self.before)
