"""Tables in long form as sets: one line for each element, with the id of its set, its features, and the target.

set,price,amount,target
17,3.50,2,returned
17,1.20,1,returned
18,9.99,1,kept
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from regard.data.array import Array
from regard.data.tables import RECOGNISED, Table, is_missing
from regard.data.tables import read_table as read_columns
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.processor import Want
from regard.recipes.sets.config import SetsConfig
from regard.recipes.target import number_of, word_of

OPTIONS = "choose columns with --data.id, --data.target and --data.columns"
WAYS = "fill them in, or use --data.missing fill (the median of the column) or drop (without these rows)"
UNFILLED = "and the model was trained without missing cells; fill it in"


@dataclass(frozen=True)
class _Rows:
    """The rows of a table that are kept, gathered by set: set i is rows starts[i] to starts[i + 1]."""

    order: Array  # of each row, its place in the table
    starts: Array  # sets + 1
    names: Sequence[str]  # of the sets


def read_table(
    data: Any, config: SetsConfig, want: Want, features: Sequence[str] | None, *, each: bool | None
) -> Examples:
    """The sets of a table. features: the columns that are read; None: all others. each: does the model predict a target
    for each element? None: not known yet, the data says it"""
    table = read_columns(data, config, least=2)
    if not len(table):
        raise RegardError(f"{table.path} has no rows; give one row for each element of each set")
    used = _choose_columns(table, config, features, want, trained=each is not None)
    ids, words = _words(table, config.id), None
    if config.target in table.names:
        words = _spread(ids, _words(table, config.target))
    x, wrong = _numbers(table, used)
    holes = np.isnan(x) & ~wrong
    gone = np.array([name is None for name in ids])
    if words is not None and want != "use":
        gone |= np.array([word is None for word in words])
    if config.missing == "drop":
        gone |= holes.any(1)
    if config.missing != "refuse":
        wrong[gone] = False
    if want != "use":
        assert words is not None
        _refuse_cells(table, config, used, x, wrong, holes, {config.id: ids, config.target: words})
    bad = wrong | (holes & (config.missing == "refuse"))
    odd = {used[i]: table.cells(used[i]) for i in np.flatnonzero(wrong.any(0))}
    why = {
        row: _say(table, used, wrong[row], holes[row], odd, row) for row in np.flatnonzero(bad.any(1) & ~gone).tolist()
    }

    rows = _gather(ids, np.flatnonzero(~gone), table.path)
    order, starts = rows.order, rows.starts
    own = None if words is None else [words[row] for row in order]
    if each is None:
        assert own is not None
        each = any(len(set(own[a:b])) > 1 for a, b in pairwise(starts))
    cells = own
    if own is not None and not each:
        cells = [_agreed(table, own[a:b], int(order[a]), config, want) for a, b in pairwise(starts)]
    points, asked = x[order], order if each else order[starts[:-1]]
    counts = {name: int(count) for name, count in zip(used, holes[order].sum(0), strict=True) if count}
    dropped = int(gone.sum())
    left = f"left out {dropped:,} row{'s' * (dropped > 1)} of {table.path} with a missing cell"
    return Examples(
        what=table.path,
        source=table.path,
        count=len(rows.names),
        inputs=lambda i: {"x": points[starts[i] : starts[i + 1]]},
        names=rows.names.__getitem__,
        cells=None if cells is None else pa.array(cells, pa.string()),
        target_names=(config.target,),
        starts=starts if each else None,
        part="element",
        places=lambda i: table.where(int(asked[i])),
        rows=_columns(table, config, asked, cells, each=each) if want == "use" else None,
        errors=_errors_of_sets(rows, why),
        about={
            "form": "table",
            "features": used,
            "sizes": np.diff(starts),
            "holes": counts if config.missing == "fill" else {},
        },
        notes=(*table.notes, *((left,) if dropped else ())),
    )


def _choose_columns(
    table: Table, config: SetsConfig, features: Sequence[str] | None, want: Want, *, trained: bool
) -> tuple[str, ...]:
    """The feature columns. Raise if one is missing; the hint never names a column that is something else."""
    targets = [] if want == "use" else [config.target]
    wanted = [config.id, *targets, *(features or ())]
    advice = OPTIONS
    if trained:
        named = "name yours with --data.id" + (" and --data.target" if targets else "")
        advice = f"the model was trained on the columns {', '.join(wanted)}; use these names, or {named}"
    for name in wanted:
        table.place(name, advice, {*wanted, config.target} - {name})
    used = features or [name for name in table.names if name not in (config.id, config.target)]
    if not used:
        raise RegardError(
            f"{table.path} has no column besides '{config.id}' and '{config.target}'; add at least one feature column"
        )
    return tuple(used)


def _words(table: Table, name: str) -> list[str | None]:
    """The text of each cell of a column; None: it is missing."""
    return [None if is_missing(cell) else word_of(cell) for cell in table.targets(name)]


def _spread(ids: Sequence[str | None], words: list[str | None]) -> list[str | None]:
    """The target of each row. If no set has two different ones, it may stand in any row of the set."""
    if None not in words:
        return words
    known: dict[str | None, str] = {}
    for name, word in zip(ids, words, strict=True):
        if word is not None and known.setdefault(name, word) != word:
            return words
    return [known.get(name) for name in ids]


def _numbers(table: Table, names: Sequence[str]) -> tuple[Array, Array]:
    """The features, NaN where missing, and which cells are no finite numbers.   rows features, both"""
    found = np.full((len(table), len(names)), np.nan)
    wrong = np.zeros(found.shape, dtype=bool)
    for i, name in enumerate(names):
        if table.kinds[name].word in ("number", "flag", "time"):
            found[:, i] = table.numbers([name])[:, 0]
            wrong[:, i] = np.isinf(found[:, i])
            continue
        for row, cell in enumerate(table.cells(name)):
            number = None if is_missing(cell) else number_of(cell)
            found[row, i] = np.nan if number is None else number
            wrong[row, i] = number is None and not is_missing(cell)
    return found, wrong


def _say(table: Table, used: Sequence[str], wrong: Array, holes: Array, odd: dict[str, list[Any]], row: int) -> str:
    """What is wrong with a row that should be predicted. wrong, holes: which of its cells; odd: columns with wrong cells"""
    if not wrong.any():
        return f"{table.where(row)} has a missing cell in column '{used[int(holes.argmax())]}', {UNFILLED}"
    name = used[int(wrong.argmax())]
    return (
        f"{table.where(row)} has {odd[name][row]!r} in column '{name}', expected a number; give a finite one, or remove the "
        "line"
    )


def _refuse_cells(
    table: Table,
    config: SetsConfig,
    used: Sequence[str],
    x: Array,
    wrong: Array,
    holes: Array,
    words: dict[str, list[str | None]],
) -> None:
    """Raise one error about all cells that cannot be learned from. words: of the columns of ids and targets"""
    problems = []
    for i, name in enumerate(used):
        for told in table.tell_cells(name, {"cell without a number": wrong[:, i]}):
            problems.append(f"{told} ({table.cells(name)[int(wrong[:, i].argmax())]!r})")
        if config.missing == "refuse":
            problems += table.tell_cells(name, {"missing cell": holes[:, i]})
    for name, texts in words.items():
        if config.missing == "refuse":
            problems += table.tell_cells(name, {"missing cell": np.array([text is None for text in texts])})
    if problems:
        numbers = "or name the feature columns with --data.columns" if wrong.any() else ""
        raise table.refuse(
            problems, used, x, "; ".join(filter(None, (f"{WAYS}", numbers, f"missing are {RECOGNISED}")))
        )


def _gather(ids: Sequence[str | None], kept: Array, path: str) -> _Rows:
    """The rows of each set together, sets in the order of their first rows."""
    if not len(kept):
        raise RegardError(f"{path} has no row without a missing cell; fill some in")
    number: dict[str, int] = {}
    which = np.array([number.setdefault(str(ids[row]), len(number)) for row in kept])
    order = kept[np.argsort(which, kind="stable")]
    return _Rows(order, np.concatenate(([0], np.cumsum(np.bincount(which)))), list(number))


def _agreed(table: Table, words: Sequence[str | None], row: int, config: SetsConfig, want: Want) -> str | None:
    """The one target of the rows of a set. None: they have none, or several, which is an error but to predict."""
    found = {word for word in words if word is not None}
    if len(found) == 1:
        return found.pop()
    if want != "use" and found:
        raise RegardError(
            f"{table.where(row)} begins a set with several values in column '{config.target}', but the model predicts "
            "one for each set; give each set one value"
        )
    return None


def _errors_of_sets(rows: _Rows, wrong: dict[int, str]) -> dict[int, str]:
    """What is wrong with a set: with the first of its rows that has something wrong."""
    found: dict[int, str] = {}
    bad = np.isin(rows.order, list(wrong))
    for place in np.flatnonzero(bad).tolist():
        i = int(np.searchsorted(rows.starts, place, side="right")) - 1
        found.setdefault(i, wrong[int(rows.order[place])])
    return found


def _columns(table: Table, config: SetsConfig, asked: Array, cells: Sequence[str | None] | None, *, each: bool) -> Any:
    """The columns to write answers beside: all of each element; of a set its id, and its target if that is known."""
    taken = table.take(asked).data
    if each:
        return taken
    found = taken.select([config.id])
    return found if cells is None else found.append_column(config.target, pa.array(cells, pa.string()))
