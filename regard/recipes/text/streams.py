"""A text as streams that are read in order, for models that remember what came before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from regard.data.array import Array
from regard.data.batch import Batch, generator
from regard.errors import RegardError
from regard.recipes.text.dataset import TextSource

MEMORIES = 8  # a stretch to be judged is at least so many memories long, so that most of it is read with a full one


class StreamSource(TextSource):
    """Segments in order: row i of each batch goes on where row i of the batch before ended.   tokens, target: b n

    The train split is cut into as many streams as a batch has rows, all of one length. At the end of an epoch
    all begin again, up to a segment later, as the seed and the epoch say, and nothing is remembered. Validation
    and test batches hold long stretches, which follow each other without gap or overlap.
    """

    whole = "each row goes on where it ended in the batch before, with a memory"  # why it is one process' work

    def __init__(
        self, ids: Array, split: int, batch: int, context: int, seed: int, end: int | None = None, *, memory: int
    ) -> None:
        super().__init__(ids, split, batch, context, seed, end)
        self.memory = memory

    def batch(self, step: int) -> Batch:
        segments = (self.split - 1) // (self.rows * self.context)
        if segments == 0:
            raise RegardError(
                f"{self.split:,} tokens are too few for {self.rows} streams of segments of {self.context}; use "
                f"--train.batch {(self.split - 1) // self.context} or less, a smaller --data.context, or more text"
            )
        epoch, place = divmod(step, segments)
        spare = self.split - 1 - self.rows * segments * self.context
        first = int(generator(self.seed, epoch).integers(0, min(self.context, spare + 1)))
        starts = first + np.arange(self.rows) * segments * self.context + place * self.context
        return self._windows(starts).replace(follows=place > 0)

    def _between(self, first: int, end: int) -> Iterator[Batch]:
        """Stretches that predict the tokens first … end − 1."""
        stretch = max(MEMORIES * self.memory // self.context, 1) * self.context
        count = -(-(end - first) // stretch)
        starts = first - 1 + stretch * np.arange(count)
        for place in range(0, count, self.rows):
            some = starts[place : place + self.rows]
            longest = min(stretch, end - 1 - int(some[0]))
            yield self._windows(some, end, longest)


def make_source(
    ids: Array, split: int, batch: int, context: int, seed: int, end: int | None = None, *, memory: int = 0
) -> TextSource:
    """Windows drawn at random, or with a memory segments in order."""
    if memory:
        return StreamSource(ids, split, batch, context, seed, end, memory=memory)
    return TextSource(ids, split, batch, context, seed, end)
