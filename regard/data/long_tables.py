"""Tables in long form: a line for each thing, with the set it belongs to, its numbers, and what is asked of the set.

    set,price,amount,target
    17,3.50,2,returned
    17,1.20,1,returned
    18,9.99,1,kept
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.config import nearest
from regard.data.batch import Ids
from regard.data.pieces import read_lines

SUFFIXES = (".csv", ".tsv", ".parquet")


class LongTable(NamedTuple):
    """The sets of a table, in the order in which they come first. Set i is rows starts[i] to starts[i + 1]."""

    names: tuple[str, ...]  # of the columns
    sets: tuple[str, ...]  # what each set is called
    points: Ids  # t columns
    starts: Ids  # sets + 1
    target: tuple[str, ...] | None  # of each row, as it was written; None: there is no such column
    lines: Ids  # of each row


def looks_long(path: str) -> bool:
    """Whether a path names a table, by how it ends."""
    return path.lower().endswith(SUFFIXES)


def read_long(
    path: str, identity: str = "set", target: str | None = "target", columns: Sequence[str] | None = None
) -> LongTable:
    """A table with its rows gathered by set. columns: those with the numbers of a thing; None: all others.

    target=None: there need be none (to predict), and a column of that kind is not read.
    """
    names, rows, lines = _parquet(path) if path.lower().endswith(".parquet") else _csv(path)
    if not rows:
        raise ValueError(f"{path} has no rows; give one for each thing of each set")
    wanted = [identity, *([target] if target is not None else []), *(columns or ())]
    for name in wanted:
        if name not in names:
            near = nearest(name, names)
            advice = "say which one with --data.id, --data.target and --data.columns"
            if target is None:
                advice = f"the model learned from {', '.join(wanted)}, so call them that"
            raise ValueError(f"{path} has no column '{name}', it has: {', '.join(names)}; {advice}"
                             + (f" (is it '{near}'?)" if near else ""))
    used = tuple(columns) if columns is not None else tuple(name for name in names if name not in (identity, target))
    if not used:
        raise ValueError(f"{path} has no column with numbers besides '{identity}' and '{target}'; give one at least")
    places = [names.index(name) for name in used]
    advice = "fill it in, or take the line out" if columns else "name the columns that hold numbers with --data.columns"
    points = _numbers(rows, lines, places, names, path, advice)
    own = [_text(row[names.index(identity)], path, line, identity) for row, line in zip(rows, lines, strict=True)]
    number: dict[str, int] = {}
    which = np.array([number.setdefault(name, len(number)) for name in own])
    order = np.argsort(which, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(which))))
    asked = None
    if target is not None:
        place = names.index(target)
        asked = tuple(_text(rows[i][place], path, lines[i], target) for i in order)
    return LongTable(used, tuple(number), points[order], starts, asked, np.array(lines)[order])


def _csv(path: str) -> tuple[list[str], list[list[Any]], list[int]]:
    stream = read_lines(path)
    first = next(stream, "")
    if not first.strip():
        raise ValueError(f"{path} has no line with the names of its columns")
    mark = max(",;\t", key=first.count)
    names = [name.strip() for name in next(csv.reader([first], delimiter=mark))]
    rows: list[list[Any]] = []
    lines: list[int] = []
    reader = csv.reader(stream, delimiter=mark, strict=True)
    line = 2
    try:
        for row in reader:
            if row:  # an empty line is no row
                if len(row) != len(names):
                    raise ValueError(f"line {line} of {path} has {len(row)} values, but there are {len(names)} columns")
                rows.append(row)
                lines.append(line)
            line = reader.line_num + 2
    except csv.Error as error:
        raise ValueError(f"{path} is not CSV from line {line} on: {error}") from error
    return names, rows, lines


def _parquet(path: str) -> tuple[list[str], list[list[Any]], list[int]]:
    try:
        from pyarrow import ArrowException, parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise ValueError(f"{path} is a Parquet file, which pyarrow reads, and it is not installed; "
                         "use pip install 'regard[tables]', or save it as CSV") from error
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no {path}; give a table (.csv, .tsv, .parquet)")
    try:
        columns: dict[str, list[Any]] = parquet.read_table(path).to_pydict()
    except (ArrowException, OSError) as error:
        raise ValueError(f"{path} is no Parquet file, or it is cut off: {' '.join(str(error).split())}") from error
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    return list(columns), rows, list(range(1, len(rows) + 1))


def _numbers(rows: list[list[Any]], lines: list[int], places: list[int], names: list[str], path: str, advice: str) -> Ids:
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
                said = "nothing" if value is None or not str(value).strip() else repr(value)
                raise ValueError(f"line {line} of {path} has {said} in column '{names[place]}', where a number should be; "
                                 f"{advice}") from None
            if not good:
                raise ValueError(f"line {line} of {path} has {value} in column '{names[place]}', which is no number; "
                                 "take the line out, or fill it in")
    raise ValueError(f"{path} holds numbers that cannot be read")


def _text(value: Any, path: str, line: int, column: str) -> str:
    said = "" if value is None else str(value).strip()
    if not said or said.lower() == "nan":
        raise ValueError(f"line {line} of {path} has nothing in column '{column}'; fill it in, or take the line out")
    return said
