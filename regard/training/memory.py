"""Memory of a training: activations that are dropped and computed again, and freed memory that is kept for the next step."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.errors import RegardError


@contextmanager
def recompute_activations(model: nn.Module) -> Iterator[None]:
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


# ── freed memory


# the parameters of mallopt(3), with glibc's names and numbers
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
NEVER = -1
# bytes: by default glibc maps larger blocks outside its heap
LARGEST = 2**25
USUAL = 2 * LARGEST  # unused bytes at the end of the heap that glibc keeps by default
LARGE = 2**23  # bytes: gathered blocks of weights that are worth it
ELSEWHERE = 2**16  # how many blocks glibc maps outside its heap by default

_depth = 0  # blocks of retain_freed_memory that are open


@contextmanager
def retain_freed_memory() -> Iterator[None]:
    """Keeps freed memory inside the `with` block, and returns unused memory to the system at its end. Blocks
    may be nested.

    This changes a setting of the whole process. So only the commands train, predict and evaluate use it;
    functions of the library do not. Your own program may use it too.
    """
    global _depth
    if _depth == 0:
        keep()
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0:
            _give_back()


def keep() -> None:
    """Keeps freed memory from now on. Without glibc this does nothing."""
    if (library := glibc()) is not None:
        library.mallopt(MMAP_MAX, 0)
        library.mallopt(TRIM_THRESHOLD, NEVER)


def return_large_blocks() -> None:
    """Returns large freed blocks to the system at once, from now on. For a training whose weights
    are gathered block by block: kept memory would grow to that of all blocks. Without glibc this does
    nothing."""
    if (library := glibc()) is not None:
        library.mallopt(MMAP_MAX, ELSEWHERE)
        library.mallopt(MMAP_THRESHOLD, LARGE)
        library.mallopt(TRIM_THRESHOLD, USUAL)
        library.malloc_trim(0)


def _give_back() -> None:
    """Returns unused memory to the system, and restores the defaults."""
    if (library := glibc()) is not None:
        library.mallopt(MMAP_MAX, ELSEWHERE)
        library.mallopt(MMAP_THRESHOLD, LARGEST)  # the default that it reaches while running
        library.mallopt(TRIM_THRESHOLD, USUAL)
        library.malloc_trim(0)


def glibc() -> ctypes.CDLL | None:
    """The C library if it is glibc; None: another one, without these settings."""
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None
