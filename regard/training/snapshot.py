"""A copy of everything that a step changes, from which a checkpoint is written while the training goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.training.rules import local


class Snapshot:
    """The memory of the copy. It is kept for the next one: memory that is new to a process costs more time
    than the copy itself. What is on a GPU is copied into the memory of the machine."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], Any] = {}

    @torch.no_grad()
    def take(self, state: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """The same tensors, by file and name, in this memory."""
        found = {
            file: {name: self._copy((file, name), x) for name, x in part.items()}
            for file, part in state.items()
        }
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        return found

    def _copy(self, key: tuple[str, str], x: Any) -> Any:
        held = self.held.get(key)
        if held is None or held.shape != x.shape or held.dtype != x.dtype:
            held = self.held[key] = _make_room(x)
        local(held).copy_(local(x), non_blocking=True)
        return held


def _make_room(x: Any) -> Any:
    """Memory for a tensor like this one; a tensor of which each process has some rows stays where it is."""
    if local(x) is not x or x.device.type == "cpu":
        return torch.empty_like(x.detach(), memory_format=torch.contiguous_format)
    return torch.empty(x.shape, dtype=x.dtype, pin_memory=x.device.type == "cuda")


def all_finite(tensors: list[Tensor]) -> bool:
    """Are all numbers finite? Sums are read first: a sum is finite only if all its terms are."""
    sums = [x.detach().sum().double() for x in tensors if x.numel()]
    if not sums or bool(torch.stack(sums).isfinite().all()):
        return True
    return all(bool(x.detach().isfinite().all()) for x in tensors)
