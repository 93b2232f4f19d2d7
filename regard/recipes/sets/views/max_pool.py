"""Which tokens decide a max pool: those that have the largest value of a channel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.nn.pool import MaxPool


@dataclass(frozen=True, eq=False)
class Maximum:
    """One call of one pool."""

    name: str
    call: int
    has: Tensor  # bool n c: which tokens have the largest value of a channel; several may share it

    @property
    def alone(self) -> Tensor:
        """In how many channels a token alone has the largest value, and so decides it.   n"""
        return (self.has & (self.has.sum(0) == 1)).sum(1)


@contextmanager
def maxima(model: nn.Module) -> Iterator[list[Maximum]]:
    """Every max pool that the model computes inside the block, for the first row of the batch."""
    found: list[Maximum] = []
    calls: dict[str, int] = {}
    handles = []

    def heard(name: str) -> Any:
        def hook(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], out: Tensor) -> None:
            x, real = (*given, None)[:2]
            real = named.get("real", real)
            calls[name] = calls.get(name, -1) + 1
            has = x[0] == out[0]  # n d
            if real is not None:
                has = has & real[0][:, None]
            found.append(Maximum(name, calls[name], has.detach().cpu()))

        return hook

    try:
        for name, module in model.named_modules():
            if isinstance(module, MaxPool):
                handles.append(module.register_forward_hook(heard(name), with_kwargs=True))
        yield found
    finally:
        for handle in handles:
            handle.remove()


def enough(found: list[Maximum]) -> Tensor:
    """Tokens that are enough for all these maxima: each that decides a channel alone, and one of each tie.
    m"""
    has = torch.cat([each.has for each in found], 1)
    kept = torch.stack([each.alone > 0 for each in found]).any(0)
    while len(left := (has.any(0) & ~has[kept].any(0)).nonzero()):
        kept[int(has[:, left[0, 0]].int().argmax())] = True
    return kept.nonzero()[:, 0]
