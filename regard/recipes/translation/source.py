"""Batches of pairs by number of tokens, in buckets of similar length, so that there is little padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.data.array import Array
from regard.data.batch import Batch, Source, generator
from regard.data.splits import SPLITS, TRAIN
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.processor import Encoded
from regard.recipes.translation.processor import PairProcessor

WIDER = 1.15  # lengths in a bucket differ by this factor, and by two tokens
LEAST = 4  # batches that a bucket has at least: fewer would always hold the same pairs


@dataclass(eq=False, kw_only=True)
class PairSource(Source):
    """Pairs in batches, as `PairProcessor.collate` makes them.

    A bucket holds training pairs of similar length (that of the longer side), and gives batches of `tokens`
    tokens, or of `most` pairs if that is less. An epoch is one order of the pairs of each bucket and one order
    of all batches, both drawn by (seed, epoch); it has the same number of batches each time, so that the batch
    of a step depends on nothing but seed and step.
    """

    examples: Examples
    processor: PairProcessor
    pairs: Sequence[Encoded]  # of the examples; empty if in no split
    splits: Array  # uint8 n
    tokens: int
    most: int
    seed: int

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.most < 1:
            raise RegardError(f"a batch needs at least one token and one pair, got {self.tokens} and {self.most}")
        self.lengths = np.array([max(map(len, pair.values()), default=0) for pair in self.pairs], dtype=np.int64)
        self._kept: tuple[int, list[Array]] = (-1, [])  # the last epoch, to draw each order once

    @cached_property
    def buckets(self) -> list[Array]:
        return self._cut_into_buckets(np.flatnonzero(self.splits == TRAIN))

    @cached_property
    def steps(self) -> int:
        """Batches of an epoch."""
        return sum(len(self._parts(bucket)) for bucket in self.buckets)

    def batch(self, step: int) -> Batch:
        epoch, place = divmod(step, self.steps)
        if self._kept[0] != epoch:
            self._kept = (epoch, self._draw_epoch(epoch))
        return self._take(self._kept[1][place])

    def validation(self) -> Iterator[Batch]:
        return self.of("validation")

    def of(self, split: str) -> Iterator[Batch]:
        """All pairs of a split, the same every time."""
        return (self._take(part) for part in self._in_order(split))

    def order(self, split: str) -> Array:
        """The numbers of the pairs of a split, in the order of its batches."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *self._in_order(split)])

    def rows(self, split: str) -> Array:
        """The same, in the order of the data."""
        return np.flatnonzero(self.splits == SPLITS[split])

    def _in_order(self, split: str) -> list[Array]:
        """Pairs sorted by length, in batches."""
        rows = self.rows(split)
        rows = rows[np.argsort(self.lengths[rows], kind="stable")]
        found: list[Array] = []
        start = 0
        while start < len(rows):
            stop = start + 1
            while stop < len(rows) and stop - start < self._fits(self.lengths[rows[stop]]):
                stop += 1
            found.append(rows[start:stop])
            start = stop
        return found

    def _fits(self, length: int) -> int:
        """How many pairs of this length a batch has at most."""
        return max(1, min(self.most, self.tokens // int(length)))

    def _cut_into_buckets(self, rows: Array) -> list[Array]:
        rows = rows[np.argsort(self.lengths[rows], kind="stable")]
        found: list[Array] = []
        start = 0
        for place in range(1, len(rows) + 1):
            first = self.lengths[rows[start]]
            if place < len(rows):
                near = self.lengths[rows[place]] <= first * WIDER + 2
                few = place - start < LEAST * self._fits(self.lengths[rows[place - 1]])
                left = len(rows) - place < LEAST * self._fits(self.lengths[rows[-1]])
                if near or few or left:
                    continue
            found.append(rows[start:place])
            start = place
        return found

    def _parts(self, bucket: Array) -> list[Array]:
        """A bucket in batches of nearly the same size."""
        most = self._fits(self.lengths[bucket].max())
        return np.array_split(bucket, -(-len(bucket) // most))

    def _draw_epoch(self, epoch: int) -> list[Array]:
        random = generator(self.seed, 1, epoch)
        parts = [part for bucket in self.buckets for part in self._shuffle(bucket, random)]
        return [parts[place] for place in random.permutation(len(parts))]

    def _shuffle(self, bucket: Array, random: np.random.Generator) -> list[Array]:
        bounds = np.cumsum([len(part) for part in self._parts(bucket)])[:-1]
        return np.split(random.permutation(bucket), bounds)

    def _take(self, rows: Array) -> Batch:
        return self.processor.collate([self.pairs[row] for row in rows])


def take_evenly(rows: Array, most: int) -> Array:
    """So many of some rows, or all if there are no more."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]
