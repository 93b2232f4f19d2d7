"""Memory that is freed stays with the process: what is needed again and again is not asked of the system each
time.

The C library of Linux gives large blocks back when they are freed, and the system hands them out again page
by page, each filled with zeros. A training step frees and wants the same blocks each time: a Swin spends a
seventh of it so.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

# of mallopt(3): names and numbers are glibc's
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
NEVER = -1
# bytes of a block: what is larger does not live in its heap, unless nothing may live elsewhere
LARGEST = 2**25
USUAL = 2 * LARGEST  # unused bytes at the end of the heap that it comes to keep by itself
ELSEWHERE = 2**16  # blocks that may live outside of its heap, if nobody says otherwise


_depth = 0  # blocks of retain_freed_memory that are open


@contextmanager
def retain_freed_memory() -> Iterator[None]:
    """Inside, freed memory is kept; at the end, what is not in use goes back to the system. It may be nested.

    This changes a setting of the whole process, so the library never does it by itself: the commands that
    train, predict and evaluate do, and any program may.
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
    """From now on, freed memory is kept. Elsewhere than in glibc nothing changes."""
    if (library := glibc()) is not None:
        library.mallopt(MMAP_MAX, 0)
        library.mallopt(TRIM_THRESHOLD, NEVER)


def _give_back() -> None:
    """What is not in use goes back to the system, now and from now on."""
    if (library := glibc()) is not None:
        library.mallopt(MMAP_MAX, ELSEWHERE)
        library.mallopt(MMAP_THRESHOLD, LARGEST)  # what it would have come to by itself
        library.mallopt(TRIM_THRESHOLD, USUAL)
        library.malloc_trim(0)


def glibc() -> ctypes.CDLL | None:
    """The C library, where it is the one that has these settings."""
    if platform.libc_ver()[0] == "glibc":
        return ctypes.CDLL(None)
    return None
