"""What a model keeps of the past while it writes: a cache for each block, and the tokens that came last."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from regard.attention.cache import Cache, WindowCache, token_axis


class Caches(list[Cache]):
    """One cache for each block. `before`: ids and places of each row's last tokens (b k each), which runs
    look back on."""

    def __init__(self, caches: Iterable[Cache]) -> None:
        super().__init__(caches)
        self.before: tuple[Tensor, Tensor] | None = None

    def take(self, rows: Tensor) -> None:
        """Row i goes on from what row rows[i] has read. As many rows as before are moved in place, and those that
        stay where they are not at all."""
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        for cache in self:
            for name, x in cache.store.items():
                # a window uses any slot
                if isinstance(cache, WindowCache):
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


def _moved(x: Tensor, rows: Tensor, moved: Tensor, axis: int, used: int) -> Tensor:
    """x[rows], of which only the first `used` tokens along the axis hold anything; moved: where rows[i] ≠ i"""
    part = x.narrow(axis, 0, used)
    if len(rows) == len(x):
        part.index_copy_(0, moved, part.index_select(0, rows[moved]))  # (ten times as fast as part[rows])
        return x
    room = torch.zeros((len(rows), *x.shape[1:]), dtype=x.dtype, device=x.device)
    room.narrow(axis, 0, part.shape[axis]).copy_(part.index_select(0, rows))
    return room
