"""Where a recorder may listen. Nobody does by default, and then it costs one look at an empty tuple."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from regard.attention.kernels.reference import Terms
from regard.attention.mask import Mask


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


Rows = slice | Tensor


@dataclass(frozen=True, eq=False)
class Implied:
    """One call of an approximation: what was really computed, and the weights that it implies."""

    q: Tensor  # b h n c
    k: Tensor  # b g m c
    v: Tensor  # b g m e
    out: Tensor  # b h n e
    name: str
    implied: str  # what the weights are, in words
    weigh: Callable[[Tensor, Tensor, Rows], Tensor]  # some rows of q, all of k, the rows -> weights b h r m
    itself: bool = True  # keys are those of the tokens that ask


Told = Heard | Mixed | Implied
Listener = Callable[[Told], None]
listeners: tuple[Listener, ...] = ()


def tell(what: Told) -> None:
    """Tell whoever listens."""
    for listener in listeners:
        listener(what)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Call `listener` with every Heard, Mixed and Implied until the end of the block, also when it ends with an
    exception."""
    global listeners
    listeners = (*listeners, listener)
    try:
        yield
    finally:
        kept = list(listeners)
        kept.remove(listener)
        listeners = tuple(kept)
