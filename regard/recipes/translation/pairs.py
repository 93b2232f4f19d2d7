"""Pairs of sentences as examples: which of them are left out, and which split each is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from regard.data.array import Array
from regard.data.splits import NOWHERE, TRAIN, complete_splits, draw_splits
from regard.errors import RegardError
from regard.recipes.describe import format_count
from regard.recipes.example import Examples

if TYPE_CHECKING:
    from regard.recipes.translation.config import PairsConfig

Pair = tuple[str, str | None]  # a sentence and its translation, if there is one


def make_examples(
    what: str, pairs: Sequence[Pair], sides: tuple[str, str], *, lines: Sequence[int] | None = None, **more: Any
) -> Examples:
    """Pairs as examples: the source is the input, the target the cell. sides: what they are called, by their columns or
    languages; lines: where each is in its file; None: it is in none"""
    name = (lambda i: f"pair {i + 1:,}") if lines is None else (lambda i: f"line {lines[i]:,}")
    return Examples(
        what=what,
        count=len(pairs),
        inputs=lambda i: {"source": pairs[i][0]},
        names=name,
        places=lambda i: f"{name(i)} of {what}",
        cells=pa.array([target for _, target in pairs], pa.string()),
        target_names=(sides[1],),
        about={"sides": sides, "lines": lines},
        **more,
    )


def pair_of(examples: Examples, i: int) -> tuple[str, str]:
    """The source and the target of an example; no target is an empty one."""
    return examples.inputs(i)["source"], examples.plain[i] or ""


def join_words(text: str) -> str:
    """A sentence in one line, without spaces around it."""
    return " ".join(text.split())


def split_pairs(examples: Examples, config: PairsConfig, seed: int, *, drawn: bool) -> tuple[Array, tuple[str, ...]]:
    """The split of each pair, NOWHERE if a side is empty or a training pair is known from another split; and notes.
    drawn: are the pairs made, with the splits that were asked for?   uint8 n"""
    there, notes = find_filled(examples, config.wrong)
    if examples.splits is None:
        splits = np.full(len(examples), NOWHERE, dtype=np.uint8)
        splits[there] = draw_splits(int(there.sum()), config, seed, unit="pairs")
    else:
        splits = np.where(there, examples.splits, NOWHERE).astype(np.uint8)
        # of data with splits of its own, no test split is cut unless somebody asks
        asked = replace(config, test=0.0 if drawn else config.test or 0.0)
        splits = complete_splits(splits, asked, seed, what=examples.what, unit="pairs")
    if config.repeated == "keep":
        return splits, notes
    splits, on_repeats = _without_repeats(examples, splits)
    return splits, (*notes, *on_repeats)


def find_filled(examples: Examples, how: str) -> tuple[Array, tuple[str, ...]]:
    """The pairs that have both sides, and a note on the others; or an error, if `how` is to refuse them.   bool n"""
    empty = np.array([not all(pair_of(examples, i)) for i in range(len(examples))], dtype=bool)
    return ~empty, leave_out(examples, np.ones(len(empty), dtype=bool), empty, how, "an empty side", "fill them in")


def leave_out(examples: Examples, there: Array, wrong: Array, how: str, why: str, advice: str) -> tuple[str, ...]:
    """A note that counts the pairs that are wrong; or an error, if nothing is left or `how` is to refuse them. there: those
    that were not left out before; why: what they have.   bool n"""
    count, all_pairs = int(wrong.sum()), int(there.sum())
    if not count:
        return ()
    has, they = ("has", "it is") if count == 1 else ("have", "they are")
    first = f" (the first in {examples.names(int(wrong.argmax()))})"
    said = f"{examples.what}: {count:,} of {format_count(all_pairs, 'pairs')} {has} {why}{first}"
    if how == "refuse":
        raise RegardError(f"{said}; {advice}, or leave them out with --data.wrong skip")
    if count == all_pairs:
        raise RegardError(f"{said}, so nothing is left; {advice}")
    return (f"{said}; {they} left out",)


def _without_repeats(examples: Examples, splits: Array) -> tuple[Array, tuple[str, ...]]:
    """Without training pairs whose source is also in the validation or test split: those would be known by heart."""
    sources = [pair_of(examples, i)[0] for i in range(len(examples))]
    held = {source for source, split in zip(sources, splits.tolist(), strict=True) if split not in (TRAIN, NOWHERE)}
    known = np.array([source in held for source in sources], dtype=bool) & (splits == TRAIN)
    count = int(known.sum())
    if not count:
        return splits, ()
    some, are, they = ("source", "is", "it is") if count == 1 else ("sources", "are", "they are")
    if count == int((splits == TRAIN).sum()):
        every = f"all {count:,} training pairs" if count > 1 else "the only training pair"
        raise RegardError(
            f"{examples.what}: the {some} of {every} {are} also in the validation or test split, so nothing "
            "is left to learn from; keep them with --data.repeated keep"
        )
    said = (
        f"{examples.what}: the {some} of {format_count(count, 'training pairs')} {are} also in the validation "
        f"or test split; {they} left out of training (--data.repeated keep keeps them)"
    )
    return np.where(known, NOWHERE, splits).astype(np.uint8), (said,)
