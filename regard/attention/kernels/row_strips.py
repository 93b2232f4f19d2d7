"""How the tiled kernel cuts attention: strips of rows, each with only the columns that may matter to it.

Every strip holds whole rows of the softmax, so it can be computed on its own and nothing has to be merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.kernels.reference import Terms
from regard.attention.mask import Blocks, Mask, from_settings
from regard.attention.masks import Full
from regard.attention.places import Side
from regard.symmetry.groups import Shifts


@dataclass(frozen=True)
class Strip:
    """Some rows and heads, and the columns they may attend to.

    `repeat` strips stand below each other, each one `step` rows and `step` columns further than the last;
    they are only joined when all of them have the same mask and bias.
    """

    heads: slice
    rows: slice
    columns: slice | tuple[int, ...]  # one run, or the slots
    full: bool  # nothing in it is hidden
    repeat: int = 1

    @property
    def step(self) -> int:
        return self.rows.stop - self.rows.start

    @property
    def width(self) -> int:
        if isinstance(self.columns, slice):
            return self.columns.stop - self.columns.start
        return len(self.columns)

    @property
    def area(self) -> int:
        """How many scores it computes for one row of the batch."""
        return (self.heads.stop - self.heads.start) * self.step * self.width * self.repeat

    def every_row(self) -> slice:
        return slice(self.rows.start, self.rows.start + self.step * self.repeat)

    def terms(self, whole: Terms) -> Terms:
        """The terms of its rows and columns (of the first one, when it repeats)."""
        return whole.part(self.rows, _column_slots(self.columns, whole.there.device), full=self.full)


def _column_slots(columns: slice | tuple[int, ...], device: torch.device) -> slice | Tensor:
    if isinstance(columns, slice):
        return columns
    if torch.compiler.is_compiling():
        return torch.tensor(columns, device=device)
    return _kept_slots(columns, device)


@lru_cache(maxsize=4096)
def _kept_slots(columns: tuple[int, ...], device: torch.device) -> Tensor:
    """The same strips are asked for keys and values, forward and backward, in every layer."""
    with torch.inference_mode(False):  # what is kept must also serve a gradient later on
        return torch.tensor(columns, device=device)


def alike_everywhere(terms: Terms) -> bool:
    """Does a tile depend on how far its rows are from its columns, and on nothing else?"""
    mask, bias, shifts = terms.mask, terms.bias, Shifts()
    if mask is not None and not (mask.static and shifts <= mask.keeps):
        return False
    return terms.here.consecutive and (bias is None or (shifts <= bias.keeps and not bias.by_slot))


def block_structure(mask: Mask | None, here: Side, there: Side, block: int) -> Blocks:
    """The mask's answers for all blocks, one grid for all rows of the batch and all heads: 1 1 row-blocks
    column-blocks."""
    rows, columns = here.bounds(block), there.bounds(block)
    asked = Full().blocks(rows, columns)
    if mask is not None:
        asked = asked & mask.blocks(rows, columns)
    return Blocks(np.any(asked.some, (0, 1), keepdims=True), np.all(asked.every, (0, 1), keepdims=True))


@lru_cache(maxsize=256)
def cached_strips(mask: Mask | None, n: int, m: int, heads: int, block: int, join: bool) -> tuple[Strip, ...]:
    """The strips of a static mask over consecutive places: nothing else enters, so they are worked out
    once."""
    device = torch.device("cpu")
    here = Side(True, n, slice(0, n), m - n, None, device)
    there = Side(False, m, slice(0, m), 0, None, device)
    return tuple(cut(block_structure(mask, here, there, block), n, m, heads, block, join))


def _from_numbers(settings: tuple[Any, ...] | None, n: int, m: int, heads: int, block: int, join: bool) -> Any:
    """`remembered` for a tracer, which can pass numbers through but no objects: plain tuples in, plain tuples
    out."""
    mask = None if settings is None else from_settings(settings)
    strips = cached_strips(mask, n, m, heads, block, join)
    return tuple((s.rows.start, s.rows.stop, _plain_columns(s.columns), s.full, s.repeat) for s in strips)


# What torch.compiler.assume_constant_result sets; calling it would import the whole compiler, more than a
# second for everybody.
_from_numbers._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _plain_columns(columns: slice | tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    if isinstance(columns, slice):
        return ("run", (columns.start, columns.stop))
    return ("slots", columns)


def plan(terms: Terms, heads: int, block: int) -> tuple[Strip, ...]:
    """All strips of an attention, in the order of their rows. Rows that may attend to nothing have none."""
    mask, here, join = terms.mask, terms.here, alike_everywhere(terms)
    n, m, heads = constant(here.count), constant(terms.there.count), constant(heads)
    static = here.consecutive and (mask is None or mask.static)
    if torch.compiler.is_compiling():
        if not static:  # values cannot be looked at while tracing: every block counts as mixed
            return tuple(
                Strip(slice(0, heads), slice(at, min(at + block, n)), slice(0, m), False) for at in range(0, n, block)
            )
        found = _from_numbers(None if mask is None else mask.settings(), n, m, heads, block, join)
        return tuple(
            Strip(slice(0, heads), slice(a, z), slice(*c) if form == "run" else c, full, repeat)
            for a, z, (form, c), full, repeat in found
        )
    if static:
        return cached_strips(mask, n, m, heads, block, join)
    return tuple(cut(block_structure(mask, here, terms.there, block), n, m, heads, block, join))


def constant(size: int) -> int:
    """The same number. A tracer that has left it open settles it here: strips are cut for one length."""
    return len(range(size))


def cut(blocks: Blocks, n: int, m: int, heads: int, block: int, join: bool) -> list[Strip]:
    """The grid of blocks as strips, joined where neighbours are alike."""
    strips: list[Strip] = []
    for group, some, every in _head_groups(blocks, heads):
        for i in range(some.shape[0]):
            (columns,) = np.nonzero(some[i])
            if not len(columns):
                continue
            strip = Strip(
                group,
                slice(i * block, min((i + 1) * block, n)),
                _runs(columns, block, m),
                bool(every[i, columns].all()),
            )
            if join and strips and _continues(strips[-1], strip):
                strips[-1] = replace(strips[-1], repeat=strips[-1].repeat + 1)
            else:
                strips.append(strip)
    return sorted(strips, key=lambda strip: strip.rows.start)


def _head_groups(blocks: Blocks, heads: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """All heads at once if they share one grid, else one by one."""
    if blocks.some.shape[1] == 1:
        yield slice(0, heads), blocks.some[0, 0], blocks.every[0, 0]
        return
    every = np.broadcast_to(blocks.every, blocks.some.shape)
    for head in range(heads):
        yield slice(head, head + 1), blocks.some[0, head], every[0, head]


def _runs(columns: np.ndarray, block: int, m: int) -> slice | tuple[int, ...]:
    """Block numbers as slots: one run where they are neighbours."""
    if columns[-1] - columns[0] + 1 == len(columns):
        return slice(int(columns[0]) * block, min((int(columns[-1]) + 1) * block, m))
    slots = (columns[:, None] * block + np.arange(block)).reshape(-1)
    return tuple(int(slot) for slot in slots[slots < m])


def _continues(above: Strip, below: Strip) -> bool:
    """Is `below` the next one of the repeated strip `above`?"""
    if not isinstance(above.columns, slice) or not isinstance(below.columns, slice):
        return False
    moved = above.step * above.repeat
    return (
        (above.heads, above.full, above.step) == (below.heads, below.full, below.step)
        and below.rows.start == above.rows.start + moved
        and (below.columns.start, below.columns.stop) == (above.columns.start + moved, above.columns.stop + moved)
    )


def small_enough(strips: tuple[Strip, ...], batch: int, most: int) -> Iterator[Strip]:
    """The same work in strips of at most `most` scores each (or one row), so that memory has a bound."""
    for strip in strips:
        one = batch * strip.area // strip.repeat
        at_once = max(1, min(strip.repeat, most // max(one, 1)))
        for start in range(0, strip.repeat, at_once):
            part = _moved(strip, start, min(at_once, strip.repeat - start))
            if part.repeat > 1 or one <= most:
                yield part
                continue
            height = max(1, strip.step * most // one)
            for top in range(part.rows.start, part.rows.stop, height):
                yield replace(part, rows=slice(top, min(top + height, part.rows.stop)))


def _moved(strip: Strip, start: int, repeat: int) -> Strip:
    """The repeats from `start` on, as a strip of their own."""
    if strip.repeat == 1:
        return strip
    assert isinstance(strip.columns, slice)
    by = start * strip.step
    return replace(
        strip,
        rows=slice(strip.rows.start + by, strip.rows.stop + by),
        columns=slice(strip.columns.start + by, strip.columns.stop + by),
        repeat=repeat,
    )


def _kv_heads(heads: slice, h: int, g: int) -> slice:
    """The key/value heads that these query heads use: head i uses i // (h/g)."""
    share = h // g
    return slice(heads.start // share, (heads.stop - 1) // share + 1)


def rows_of(x: Tensor, strip: Strip) -> Tensor:
    """The strip's rows of queries or outputs; repeats become rows of the batch.  b h n c -> (b·repeat) h step
    c"""
    part = x[:, strip.heads, strip.every_row()]
    if strip.repeat == 1:
        return part
    return part.unflatten(2, (strip.repeat, strip.step)).transpose(1, 2).flatten(0, 1)


def columns_of(x: Tensor, strip: Strip, h: int) -> Tensor:
    """The strip's columns of keys or values; repeats overlap and become rows of the batch.  b g m c ->
    (b·repeat) g width c"""
    part = x[:, _kv_heads(strip.heads, h, x.shape[1])]
    if strip.repeat == 1:
        slots = _column_slots(strip.columns, x.device)
        if isinstance(slots, slice):
            return part[:, :, slots]
        return part.index_select(2, slots)
    assert isinstance(strip.columns, slice)
    run = part[:, :, strip.columns.start : strip.columns.stop + strip.step * (strip.repeat - 1)]
    return run.unfold(2, strip.width, strip.step).permute(0, 2, 1, 4, 3).flatten(0, 1)


def put_rows(into: Tensor, strip: Strip, rows: Tensor) -> None:
    """The inverse of `rows_of`, in place; each row belongs to one strip."""
    part = into[:, strip.heads, strip.every_row()]
    if strip.repeat == 1:
        part.copy_(rows)
    else:
        part.unflatten(2, (strip.repeat, strip.step)).copy_(rows.unflatten(0, (-1, strip.repeat)).transpose(1, 2))


def add_columns(into: Tensor, strip: Strip, h: int, columns: Tensor) -> None:
    """The adjoint of `columns_of`, in place: what overlaps is summed."""
    part = into[:, _kv_heads(strip.heads, h, into.shape[1])]
    if strip.repeat == 1:
        slots = _column_slots(strip.columns, into.device)
        if isinstance(slots, slice):
            part[:, :, slots] += columns
        else:
            part.index_add_(2, slots, columns)
        return
    assert isinstance(strip.columns, slice)
    laid = columns.unflatten(0, (-1, strip.repeat)).transpose(1, 2)  # b g repeat width c
    # the chunks that start here, of all repeats, lie side by side
    for start in range(0, strip.width, strip.step):
        at = strip.columns.start + start
        chunks = part[:, :, at : at + strip.step * strip.repeat].unflatten(2, (strip.repeat, strip.step))
        chunks += laid[..., start : start + strip.step, :]
