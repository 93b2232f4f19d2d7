"""Batches of pairs by number of tokens, in buckets of similar length, so that there is little padding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from regard.data.array import Array
from regard.data.batch import IGNORE, Batch, Source, generator, pad_rows
from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.errors import RegardError
from regard.recipes.translation.dataset import Corpus

WIDER = 1.15  # lengths in a bucket differ by this factor, and by two tokens
LEAST = 4  # batches that a bucket has at least: fewer would always hold the same pairs


class PairSource(Source):
    """Pairs in batches: tokens are sources b m, target are targets b n with their end, IGNORE beyond it.

    A bucket holds training pairs of similar length (that of the longer side), and gives batches of `tokens`
    tokens, or of `rows` pairs if that is less. An epoch is one order of the pairs of each bucket and one order
    of all batches, both drawn by (seed, epoch); it has the same number of batches each time, so that the batch
    of a step depends on nothing but seed and step.
    """

    def __init__(self, corpus: Corpus, *, tokens: int, rows: int, seed: int) -> None:
        if tokens < 1 or rows < 1:
            raise RegardError(f"a batch needs at least one token and one pair, got {tokens} and {rows}")
        self.corpus, self.tokens, self.most, self.seed = corpus, tokens, rows, seed
        pairs = zip(corpus.sources, corpus.targets, strict=True)
        self.lengths = np.array([max(map(len, pair)) for pair in pairs], dtype=np.int64)
        self.buckets = self._cut_into_buckets(corpus.rows(TRAIN))
        self.steps = sum(len(self._parts(bucket)) for bucket in self.buckets)  # of an epoch
        self._kept: tuple[int, list[Array]] = (-1, [])  # the last epoch, to draw each order once

    def batch(self, step: int) -> Batch:
        epoch, place = divmod(step, self.steps)
        if self._kept[0] != epoch:
            self._kept = (epoch, self._order(epoch))
        return self._take(self._kept[1][place])

    def validation(self) -> Iterator[Batch]:
        return self.batches(VALIDATION)

    def test(self) -> Iterator[Batch]:
        return self.batches(TEST)

    def batches(self, split: int) -> Iterator[Batch]:
        """All pairs of a split, the same every time."""
        return (self._take(part) for part in self._in_order(split))

    def rows_of(self, split: int) -> Array:
        """The numbers of the pairs of a split, in the order of its batches."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *self._in_order(split)])

    def _in_order(self, split: int) -> list[Array]:
        """Pairs sorted by length, in batches."""
        rows = self.corpus.rows(split)
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

    def _order(self, epoch: int) -> list[Array]:
        random = generator(self.seed, 1, epoch)
        parts = [part for bucket in self.buckets for part in self._shuffled(bucket, random)]
        return [parts[place] for place in random.permutation(len(parts))]

    def _shuffled(self, bucket: Array, random: np.random.Generator) -> list[Array]:
        bounds = np.cumsum([len(part) for part in self._parts(bucket)])[:-1]
        return np.split(random.permutation(bucket), bounds)

    def _take(self, rows: Array) -> Batch:
        source, source_real = pad_rows([self.corpus.sources[row] for row in rows])
        target, real = pad_rows([self.corpus.targets[row] for row in rows])
        if real is not None:
            target = torch.where(real, target, IGNORE)
        return Batch({"source": source, "real": source_real}, target, size=source.numel())
