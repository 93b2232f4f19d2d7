"""Silencing heads of our own models: what a head would add is left out, everything else runs as ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from regard.attention.approximate.approximation import Approximation
from regard.errors import RegardError
from regard.nn.attention import Attention


@contextmanager
def silenced(model: nn.Module, heads: Iterable[tuple[str, int]]) -> Iterator[None]:
    """Inside the block these heads (name of the layer, number) add nothing."""
    wanted: dict[str, list[int]] = {}
    for name, head in heads:
        wanted.setdefault(name, []).append(head)
    layers = dict(model.named_modules())
    handles = []
    try:
        for name, numbers in wanted.items():
            layer = layers.get(name)
            if isinstance(layer, Approximation):  # it is recorded under its own name, inside the layer
                layer = layers.get(name.rpartition(".")[0])
            if not isinstance(layer, Attention):
                raise RegardError(
                    f"only heads of regard's own attention can be silenced, and {name or 'the model'!r} is "
                    "none"
                )
            if not all(0 <= head < layer.heads for head in numbers):
                raise RegardError(f"{name} has heads 0 … {layer.heads - 1}, got {numbers}")
            handles.append(layer.mix.register_forward_pre_hook(_without(layer.heads, numbers)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _without(heads: int, numbers: list[int]) -> Any:
    """A hook that clears the channels of some heads before they are mixed.   b n (h c)"""

    def clear(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        x = given[0].unflatten(-1, (heads, -1))
        quiet = torch.zeros(heads, 1, dtype=torch.bool, device=x.device)
        quiet[numbers] = True
        return (x.masked_fill(quiet, 0).flatten(-2), *given[1:])

    return clear


def can_silence(model: nn.Module) -> bool:
    return any(isinstance(module, Attention) for module in model.modules())
