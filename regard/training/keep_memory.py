"""Keeps freed memory in the process, so that the next training step can use it again.

By default the C library of Linux returns large freed blocks to the system. The next step asks for the same
blocks, and the system fills each page with zeros again. A Swin spends a seventh of its training step on this.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

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
    if platform.libc_ver()[0] == "glibc":
        return ctypes.CDLL(None)
    return None
