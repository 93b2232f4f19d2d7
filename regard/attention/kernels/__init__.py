"""Ways to compute attention. `reference` is the definition, and every other kernel equals it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from regard.errors import RegardError

NAMES = ("reference", "plain", "fused", "stairs", "tiled", "edges")
wanted: str | None = None


@contextmanager
def only(name: str) -> Iterator[None]:
    """Use this kernel and no other inside the block; what it cannot do raises. For debugging.

    >>> with kernels.only("reference"):
    ...     out = attend(q, k, v, mask=Causal())
    """
    if name not in NAMES:
        raise RegardError(f"no kernel is called {name!r}; there are {', '.join(NAMES)}")
    global wanted
    before, wanted = wanted, name
    try:
        yield
    finally:
        wanted = before
