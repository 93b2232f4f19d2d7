"""Where a recorder may listen. Nobody does by default, and then it costs one look at an empty tuple."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from regard.attention.mask import Mask
from regard.attention.terms import Terms


@dataclass(frozen=True, eq=False)
class Heard:
    """One call of attention: all that its weights follow from, and what was really computed."""

    q: Tensor  # b h n c
    k: Tensor  # b g m c
    v: Tensor  # b g m e
    terms: Terms
    out: Tensor  # b h n e
    kernel: str


@dataclass(frozen=True, eq=False)
class Mixed:
    """One call of `mix`: scores that are no dot product, and what was really computed."""

    scores: Tensor  # b h n m, or b h e along the edges of the mask
    v: Tensor  # b g m e
    mask: Mask | None
    dropout: float
    out: Tensor  # b h n e
    cross: bool = False  # queries are of another sequence than keys, even if there are as many


Listener = Callable[[Heard | Mixed], None]
listeners: tuple[Listener, ...] = ()


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Call `listener` with every Heard and Mixed until the end of the block, also when it ends with an
    exception."""
    global listeners
    listeners = (*listeners, listener)
    try:
        yield
    finally:
        kept = list(listeners)
        kept.remove(listener)
        listeners = tuple(kept)
