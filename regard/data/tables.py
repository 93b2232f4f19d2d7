"""Tables, from a file or from memory to columns, and from columns to a file: CSV, TSV, JSON Lines, Parquet, Excel.

Cells of CSV stay the texts that they are; `kinds` says how to read them. Values of JSON Lines, Parquet and frames stay
what they are. Everything is read part by part, so a file may be larger than memory if nothing keeps the parts.
"""

from __future__ import annotations

import csv
import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from regard.data.array import Array
from regard.data.column_kinds import NUMBERS, TEXT, UNLABELLED, ColumnFinder, Kind, as_mask, clean_cells, have_zones
from regard.data.dialect import DEFAULTS, TableConfig
from regard.data.table_formats import (
    AT_ONCE,
    JSON_LINES,
    Columns,
    Locate,
    Source,
    as_texts,
    count_rows,
    join_parts,
    list_values,
    open_source,
    source_of,
)
from regard.data.targets import read_numbers
from regard.errors import RegardError, nearest
from regard.files import PathLike, json_text, most_unpacked, readable_as, write_stream

RECOGNISED = "empty cells, and NA, null, ? and the like among numbers"


def is_empty(cell: Any) -> bool:
    """Does a cell of text hold nothing? There, NA and ? are texts as any other."""
    return cell is None or cell != cell or (isinstance(cell, str) and not cell.strip())


def is_missing(cell: Any) -> bool:
    """Is a cell no label: does it hold nothing, or a word such as NA and ?"""
    return is_empty(cell) or (isinstance(cell, str) and cell.strip() in UNLABELLED)


def place_of(name: str, names: Sequence[str], path: str, advice: str, taken: Iterable[str | None] = ()) -> int:
    """The index of a column. advice: what to do if there is none; taken: columns that are something else, such as the
    target, and so are never suggested"""
    if name in names:
        return names.index(name)
    free = [each for each in names if each not in set(taken)]
    near = nearest(name, free) or (free[0] if len(free) == 1 else None)
    hint = f" (did you mean '{near}'?)" if near else ""
    raise RegardError(f"{path} has no column '{name}', it has: {', '.join(names)}; {advice}{hint}")


@dataclass(frozen=True, eq=False)
class Table:
    """Columns in memory; or what is known of a file, without rows, whose `batches` have them."""

    path: str
    columns: Columns
    kinds: Mapping[str, Kind]
    notes: tuple[str, ...] = ()  # what was found that is not the usual, and the doubts
    nulls: tuple[str, ...] = ()  # words that are missing in all columns
    repeated: tuple[str, ...] = ()  # names that several columns have in the file
    rows: Array | None = None  # the number of each row in the file
    locate: Locate = count_rows
    parts: Callable[[], Iterator[Columns]] | None = None  # of a file that is read again part by part
    count: int = 0  # its rows

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    @property
    def data(self) -> pa.Table:
        """The table as Arrow holds it, with texts of what it cannot hold."""
        return pa.table(
            {name: as_texts(each) if isinstance(each, list) else each for name, each in self.columns.items()}
        )

    def place(self, name: str, advice: str, taken: Iterable[str | None] = ()) -> int:
        """The index of the column with this name. advice: what to do if there is none; taken: columns that are never
        suggested"""
        if name in self.repeated:
            raise RegardError(f"{self.path} has several columns called '{name}'; rename all but one")
        return place_of(name, self.names, self.path, advice, taken)

    def take(self, rows: Sequence[int] | Array) -> Table:
        """Some rows, in this order."""
        rows = np.asarray(rows, dtype=np.int64)
        columns = {
            name: [each[row] for row in rows] if isinstance(each, list) else each.take(pa.array(rows))
            for name, each in self.columns.items()
        }
        return replace(self, columns=columns, rows=rows if self.rows is None else self.rows[rows])

    def lines(self, rows: Sequence[int]) -> list[int]:
        """The lines of the file in which rows begin; of Parquet and frames, their numbers from 1."""
        return self.locate([row if self.rows is None else int(self.rows[row]) for row in rows])

    def line(self, row: int) -> int:
        return self.lines([row])[0]

    def where(self, row: int) -> str:
        return f"line {self.line(row)} of {self.path}"

    def batches(self) -> Iterator[Table]:
        """The rows, some thousand at once."""
        if self.parts is None:
            yield self
            return
        first = 0
        for columns in self.parts():
            part = replace(self, columns=columns, parts=None)
            yield replace(part, rows=np.arange(first, first + len(part)))
            first += len(part)

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each row as it is, with its line."""
        for part in self.batches():
            rows = zip(*map(list_values, part.columns.values()), strict=True)
            named = (dict(zip(part.columns, row, strict=True)) for row in rows)
            yield from zip(part.lines(range(len(part))), named, strict=True)

    # ── texts

    def cells(self, name: str) -> list[Any]:
        """The values of a column as they are; None: there is none."""
        if isinstance(self.columns[name], list):
            found = list_values(self.columns[name])
            held = next((cell for cell in found if isinstance(cell, np.ndarray)), None)
            if held is not None:
                raise RegardError(
                    f"column '{name}' of {self.path} holds arrays of shape {held.shape}, expected one value in each row; "
                    "give a column for each number"
                )
            return found
        found = self.columns[name].to_pylist()
        return [None if cell == "" or (isinstance(cell, float) and math.isnan(cell)) else cell for cell in found]

    def texts(self, name: str, advice: str = "", taken: Iterable[str | None] = ()) -> list[str | None]:
        """The texts of a column, without blanks around them; None: missing."""
        self.place(name, advice, taken)
        return self._strip(self.cells(name))

    def _strip(self, cells: Sequence[Any]) -> list[str | None]:
        found = [None if cell is None else str(cell).strip() for cell in cells]
        return [None if cell is None or cell in ("", *self.nulls) else cell for cell in found]

    def targets(self, name: str) -> list[Any]:
        """The values of a column that is predicted. Numbers that Python would not read as they are written, such as 1,5
        and 1 000, are written as it does."""
        cells, kind = self.cells(name), self.kinds[name]
        if kind.word != "number" or not _is_text(self.columns[name]):
            return cells
        if kind.reading in (None, NUMBERS[0]) and read_numbers([c for c in cells if c is not None]) is not None:
            return cells
        numbers = self._numbers(name).tolist()
        return [None if n != n else str(int(n)) if n.is_integer() else str(n) for n in numbers]

    def labels(self, name: str, advice: str = "", taken: Iterable[str | None] = ()) -> list[str | None]:
        """The texts of a column that is predicted, of which NA, ? and the like are none."""
        self.place(name, advice, taken)
        return [None if text in UNLABELLED else text for text in self._strip(self.targets(name))]

    def groups(self, name: str) -> tuple[list[str], Array]:
        """The different texts of a column, in the order of their first rows, and which each row has.   groups, rows"""
        found: dict[str, int] = {}
        numbers = [found.setdefault(text or "", len(found)) for text in self.texts(name)]
        return list(found), np.array(numbers, dtype=np.int64)

    # ── numbers and dates

    def numbers(
        self, names: Sequence[str], advice: str = "", ways: str | None = None, filled: Sequence[str] = ()
    ) -> Array:
        """Some columns as numbers, NaN where missing; one error about all that is wrong with them. ways: what to do about
        missing cells, where none may be missing or infinite; filled: columns of any kind in which no cell may be missing
        either   rows names, float64"""
        found = np.full((len(self), len(names)), np.nan)
        problems: list[str] = []
        advices: dict[str, None] = {}
        for i, name in enumerate(names):
            self.place(name, advice)
            problem = self.problem(name)
            if problem:
                problems.append(f"column '{name}' {problem}")
                advices[advice] = None
                continue
            found[:, i] = self._numbers(name)
            if ways is not None:
                wrong = {"missing cell": np.isnan(found[:, i]), "infinite number": np.isinf(found[:, i])}
                problems += self.tell_cells(name, wrong)
        for name in filled:
            self.place(name, advice)
            problems += self.tell_cells(name, {"missing cell": self.missing(name)})
        if problems:
            if any("missing cell" in problem for problem in problems):
                advices[f"{ways or 'fill them in, or remove the rows'}; missing are {RECOGNISED}"] = None
            raise self.refuse(problems, names, found, "; ".join(filter(None, advices)))
        return found

    def refuse(self, problems: Sequence[str], names: Sequence[str], numbers: Array, advice: str) -> RegardError:
        """The one error about columns that should be numbers, and which of them have the same number everywhere, or ids."""
        alike = [name for name, column in zip(names, numbers.T, strict=True) if len(self) > 1 and not np.ptp(column)]
        ids = [name for name in names if self.kinds[name].word == "id"]
        aside = [f"and {', '.join(alike)} with the same number in all rows"] if alike else []
        aside += [f"and {', '.join(ids)} with ids, which are read as numbers"] if ids else []
        return RegardError(f"{self.path}: {'; '.join([*problems, *aside])}; {advice}")

    def tell_cells(self, name: str, wrong: Mapping[str, Array]) -> list[str]:
        """column 'a' has 3 missing cells, the first in line 7; nothing for what no cell is. wrong: which cells are what"""
        problems = []
        for what, mask in wrong.items():
            rows = np.flatnonzero(mask)
            count = f"{len(rows):,} {what}s, the first" if len(rows) > 1 else f"a {what}"
            problems += [f"column '{name}' has {count} in line {self.line(int(rows[0]))}"] if len(rows) else []
        return problems

    def missing(self, name: str) -> Array:
        """Which cells of a column hold nothing; words such as NA do where the others are numbers or dates.   rows"""
        kind, column = self.kinds[name], self.columns[name]
        if not _is_text(column):
            return np.array([cell is None for cell in self.cells(name)], dtype=bool)
        return clean_cells(column, self.nulls if kind.word in (TEXT, "id") else (*self.nulls, *kind.nulls))[1]

    def problem(self, name: str) -> str:
        """Why a column has no numbers; nothing: it has."""
        kind, column = self.kinds[name], self.columns[name]
        if kind.word in ("number", "flag", "id", "time"):
            return ""
        if kind.doubt:
            return kind.doubt
        cell = next((cell for cell in self.cells(name) if cell is not None), None)
        if cell is None:
            return "" if _is_text(column) or pc.is_null(column).all() else "has no values"
        return f"has {'dates' if kind.word == 'date' else 'values'} such as '{cell}'"

    def _numbers(self, name: str) -> Array:
        column = self.columns[name]
        if _is_text(column):
            return self.kinds[name].read(column)[0]
        return np.array(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)

    def times(self, name: str) -> tuple[Any, bool]:
        """A column of dates as moments, and whether they had an offset from UTC.   timestamps"""
        kind, column = self.kinds[name], self.columns[name]
        if not kind.dates and kind.word != "date":
            raise RegardError(f"column '{name}' of {self.path} {kind.doubt or 'has no dates'}")
        if kind.dates is None:
            zone = pa.types.is_timestamp(column.type) and column.type.tz is not None
            found = pc.cast(column, pa.timestamp("us", "UTC" if zone else None))
            return (found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found), zone
        moments, missing = kind.read(column, kind.dates)
        with_zone = have_zones(clean_cells(column, kind.nulls)[0], kind.dates)
        if with_zone.any() and not (with_zone | missing).all():
            cell = column[int((with_zone | missing).argmin())]
            raise RegardError(f"column '{name}' of {self.path}: '{cell}' has no offset from UTC, where others have one")
        return pa.array(moments, pa.timestamp("us"), mask=missing), bool(with_zone.any())


def _is_text(column: Any) -> bool:
    return not isinstance(column, list) and bool(pa.types.is_string(column.type))


# ── opening


def open_table(path: PathLike, config: TableConfig = DEFAULTS, least: int = 1) -> Table:
    """Look at a whole file: its dialect, and what its columns are; its rows are in `batches`. least: columns that it must
    have"""
    return _look(open_source(str(path), config, least), config)


def names_of(path: PathLike, config: TableConfig = DEFAULTS) -> list[str]:
    """The names of the columns; of JSON Lines, those of the first rows."""
    source = open_source(str(path), config)
    with readable_as(path, "a table"):
        return source.names or list(next(source.parts(), {}))


def read_table(source: Any, config: TableConfig = DEFAULTS, least: int = 1) -> Table:
    """A whole table in memory, from a path or from what `table_of` takes."""
    if not isinstance(source, str | Path):
        table = table_of(source, config)
        if table is None:
            raise RegardError(f"a {type(source).__name__} is no table; give a path, a data frame or a list of dicts")
        return table
    return _read_whole(open_source(str(source), config, least), config)


def table_of(given: Any, config: TableConfig = DEFAULTS) -> Table | None:
    """Rows in memory as a table: a frame of pyarrow, polars or pandas, a dict of columns, a dict or a list of dicts;
    None: it is something else."""
    source = source_of(given)
    return None if source is None else _read_whole(source, config)


def _read_whole(source: Source, config: TableConfig) -> Table:
    kept: list[Columns] = []
    found = _look(source, config, kept)
    return replace(found, columns=join_parts(kept, found.names), parts=None)


def _look(source: Source, config: TableConfig, kept: list[Columns] | None = None) -> Table:
    """Read all of a table once, to say what its columns are. kept: where its parts are kept, if they are"""
    finders = {name: _ValueFinder(config) for name in source.names}
    first = size = 0  # rows and bytes until now
    with readable_as(source.path, "a table"):
        for columns in source.parts():
            for name, column in columns.items():
                finders.setdefault(name, _ValueFinder(config)).add(column, first)
                size += getattr(column, "nbytes", 0)
            first += len(next(iter(columns.values()), ()))
            if kept is not None:
                kept.append(columns)
                if size > (most := most_unpacked()):
                    raise RegardError(
                        f"{source.path} has more than {most:,} bytes unpacked, which is more than is read here; give a "
                        "part of it"
                    )
    marks = {mark for finder in finders.values() if (mark := finder.texts.decided_mark())}
    kinds, said, doubts = {}, list(source.said), list(source.doubts)
    for name, finder in finders.items():
        kinds[name], more = finder.decide(lambda row: f"line {source.locate([row])[0]}", marks)
        if source.raw or kinds[name].word != TEXT:
            doubts += [f"{source.path}: column '{name}' {each}" for each in more]
        if kinds[name].how:
            said.append(f"{name}: {kinds[name].how}")
    notes = [f"{source.path}: {', '.join(said)}"] if source.said or marks == {"comma"} else []
    return Table(
        source.path,
        {name: pa.nulls(0) for name in finders},
        kinds,
        notes=(*notes, *doubts),
        nulls=config.nulls or (),
        repeated=source.repeated,
        locate=source.locate,
        parts=source.parts,
        count=first,
    )


WORDS = (
    (str, TEXT),
    (bool, "flag"),
    ((int, float, Decimal), "number"),
    ((list, tuple), "list"),
    ((dt.date, dt.datetime), "date"),
)


def _word_of(value: Any) -> str:
    return next((word for types, word in WORDS if isinstance(value, types)), "object")


class _ValueFinder:
    """What the values of a column are."""

    def __init__(self, config: TableConfig) -> None:
        self.texts = ColumnFinder(config)
        self.words: dict[str, tuple[Any, int]] = {}  # the first value of each sort, and its row
        self.inside: set[str] = set()  # sorts of the values that Arrow cannot hold, and of what is in their lists

    def add(self, column: Any, first: int) -> None:
        if isinstance(column, list):
            for row, value in enumerate(column, first):
                if value is not None:
                    self.words.setdefault(_word_of(value), (value, row))
                    self.inside |= set(map(_word_of, value)) if isinstance(value, list) else {_word_of(value)}
        elif column.null_count < len(column):
            row = int(as_mask(pc.is_valid(column)).argmax())
            value = column[row].as_py()
            self.words.setdefault(_word_of(value), (value, first + row))
            if isinstance(value, str):
                self.texts.add(column, first)

    def decide(self, place: Callable[[int], str], marks: set[str]) -> tuple[Kind, list[str]]:
        if set(self.words) <= {TEXT}:
            return self.texts.decide(place, marks)
        (word, (value, row)), *others = self.words.items()
        if others:
            other, (another, there) = others[0]
            doubt = (
                f"has both {word}s such as {value!r} ({place(row)}) and {other}s such as {another!r} ({place(there)})"
            )
            return Kind("object", doubt=doubt), [f"{doubt}; write them alike"]
        if word == "number" in self.inside:
            doubt = f"has numbers with too many digits ({place(row)})"
            return Kind("object", doubt=doubt), [f"{doubt}, kept as they are; write them as text"]
        if word == "list" and len(self.inside - {"object"}) > 1:
            doubt = f"has lists of different things, such as {value} ({place(row)})"
            return Kind("list", doubt=doubt), [f"{doubt}, kept as they are; write them alike"]
        return Kind(word), []


# ── writing


def write_table(path: PathLike, tables: Iterable[Any] | Any) -> None:
    """Write a table of Arrow, or parts of one that have the same columns, in the format that the name of the file says;
    whole or not at all."""
    parts = iter([tables] if isinstance(tables, pa.Table) else tables)
    write_stream(path, lambda part: _WRITERS[Path(path).suffix.lower()](part, parts))


def _write_cells(mark: str) -> Callable[[Path, Iterator[Any]], None]:
    def write(path: Path, tables: Iterator[Any]) -> None:
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=mark, lineterminator="\n")
            for number, (names, rows) in enumerate(_row_parts(tables)):
                if not number:
                    writer.writerow(names)
                writer.writerows([_cell_text(cell) for cell in row] for row in rows)

    return write


def _cell_text(cell: Any) -> Any:
    """A cell of CSV: numbers with all their digits, true and false as JSON has them, null as nothing."""
    return json_text(cell) if isinstance(cell, bool | list | dict) else cell


def _write_json_lines(path: Path, tables: Iterator[Any]) -> None:
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for names, rows in _row_parts(tables):
            file.writelines(json_text(dict(zip(names, row, strict=True))) + "\n" for row in rows)


def _write_parquet(path: Path, tables: Iterator[Any]) -> None:
    from pyarrow import parquet

    first = next(tables)
    with parquet.ParquetWriter(path, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def _row_parts(tables: Iterator[Any]) -> Iterator[tuple[list[str], Iterator[tuple[Any, ...]]]]:
    for table in tables:
        for start in range(0, max(1, len(table)), AT_ONCE):
            some = table.slice(start, AT_ONCE)
            yield table.column_names, zip(*(column.to_pylist() for column in some.columns), strict=True)


_WRITERS: dict[str, Callable[[Path, Iterator[Any]], None]] = {
    ".csv": _write_cells(","),
    ".tsv": _write_cells("\t"),
    ".parquet": _write_parquet,
    **dict.fromkeys(JSON_LINES, _write_json_lines),
}
