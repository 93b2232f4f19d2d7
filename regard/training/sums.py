"""Sums over the batches of an evaluation, and over the processes that share it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from regard.data.batch import Batch

Count = Tensor | int
Numbers = Mapping[str, list[float]]
_over_ranks: ContextVar[Callable[[Numbers], dict[str, list[float]]] | None] = ContextVar("over_ranks", default=None)


class Numbered:
    """Some batches of a split, each with its number in the split."""

    def __init__(self, pairs: Iterable[tuple[int, Batch]]) -> None:
        self.pairs = pairs

    def __iter__(self) -> Iterator[Batch]:
        return (batch for _, batch in self.pairs)


def number_batches(batches: Iterable[Batch]) -> Iterable[tuple[int, Batch]]:
    """Batches with their numbers in the split: what an evaluation draws depends on these."""
    if isinstance(batches, Numbered):
        return batches.pairs
    return enumerate(batches)


@contextmanager
def summing_over_ranks(add: Callable[[Numbers], dict[str, list[float]]]) -> Iterator[None]:
    """Within, `add_up` adds what all processes have."""
    token = _over_ranks.set(add)
    try:
        yield
    finally:
        _over_ranks.reset(token)


def add_up(numbers: Numbers) -> dict[str, list[float]]:
    """The sum over all processes that share an evaluation, name by name; of one process, what it gave."""
    add = _over_ranks.get()
    if add is None:
        return dict(numbers)
    return add(numbers)


class Sums:
    """Sums over batches in float64, read from the device only once, at the end."""

    def __init__(self) -> None:
        self.count: Count = 0
        self.totals: dict[str, Tensor] = {}

    def add(self, count: Count, **totals: Tensor) -> None:
        self.count = self.count + count
        for name, total in totals.items():
            exact = total.detach().to("cpu" if total.device.type == "mps" else total.device, torch.float64)
            if name in self.totals:
                self.totals[name] = self.totals[name] + exact
            else:
                self.totals[name] = exact

    def means(self) -> dict[str, float]:
        """The sums divided by the count, over all processes."""
        found = {name: [float(total)] for name, total in self.totals.items()}
        whole = add_up({**found, "": [float(int(self.count))]})
        count = int(whole.pop("")[0])
        if count:
            return {name: total[0] / count for name, total in whole.items()}
        return {}
