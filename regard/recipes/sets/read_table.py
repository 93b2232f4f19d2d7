"""The sets of a table in long form as examples, with the columns that answers are written beside."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.data.array import Array
from regard.data.missing import is_missing
from regard.errors import RegardError
from regard.recipes.answers import plain_cell
from regard.recipes.example import Examples
from regard.recipes.processor import Want
from regard.recipes.sets.config import SetsConfig
from regard.recipes.sets.long_tables import LongTable, read_long, sets_with_errors

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def read_table(
    data: Any, config: SetsConfig, want: Want, features: Sequence[str] | None, *, each: bool | None
) -> Examples:
    """The sets of a table. features: the columns that the model knows; each: does it predict a target for each element?
    None: not known yet, the data says it"""
    how: dict[str, Any] = {"columns": features, "missing": config.missing}
    if want == "use":
        how |= {"target": None, "never": config.target, "lenient": True}
    else:
        how |= {"target": config.target, "trained": features is not None}
    table = read_long(data, config.id, **how)
    words = _targets(table, config, want)
    if each is None:
        assert table.target is not None
        each = any(len(set(table.target[a:b])) > 1 for a, b in pairwise(table.starts))
    starts = table.starts
    if words is not None and not each:
        words = [_agreed(table, words[a:b], a, config, want) for a, b in pairwise(starts)]
    notes: tuple[str, ...] = ()
    if table.dropped:
        rows = f"{table.dropped:,} row{'s' if table.dropped > 1 else ''}"
        notes = (f"left out {rows} of {table.table.path} with a missing cell",)
    return Examples(
        what=table.table.path,
        source=table.table.path,
        count=len(table.sets),
        inputs=lambda i: {"x": table.points[starts[i] : starts[i + 1]]},
        names=table.sets.__getitem__,
        cells=None if words is None else _as_cells(words),
        target_names=(config.target,),
        starts=starts if each else None,
        part="element",
        places=_places(table, each=each),
        rows=_rows(table, config, words, each=each) if want == "use" else None,
        errors=sets_with_errors(table),
        about={
            "form": "table",
            "features": table.names,
            "sizes": np.diff(starts),
            "holes": dict(table.holes),
        },
        notes=notes,
    )


def _targets(table: LongTable, config: SetsConfig, want: Want) -> list[str | None] | None:
    """The target of each row; None: there is no such column."""
    if table.target is not None:
        return list(table.target)
    if want != "use" or config.target not in table.table.names:
        return None
    place = table.table.names.index(config.target)
    cells = (table.table.rows[row][place] for row in table.order)
    return [None if is_missing(cell) else str(cell).strip() for cell in cells]


def _agreed(
    table: LongTable, words: Sequence[str | None], row: int, config: SetsConfig, want: Want
) -> str | None:
    """The one target of the rows of a set. None: they have none, or several, which is an error but to predict."""
    found = {word for word in words if word is not None}
    if len(found) == 1:
        return found.pop()
    if want != "use" and found:
        raise RegardError(
            f"line {table.lines[row]} of {table.table.path} begins a set with several values in column "
            f"'{config.target}', but the model predicts one for each set; give each set one value"
        )
    return None


def _places(table: LongTable, *, each: bool) -> Any:
    """Where something that is asked is: the line of an element, or of the first element of a set."""

    def place(asked: int) -> str:
        row = asked if each else int(table.starts[asked])
        return f"line {table.lines[row]} of {table.table.path}"

    return place


def _rows(
    table: LongTable, config: SetsConfig, words: Sequence[str | None] | None, *, each: bool
) -> pa.Table:
    """The columns to write answers beside: all of each element; of a set its id, and its target if that is known."""
    import pyarrow as pa

    cells, names = table.table.rows, table.table.names
    if each:
        columns = {name: [plain_cell(cells[row][k]) for row in table.order] for k, name in enumerate(names)}
    else:
        identity = names.index(config.id)
        columns = {config.id: [plain_cell(cells[row][identity]) for row in table.order[table.starts[:-1]]]}
        if words is not None:
            columns[config.target] = list(words)
    return pa.table({name: _as_column(column) for name, column in columns.items()})


def _as_column(cells: Sequence[Any]) -> pa.Array[Any]:
    """A column of cells; of several types, as text."""
    import pyarrow as pa

    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if cell is None else str(cell) for cell in cells])


def _as_cells(words: Sequence[str | None]) -> pa.Array[Any] | Array:
    import pyarrow as pa

    return pa.array(words, type=pa.string())
