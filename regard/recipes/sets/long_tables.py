"""Tables in long form: a line for each thing, with the set it belongs to, its numbers, and what is asked of
the set.

set,price,amount,target
17,3.50,2,returned
17,1.20,1,returned
18,9.99,1,kept
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.data.array import Array
from regard.data.tables import read_table
from regard.errors import RegardError

OPTIONS = "say which one with --data.id, --data.target and --data.columns"


class LongTable(NamedTuple):
    """The sets of a table, in the order in which they come first. Set i is rows starts[i] to starts[i +
    1]."""

    names: tuple[str, ...]  # of the columns
    sets: tuple[str, ...]  # what each set is called
    points: Array  # t columns
    starts: Array  # sets + 1
    target: tuple[str, ...] | None  # of each row, as it was written; None: there is no such column
    lines: Array  # of each row


def read_long(
    path: str, identity: str = "set", target: str | None = "target", columns: Sequence[str] | None = None
) -> LongTable:
    """A table with its rows gathered by set. columns: those with the numbers of a thing; None: all others.

    target=None: there need be none (to predict), and a column of that kind is not read.
    """
    table = read_table(path)
    _, names, rows, lines = table
    if not rows:
        raise RegardError(f"{path} has no rows; give one for each thing of each set")
    wanted = [identity, *([target] if target is not None else []), *(columns or ())]
    if target is not None:
        advice = OPTIONS
    else:
        advice = f"the model learned from {', '.join(wanted)}, so call them that"
    for name in wanted:
        table.place(name, advice)
    if columns is not None:
        used = tuple(columns)
    else:
        used = tuple(name for name in names if name not in (identity, target))
    if not used:
        raise RegardError(
            f"{path} has no column with numbers besides '{identity}' and '{target}'; give one at least"
        )
    places = [names.index(name) for name in used]
    if columns:
        repair = "fill it in, or take the line out"
    else:
        repair = "name the columns that hold numbers with --data.columns"
    points = _numbers(rows, lines, places, names, path, repair)
    own = table.texts(identity, advice)
    number: dict[str, int] = {}
    which = np.array([number.setdefault(name, len(number)) for name in own])
    order = np.argsort(which, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(which))))
    asked = None
    if target is not None:
        texts = table.texts(target, advice)
        asked = tuple(texts[i] for i in order)
    return LongTable(used, tuple(number), points[order], starts, asked, np.array(lines)[order])


def _numbers(
    rows: list[list[Any]], lines: list[int], places: list[int], names: list[str], path: str, advice: str
) -> Array:
    """All at once; only when that fails, one by one to find the line that is wrong."""
    try:
        found = np.array([[row[place] for place in places] for row in rows]).astype(np.float64)
        if np.isfinite(found).all():
            return found
    except (ValueError, TypeError):
        pass
    for row, line in zip(rows, lines, strict=True):
        for place in places:
            value = row[place]
            try:
                good = math.isfinite(float(value))
            except (ValueError, TypeError):
                if value is None or not str(value).strip():
                    said = "nothing"
                else:
                    said = repr(value)
                raise RegardError(
                    f"line {line} of {path} has {said} in column '{names[place]}', where a number should be; "
                    f"{advice}"
                ) from None
            if not good:
                raise RegardError(
                    f"line {line} of {path} has {value} in column '{names[place]}', which is no number; "
                    "take the line out, or fill it in"
                )
    raise RegardError(f"{path} holds numbers that cannot be read")
