"""Pairs of sentences as they were given, before they are tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from regard.data.array import Array
from regard.data.splits import TRAIN
from regard.errors import RegardError
from regard.recipes.describe import format_count

Handling = Literal["skip", "refuse"]


class Pair(NamedTuple):
    """A sentence and its translation; line: where they are in their file, 0 for made ones."""

    source: str
    target: str
    line: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Pairs:
    """All pairs of some data. splits: the split of each, if the data has splits; None: they are to be drawn"""

    name: str
    pairs: Sequence[Pair]
    splits: Array | None = None  # uint8
    source: str  # what the sides are called: columns or languages
    target: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.pairs)

    def take(self, kept: Array, *notes: str) -> Pairs:
        """Those pairs that are kept.   bool n"""
        chosen = [pair for pair, keep in zip(self.pairs, kept.tolist(), strict=True) if keep]
        return Pairs(
            name=self.name,
            pairs=chosen,
            splits=None if self.splits is None else self.splits[kept],
            source=self.source,
            target=self.target,
            notes=(*self.notes, *notes),
        )


def join_words(text: str) -> str:
    """A sentence in one line, without spaces around it."""
    return " ".join(text.split())


def without_empty(found: Pairs, how: Handling) -> Pairs:
    """Without pairs of which a side is empty; they are counted."""
    empty = np.array([not (pair.source and pair.target) for pair in found.pairs], dtype=bool)
    return leave_out(found, empty, how, "an empty side", "fill them in")


def leave_out(found: Pairs, wrong: Array, how: Handling, why: str, advice: str) -> Pairs:
    """Without the pairs that are wrong, which a note counts; or refuse them. why: what they have"""
    count = int(wrong.sum())
    if not count:
        return found
    first = found.pairs[int(wrong.argmax())].line
    place = f" (the first in line {first:,})" if first else ""
    has, they = ("has", "it is") if count == 1 else ("have", "they are")
    said = f"{found.name}: {count:,} of {format_count(len(found), 'pairs')} {has} {why}{place}"
    if how == "refuse":
        raise RegardError(f"{said}; {advice}, or leave them out with --data.wrong skip")
    if count == len(found):
        raise RegardError(f"{said}, so nothing is left; {advice}")
    return found.take(~wrong, f"{said}; {they} left out")


def without_repeats(found: Pairs, splits: Array) -> tuple[Pairs, Array]:
    """Without training pairs whose source is also in the validation or test split: those would be known by
    heart.   splits: uint8 n"""
    held = {pair.source for pair in _of(found, splits != TRAIN)}
    known = np.array([pair.source in held for pair in found.pairs], dtype=bool) & (splits == TRAIN)
    count = int(known.sum())
    if not count:
        return found, splits
    some, they = ("source", "is"), "it is"
    if count > 1:
        some, they = ("sources", "are"), "they are"
    if count == int((splits == TRAIN).sum()):
        every = f"all {count:,} training pairs" if count > 1 else "the only training pair"
        raise RegardError(
            f"{found.name}: the {some[0]} of {every} {some[1]} also in the validation or test split, so nothing "
            "is left to learn from; keep them with --data.repeated keep"
        )
    said = (
        f"{found.name}: the {some[0]} of {format_count(count, 'training pairs')} {some[1]} also in the validation "
        f"or test split; {they} left out of training (--data.repeated keep keeps them)"
    )
    return found.take(~known, said), splits[~known]


def _of(found: Pairs, which: Array) -> Iterator[Pair]:
    return (pair for pair, keep in zip(found.pairs, which.tolist(), strict=True) if keep)
