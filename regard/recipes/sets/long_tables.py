"""Tables in long form: one line for each element, with the id of its set, its features, and the target.

set,price,amount,target
17,3.50,2,returned
17,1.20,1,returned
18,9.99,1,kept
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from regard.data.array import Array
from regard.data.missing import is_missing, missing_cells
from regard.data.row_table import Table, read_table
from regard.errors import RegardError
from regard.recipes.sets.dataset import Missing

OPTIONS = "choose columns with --data.id, --data.target and --data.columns"
WAYS = "fill them in, or use --data.missing fill (the median of the column) or drop (without these rows)"


class LongTable(NamedTuple):
    """The sets of a table, in the order of their first lines. Set i is rows starts[i] to starts[i + 1]."""

    names: tuple[str, ...]  # of the columns
    sets: tuple[str, ...]  # the id of each set
    points: Array  # t columns; NaN: missing, to be filled
    starts: Array  # sets + 1
    target: tuple[str, ...] | None  # the text of each row; None: there is no such column
    lines: Array  # of each row
    table: Table  # as it was read
    order: Array  # of each row, its place in that table
    wrong: Mapping[int, str]  # what is wrong with a row, where that is no error
    dropped: int = 0  # rows that were left out because a cell is missing
    holes: Mapping[str, int] = {}  # missing cells of each column, to be filled


def read_long(
    path: str,
    identity: str = "set",
    target: str | None = "target",
    columns: Sequence[str] | None = None,
    missing: Missing = "refuse",
    *,
    never: str | None = None,
    lenient: bool = False,
    trained: bool = False,
) -> LongTable:
    """A table with its rows grouped by set. columns: the feature columns; None: all others.

    target=None: read no target column (to predict). never: a column that is never suggested for another.
    lenient: a cell that is no number is told of its row in `wrong`, and is no error.
    trained: for a model that knows its columns already, which an error then names.
    """
    table = read_table(path)
    if not table.rows:
        raise RegardError(f"{path} has no rows; give one row for each element of each set")
    used = _choose_columns(table, identity, target, columns, never, trained=trained or target is None)
    places = [table.names.index(name) for name in used]
    points, holes, wrong = _read_numbers(table, places, "" if columns else " with --data.columns")
    own = [_cell(row, table.names.index(identity)) for row in table.rows]
    words = None if target is None else _targets(table, table.names.index(target), own)
    gone = {i for i, name in enumerate(own) if name is None}
    if words is not None:
        gone |= {i for i, word in enumerate(words) if word is None}
    if missing == "refuse" and not lenient:
        _refuse_missing(table, identity, target, used, holes)
    if missing == "drop":
        gone |= {row for row, _ in holes}
    elif missing == "refuse":
        wrong = {**_told(table, used, holes), **wrong}
    wrong = {row: said for row, said in wrong.items() if row not in gone}
    if wrong and not lenient:
        raise RegardError(wrong[min(wrong)])
    return _group(table, used, points, own, words, sorted(gone), wrong, holes if missing == "fill" else [])


def _choose_columns(
    table: Table,
    identity: str,
    target: str | None,
    columns: Sequence[str] | None,
    never: str | None,
    *,
    trained: bool,
) -> tuple[str, ...]:
    """The feature columns. Raise if one is missing; the hint never names a column that is something else."""
    wanted = [identity, *([target] if target is not None else []), *(columns or ())]
    if trained:
        named = "name yours with --data.id" + (" and --data.target" if target is not None else "")
        advice = f"the model was trained on the columns {', '.join(wanted)}; use these names, or {named}"
    else:
        advice = OPTIONS
    for name in wanted:
        table.place(name, advice, {*wanted, target, never} - {name})
    if columns is not None:
        used = tuple(columns)
    else:
        used = tuple(name for name in table.names if name not in (identity, target))
    if not used:
        raise RegardError(
            f"{table.path} has no column besides '{identity}' and '{target}'; add at least one feature column"
        )
    for name in used:
        table.place(name, advice)
    return used


def _cell(row: Sequence[Any], place: int) -> str | None:
    """The text of a cell; None: it is missing."""
    if is_missing(row[place]):
        return None
    return str(row[place]).strip()


def _targets(table: Table, place: int, own: Sequence[str | None]) -> list[str | None]:
    """The target of each row; None: missing. If no set has two different ones, it may stand in any row of the
    set."""
    words = [_cell(row, place) for row in table.rows]
    if None not in words:
        return words
    known: dict[str | None, str] = {}
    for name, word in zip(own, words, strict=True):
        if word is not None and known.setdefault(name, word) != word:
            return words
    return [known.get(name) for name in own]


def _refuse_missing(
    table: Table, identity: str, target: str | None, used: Sequence[str], holes: list[tuple[int, int]]
) -> None:
    """Raise if any cell that is read is missing."""
    found = [(row, used[column]) for row, column in holes]
    for name in (identity, target):
        if name is not None:
            place = table.names.index(name)
            found += [(i, name) for i, row in enumerate(table.rows) if is_missing(row[place])]
    if found:
        row, column = min(found)
        raise missing_cells(table.path, table.lines[row], column, len(found), WAYS)


def _told(table: Table, used: Sequence[str], holes: list[tuple[int, int]]) -> dict[int, str]:
    return {
        row: f"line {table.lines[row]} of {table.path} has a missing cell in column '{used[column]}', and the "
        "model was trained without missing cells; fill it in"
        for row, column in reversed(holes)
    }


def _group(
    table: Table,
    used: tuple[str, ...],
    points: Array,
    own: Sequence[str | None],
    words: Sequence[str | None] | None,
    gone: list[int],
    wrong: Mapping[int, str],
    holes: list[tuple[int, int]],
) -> LongTable:
    """The rows but for some, gathered by set."""
    kept = np.setdiff1d(np.arange(len(table.rows)), gone)
    if not len(kept):
        raise RegardError(f"{table.path} has no row without a missing cell; fill some in")
    number: dict[str, int] = {}
    which = np.array([number.setdefault(str(own[i]), len(number)) for i in kept])
    order = kept[np.argsort(which, kind="stable")]
    place = {int(row): i for i, row in enumerate(order)}
    counts: dict[str, int] = {}
    for row, column in holes:
        if row in place:
            counts[used[column]] = counts.get(used[column], 0) + 1
    return LongTable(
        names=used,
        sets=tuple(number),
        points=points[order],
        starts=np.concatenate(([0], np.cumsum(np.bincount(which)))),
        target=None if words is None else tuple(str(words[i]) for i in order),
        lines=np.array(table.lines)[order],
        table=table,
        order=order,
        wrong={place[row]: said for row, said in wrong.items()},
        dropped=len(gone),
        holes=counts,
    )


def _read_numbers(
    table: Table, places: list[int], named: str
) -> tuple[Array, list[tuple[int, int]], dict[int, str]]:
    """All cells at once; if that fails, one by one. Also the missing cells (row, column), which are NaN, and
    what is wrong with a row."""
    try:
        found = np.array([[row[place] for place in places] for row in table.rows]).astype(np.float64)
        if np.isfinite(found).all():
            return found, [], {}
    except (ValueError, TypeError):
        pass
    found = np.full((len(table.rows), len(places)), np.nan)
    holes: list[tuple[int, int]] = []
    wrong: dict[int, str] = {}
    for i, row in enumerate(table.rows):
        for j, place in enumerate(places):
            value = row[place]
            if is_missing(value):
                holes.append((i, j))
                continue
            try:
                found[i, j] = float(value)
            except (ValueError, TypeError, OverflowError):
                found[i, j] = math.inf
            if not math.isfinite(found[i, j]):
                wrong.setdefault(i, _say_wrong(table, i, place, value, named))
    return found, holes, wrong


def _say_wrong(table: Table, row: int, place: int, value: Any, named: str) -> str:
    where = f"line {table.lines[row]} of {table.path} has {value!r} in column '{table.names[place]}'"
    if named:
        return f"{where}, expected a number; give a finite one, or name the feature columns{named}"
    return f"{where}, expected a number; give a finite one, or remove the line"


def sets_with_errors(table: LongTable) -> dict[int, str]:
    """What is wrong with a set: with the first of its rows that has something wrong."""
    found = {}
    for number, (start, stop) in enumerate(pairwise(table.starts)):
        rows = [row for row in range(start, stop) if row in table.wrong]
        if rows:
            found[number] = table.wrong[rows[0]]
    return found
