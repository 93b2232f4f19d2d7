"""Tables in long form: one line for each element, with the id of its set, its features, and the target.

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

OPTIONS = "choose columns with --data.id, --data.target and --data.columns"


class LongTable(NamedTuple):
    """The sets of a table, in the order of their first lines. Set i is rows starts[i] to starts[i + 1]."""

    names: tuple[str, ...]  # of the columns
    sets: tuple[str, ...]  # the id of each set
    points: Array  # t columns
    starts: Array  # sets + 1
    target: tuple[str, ...] | None  # the text of each row; None: there is no such column
    lines: Array  # of each row


def read_long(
    path: str, identity: str = "set", target: str | None = "target", columns: Sequence[str] | None = None
) -> LongTable:
    """A table with its rows grouped by set. columns: the feature columns; None: all others.

    target=None: read no target column (to predict).
    """
    table = read_table(path)
    _, names, rows, lines = table
    if not rows:
        raise RegardError(f"{path} has no rows; give one row for each element of each set")
    wanted = [identity, *([target] if target is not None else []), *(columns or ())]
    if target is not None:
        advice = OPTIONS
    else:
        advice = f"the model was trained on the columns {', '.join(wanted)}; use these names"
    for name in wanted:
        table.place(name, advice)
    if columns is not None:
        used = tuple(columns)
    else:
        used = tuple(name for name in names if name not in (identity, target))
    if not used:
        raise RegardError(
            f"{path} has no column besides '{identity}' and '{target}'; add at least one feature column"
        )
    places = [names.index(name) for name in used]
    if columns:
        repair = "give a number, or remove the line"
    else:
        repair = "name the feature columns with --data.columns"
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
    """Convert all cells at once; if that fails, one by one, to find the wrong line."""
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
                    f"line {line} of {path} has {said} in column '{names[place]}', expected a number; "
                    f"{advice}"
                ) from None
            if not good:
                raise RegardError(
                    f"line {line} of {path} has {value} in column '{names[place]}', which is not a finite "
                    "number; "
                    "give a number, or remove the line"
                )
    raise RegardError(f"{path} holds numbers that cannot be read")
