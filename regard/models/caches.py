"""What a model keeps of the past while it writes: a cache for each block, and the tokens that came last; without attention a
fixed number of tensors, however long the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from regard.attention.approximate.performer import FeatureCache
from regard.attention.cache import Cache, SegmentMemory, WindowCache, token_axis
from regard.errors import RegardError


class Caches(list[Cache]):
    """One cache for each block. `before`: ids and places of each row's last tokens (b k each), which runs
    look back on."""

    def __init__(self, caches: Iterable[Cache]) -> None:
        super().__init__(caches)
        self.before: tuple[Tensor, Tensor] | None = None

    def begin(self) -> None:
        """New tokens follow."""
        for cache in self:
            cache.begin()

    def take(self, rows: Tensor) -> None:
        """Row i goes on from what row rows[i] has read. As many rows as before are moved in place, and those that
        stay where they are not at all."""
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        for cache in self:
            for name, x in cache.store.items():
                # a window uses any slot, a memory all it has, a sum has none
                if isinstance(cache, WindowCache | SegmentMemory | FeatureCache):
                    used = x.shape[token_axis(name)]
                else:
                    used = cache.count
                cache.store[name] = _moved(x, rows, moved, token_axis(name), used)
            if cache.seen is None:
                cache.seen = None
            else:
                cache.seen = cache.seen[rows]
        if self.before is not None:
            self.before = (self.before[0][rows], self.before[1][rows])


class Memories(Caches):
    """What a model remembers of streams that it reads segment by segment: a SegmentMemory for each block.

    `tensors` and `load` carry it from one process to another.
    """

    def __init__(self, length: int, depth: int) -> None:
        super().__init__(SegmentMemory(length) for _ in range(depth))

    def tensors(self) -> dict[str, Tensor]:
        """Everything it remembers, by name."""
        self.begin()
        found = {f"{i}.{name}": x for i, cache in enumerate(self) for name, x in cache.store.items()}
        if self[0].seen is not None:
            found["seen"] = self[0].seen
        if self.before is not None:
            found |= {"before.ids": self.before[0], "before.places": self.before[1]}
        return found | {"count": torch.tensor(self[0].count)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Remember what `tensors` gave."""
        for i, cache in enumerate(self):
            own = {name: x for name, x in tensors.items() if name.startswith(f"{i}.")}
            cache.store = {name.partition(".")[2]: x for name, x in own.items()}
            cache.count, cache.seen = int(tensors["count"]), tensors.get("seen")
        if "before.ids" in tensors:
            self.before = (tensors["before.ids"], tensors["before.places"])


def step_with_caches(model: Any, inputs: dict[str, Any], caches: Any) -> tuple[Tensor, Any]:
    """Decoding with a cache, as `check` asks for it."""
    if caches is None:
        caches = model.caches()
    return model(**inputs, caches=caches), caches


def _moved(x: Tensor, rows: Tensor, moved: Tensor, axis: int, used: int) -> Tensor:
    """x[rows], of which only the first `used` tokens along the axis hold anything; moved: where rows[i] ≠ i"""
    part = x.narrow(axis, 0, used)
    if len(rows) == len(x):
        part.index_copy_(0, moved, part.index_select(0, rows[moved]))  # (ten times as fast as part[rows])
        return x
    room = torch.zeros((len(rows), *x.shape[1:]), dtype=x.dtype, device=x.device)
    room.narrow(axis, 0, part.shape[axis]).copy_(part.index_select(0, rows))
    return room


class States:
    """Tensors by their names, each with a row for each sequence. Empty before the first token.

    As a cache of attention it is for writing, not for training: it refuses gradients.
    """

    def __init__(self) -> None:
        self.held: dict[str, Tensor] = {}

    def take(self, rows: Tensor) -> None:
        """Row i goes on from what row rows[i] has read."""
        self.held = {name: x.index_select(0, rows) for name, x in self.held.items()}

    def keep(self, **tensors: Tensor) -> None:
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors.values()):
            raise RegardError(
                "a cache carries no gradients, so training through it would be wrong in silence; use torch.no_grad()"
            )
        self.held |= tensors
