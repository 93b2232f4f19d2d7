"""Weights that a model itself computed, kept with the values they were summed with until the proof is
done."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.attention.kernels.reference import heads_of
from regard.look.recording.calls import copy_detached
from regard.look.recording.source import Rows, Source, both_sums, quiet, sum_in_groups, wide

EACH_ROW = "bhnm,bhnme->bhne"  # every row has values of its own


class Kept(Source):
    """Weights that the model itself computed, and the values they were summed with."""

    def __init__(
        self, weights: Tensor, values: Tensor, out: Tensor, q: Tensor | None, k: Tensor | None
    ) -> None:
        self.kept, self.q, self.k, self.out = weights, q, k, out
        self.b, self.h, self.n, self.m = weights.shape
        self.values = values  # b h m e, or b h n m e when every row has values of its own
        self.v = values if values.dim() == 4 else None
        self.slots: Tensor | None = None  # where a row is among those that were held

    @classmethod
    def alone(cls, weights: Tensor, q: Tensor | None = None, k: Tensor | None = None) -> Kept:
        """Weights of which no sum with values is known."""
        return cls(weights, weights.mT[..., :0], weights[..., :0], q, k)

    def choose(self, heads: Sequence[int] | None, rows: Tensor | None) -> None:
        self.rows = rows
        if heads is None:
            return
        chosen = list(heads)
        self.kept, self.values, self.out = self.kept[:, chosen], self.values[:, chosen], self.out[:, chosen]
        self.q, self.k = (None if x is None else heads_of(x, self.h)[:, chosen] for x in (self.q, self.k))
        self.v = self.values if self.values.dim() == 4 else None
        self.h, self.numbers = len(chosen), tuple(chosen)

    def held(self, shelf: list[Tensor]) -> None:
        super().held(shelf)
        if self.rows is None:
            self.kept = copy_detached(self.kept)
        else:
            self.kept = copy_detached(self.kept[:, :, self.rows])
            self.slots = torch.zeros(self.n, dtype=torch.long).index_put(
                (self.rows,), torch.arange(len(self.rows))
            )
        self.values = self.values[..., :0]  # the proof is done

    def all_weights(self, rows: Rows) -> Tensor:
        return wide(self.kept[:, :, rows if self.slots is None else self.slots[rows]])

    def sums(self, weights: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        if self.values.dim() == 4:
            return both_sums(weights, self.values)
        values = wide(self.values[:, :, rows])
        weights = weights.to(values.dtype)
        sums = [torch.einsum(EACH_ROW, w, v) for w, v in ((weights, values), (weights.abs(), values.abs()))]
        return sums[0], sums[1]

    def group_values(self, group: Callable[[Tensor, torch.dtype], Tensor]) -> Tensor:
        return group(self.values, self.out.dtype)

    def weight_in_groups(self, groups: Tensor, weights: Tensor, rows: Rows) -> Tensor:
        if groups.dim() == 3:
            return super().weight_in_groups(groups, weights, rows)
        largest = sum_in_groups(groups[:, :, rows], weights.abs()).amax(-1)  # of each row
        return largest.sum(-1, keepdim=True)


def slim(source: Source) -> Source:
    """The same, holding its weights instead of keys and values, where a few queries look at many keys (a step
    with a cache)."""
    if (
        source.k is None
        or source.n >= source.m
        or source.b * source.h * source.n * source.m > source.k.numel()
    ):
        return source
    with quiet(source.out):
        weights = source.all_weights(slice(0, source.n))
    kept = Kept(weights, weights[..., :0], source.out, source.q, None)
    kept.v, kept.numbers, kept.rows, kept.among = None, source.numbers, source.rows, source.among
    return kept
