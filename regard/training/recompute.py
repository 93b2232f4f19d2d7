"""Activation checkpointing for any model: activations are dropped in the forward pass and computed again in
the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.errors import RegardError


@contextmanager
def recomputing(model: nn.Module) -> Iterator[None]:
    """Within, each block of the model keeps only its input. The numbers stay the same, dropout too."""
    found = blocks(model)
    if not found:
        raise RegardError(
            f"recompute needs blocks to work on: {type(model).__name__} has no nn.ModuleList or "
            "nn.Sequential; leave it out"
        )
    for block in found:
        block.forward = _forgetful(block.forward)
    try:
        yield
    finally:
        for block in found:
            del block.forward  # the method of the class shows again


def blocks(model: nn.Module) -> list[nn.Module]:
    """The entries of the outermost lists of modules, or of sequences if there are no lists."""
    for container in (nn.ModuleList, nn.Sequential):
        found = [each for each in _outermost(model, container) if any(True for _ in each.parameters())]
        if found:
            return found
    return []


def _outermost(module: nn.Module, container: type[nn.Module]) -> Iterator[nn.Module]:
    if isinstance(module, container):
        yield from module.children()
    else:
        for child in module.children():
            yield from _outermost(child, container)


def _forgetful(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return run
