"""Tables, from a file or from memory to columns, and from columns to a file: CSV, TSV, JSON Lines, Parquet, Excel.

Cells of CSV stay the texts that they are; `kinds` says how to read them. Values of JSON Lines, Parquet and frames stay
what they are. Everything is read part by part, so a file may be larger than memory if nothing keeps the parts.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from regard.data.array import Array
from regard.data.column_kinds import UNLABELLED, ColumnFinder, Kind, read_numbers, read_times
from regard.data.dialect import DEFAULTS, LONGEST, Dialect, TableConfig, find_dialect, scan, split_lines, wrong_quotes
from regard.errors import RegardError, nearest
from regard.files import PathLike, json_text, most_unpacked, open_regular, readable_as, write_stream

TEXTS, JSON_LINES = (".csv", ".tsv"), (".jsonl", ".ndjson")
TEXT = "text"  # a kind of column: neither numbers nor dates
SUFFIXES = (*TEXTS, ".parquet", *JSON_LINES)
PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
PACKED_SUFFIXES = (".gz", ".bz2", ".zst")
AT_ONCE = 1 << 14  # rows of a part
BLOCK = 1 << 22  # bytes that pyarrow splits at once
BYTES_OF_A_CELL = 64  # in memory, at least
RECOGNISED = "empty cells, and NA, null, ? and the like among numbers"
IN_MEMORY = "rows"  # what a table is called that was no file
Part = tuple[pa.Table, dict[str, list[Any]]]  # columns, and the Python values of those that Arrow cannot hold
Locate = Callable[[Sequence[int]], list[int]]  # the lines of rows


def is_table(path: PathLike) -> bool:
    """Is this the path of a table, by its suffix?"""
    return without_packed(path).lower().endswith((*SUFFIXES, ".xlsx"))


def without_packed(path: PathLike) -> str:
    """train.en of train.en.gz"""
    name = str(path)
    return name.rpartition(".")[0] if name.lower().endswith(PACKED_SUFFIXES) else name


@dataclass(frozen=True, eq=False)
class Table:
    """Columns in memory."""

    path: str
    data: pa.Table
    kinds: Mapping[str, Kind]
    notes: tuple[str, ...] = ()  # what was found that is not the usual, and the doubts
    objects: Mapping[str, list[Any]] = field(default_factory=dict)  # values that Arrow cannot hold
    nulls: tuple[str, ...] = ()  # words that are missing in all columns
    repeated: tuple[str, ...] = ()  # names that several columns have in the file
    rows: Array | None = None  # the number of each row in the file
    locate: Locate = lambda rows: [row + 1 for row in rows]

    def __len__(self) -> int:
        return int(self.data.num_rows)

    @property
    def names(self) -> list[str]:
        return list(self.data.column_names)

    def place(self, name: str, advice: str, taken: Iterable[str | None] = ()) -> int:
        """The index of the column with this name. advice: what to do if there is none; taken: columns that are never
        suggested"""
        if name in self.repeated:
            raise RegardError(f"{self.path} has several columns called '{name}'; rename all but one")
        return place_of(name, self.names, self.path, advice, taken)

    def cells(self, name: str) -> list[Any]:
        """The values of a column as they are; None: there is none."""
        if name in self.objects:
            return self.objects[name]
        found = self.data.column(name).to_pylist()
        return [None if cell == "" or (isinstance(cell, float) and math.isnan(cell)) else cell for cell in found]

    def texts(self, name: str, advice: str = "", taken: Iterable[str | None] = ()) -> list[str | None]:
        """The texts of a column, without blanks around them; None: missing."""
        self.place(name, advice, taken)
        found = [None if cell is None else str(cell).strip() for cell in self.cells(name)]
        return [None if cell is None or cell in ("", *self.nulls) else cell for cell in found]

    def labels(self, name: str, advice: str = "", taken: Iterable[str | None] = ()) -> list[str | None]:
        """The texts of a column, of which NA, ? and the like are none."""
        return [None if text in UNLABELLED else text for text in self.texts(name, advice, taken)]

    def check_filled(self, names: Iterable[str], ways: str = "fill them in, or remove the rows") -> None:
        """Raise if cells of some columns hold nothing: one error for all of them. ways: what to do"""
        problems = []
        for name in names:
            rows = np.flatnonzero(self.missing(name))
            if len(rows):
                count = f"{len(rows):,} missing cells, the first" if len(rows) > 1 else "a missing cell"
                problems.append(f"column '{name}' has {count} in line {self.line(int(rows[0]))}")
        if problems:
            raise RegardError(f"{self.path}: {'; '.join(problems)}; {ways}; missing are {RECOGNISED}")

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each row as it is, with its line."""
        found = self.data.to_pylist()
        for name, values in self.objects.items():
            for row, value in zip(found, values, strict=True):
                row[name] = value
        return zip(self.lines(range(len(self))), found, strict=True)

    def missing(self, name: str) -> Array:
        """Which cells of a column hold nothing; words such as NA do where the others are numbers or dates.   rows"""
        words = (*self.nulls, *self.kinds[name].nulls) if self.kinds[name].word not in (TEXT, "id") else self.nulls
        if name in self.objects or not _is_text(self.data.column(name).type):
            return np.array([cell is None for cell in self.cells(name)], dtype=bool)
        cells = pc.fill_null(pc.utf8_trim_whitespace(self.data.column(name)), "")
        return np.array(pc.is_in(cells, pa.array(("", *words), pa.string())).to_numpy(), dtype=bool)

    def numbers(self, names: Sequence[str], advice: str = "") -> Array:
        """Some columns as numbers, NaN where missing; one error about all that are no numbers.   rows names, float64"""
        return self._read_numbers(names, advice, None)

    def finite_numbers(self, names: Sequence[str], advice: str, ways: str) -> Array:
        """The same, where no number may be missing or infinite: one error about all columns. ways: what to do about
        missing cells"""
        return self._read_numbers(names, advice, ways)

    def _read_numbers(self, names: Sequence[str], advice: str, ways: str | None) -> Array:
        found = np.full((len(self), len(names)), np.nan)
        problems: list[str] = []
        advices: dict[str, None] = {}
        for i, name in enumerate(names):
            self.place(name, advice)
            problem = self.problem(name)
            if problem:
                advices[advice] = None
            else:
                found[:, i] = self._numbers(name)
                problem = "" if ways is None else self._not_finite(found[:, i])
                advices |= {f"{ways}; missing are {RECOGNISED}": None} if problem else {}
            problems += [f"column '{name}' {problem}"] * bool(problem)
        if problems:
            still = [name for name, column in zip(names, found.T, strict=True) if _is_constant(column)]
            same = f"and {', '.join(still)} with the same number in all rows"
            said = "; ".join([*problems, *([same] if still else []), *filter(None, advices)])
            raise RegardError(f"{self.path} has columns that are not all numbers: {said}")
        return found

    def _not_finite(self, numbers: Array) -> str:
        missing, endless = np.flatnonzero(np.isnan(numbers)), np.flatnonzero(np.isinf(numbers))
        found = []
        if len(missing):
            count = f"{len(missing):,} missing cells, the first" if len(missing) > 1 else "a missing cell"
            found.append(f"has {count} in line {self.line(int(missing[0]))}")
        if len(endless):
            found.append(f"has {numbers[endless[0]]} in line {self.line(int(endless[0]))}, expected a finite number")
        return " and ".join(found)

    def problem(self, name: str) -> str:
        """Why a column has no numbers; nothing: it has."""
        kind, column = self.kinds[name], self.data.column(name)
        if name not in self.objects and kind.word in ("number", "flag", "id", "time"):
            return ""
        if kind.doubt:
            return kind.doubt
        cell = next((cell for cell in self.cells(name) if cell is not None), None)
        if cell is None:
            return "" if column.null_count == len(column) or _is_text(column.type) else "has no values"
        return f"has {'dates' if kind.word == 'date' else 'values'} such as '{cell}'"

    def _numbers(self, name: str) -> Array:
        column = self.data.column(name)
        if pa.types.is_null(column.type):
            return np.full(len(self), np.nan)
        if _is_text(column.type):
            return read_numbers(column, self.kinds[name])
        return np.array(pc.cast(column, pa.float64(), safe=False).to_numpy(), dtype=np.float64)

    def times(self, name: str) -> tuple[Any, bool]:
        """A column of dates as moments, and whether they had an offset from UTC.   timestamps"""
        kind, column = self.kinds[name], self.data.column(name)
        if kind.word != "date" and not kind.pattern:
            raise RegardError(f"column '{name}' of {self.path} {kind.doubt or 'has no dates'}")
        if _is_text(column.type):
            try:
                return read_times(column, kind)
            except RegardError as error:
                raise RegardError(f"column '{name}' of {self.path}: {error}") from error
        zone = pa.types.is_timestamp(column.type) and column.type.tz is not None
        return pc.cast(column, pa.timestamp("us", "UTC" if zone else None)).combine_chunks(), zone

    def groups(self, name: str) -> tuple[list[str], Array]:
        """The different texts of a column, in the order of their first rows, and which each row has.   groups, rows"""
        found: dict[str, int] = {}
        numbers = [found.setdefault(text or "", len(found)) for text in self.texts(name)]
        return list(found), np.array(numbers, dtype=np.int64)

    def take(self, rows: Sequence[int] | Array) -> Table:
        """Some rows, in this order."""
        rows = np.asarray(rows, dtype=np.int64)
        objects = {name: [values[row] for row in rows] for name, values in self.objects.items()}
        known = rows if self.rows is None else self.rows[rows]
        return replace(self, data=self.data.take(pa.array(rows)), objects=objects, rows=known)

    def lines(self, rows: Sequence[int]) -> list[int]:
        """The lines of the file in which rows begin; of Parquet and frames, their numbers from 1."""
        return self.locate([row if self.rows is None else int(self.rows[row]) for row in rows])

    def line(self, row: int) -> int:
        return self.lines([row])[0]

    def where(self, row: int) -> str:
        return f"line {self.line(row)} of {self.path}"


@dataclass(frozen=True, eq=False)
class OpenTable:
    """A file that was looked at as a whole, and is read again part by part."""

    path: str
    names: list[str]
    kinds: Mapping[str, Kind]
    notes: tuple[str, ...]
    count: int  # of rows
    config: TableConfig
    parts: Callable[[], Iterator[Part]]
    locate: Locate
    repeated: tuple[str, ...] = ()

    def place(self, name: str, advice: str, taken: Iterable[str | None] = ()) -> int:
        return self.table(pa.table([[]] * len(self.names), names=self.names), {}).place(name, advice, taken)

    def batches(self) -> Iterator[Table]:
        """The rows, some thousand at once."""
        first = 0
        for data, objects in self.parts():
            rows = np.arange(first, first + len(data))
            first += len(data)
            yield self.table(data, objects, rows)

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each row as it is, with its line."""
        for part in self.batches():
            yield from part.records()

    def table(self, data: Any, objects: Mapping[str, list[Any]], rows: Array | None = None) -> Table:
        nulls = self.config.nulls or ()
        return Table(self.path, data, self.kinds, self.notes, objects, nulls, self.repeated, rows, self.locate)


def open_table(path: PathLike, config: TableConfig = DEFAULTS, least: int = 1) -> OpenTable:
    """Look at a whole file: its dialect, and what its columns are. least: columns that it must have"""
    return _look(_open(str(path), config, least), config)


def names_of(path: PathLike, config: TableConfig = DEFAULTS) -> list[str]:
    """The names of the columns; of JSON Lines, those of the first rows."""
    source = _open(str(path), config, 1)
    if source.names:
        return source.names
    with readable_as(path, "a table"):
        return list(next(source.parts(), (pa.table({}), {}))[0].column_names)


def read_table(source: Any, config: TableConfig = DEFAULTS, least: int = 1) -> Table:
    """A whole table in memory, from a path or from what `table_of` takes."""
    if not isinstance(source, str | Path):
        table = table_of(source, config)
        if table is None:
            raise RegardError(f"a {type(source).__name__} is no table; give a path, a data frame or a list of dicts")
        return table
    kept: list[Part] = []
    found = _look(_open(str(source), config, least), config, kept)
    return found.table(*_join(kept, found.names))


def table_of(given: Any, config: TableConfig = DEFAULTS) -> Table | None:
    """Rows in memory as a table: a frame of pyarrow, polars or pandas, a dict of columns, a dict or a list of dicts;
    None: it is something else."""
    part = _part_of(given)
    if part is None:
        return None
    for name in part[0].column_names:
        if part[0].column_names.count(name) > 1:
            raise RegardError(f"the table has several columns called '{name}'; rename all but one")
    found = _look(_Source(IN_MEMORY, list(part[0].column_names), lambda: iter([part])), config)
    return found.table(*part)


def _is_constant(column: Array) -> bool:
    """Do several rows have the same number?"""
    return len(column) > 1 and bool((column == column[0]).all())


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
    near = nearest(name, free)
    if near is None and len(free) == 1:
        near = free[0]
    hint = f" (did you mean '{near}'?)" if near else ""
    raise RegardError(f"{path} has no column '{name}', it has: {', '.join(names)}; {advice}{hint}")


# ── looking


@dataclass(frozen=True, eq=False)
class _Source:
    """A table as it can be read."""

    path: str
    names: list[str]  # of JSON Lines none: its rows have them
    parts: Callable[[], Iterator[Part]]
    locate: Locate = lambda rows: [row + 1 for row in rows]
    said: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    raw: bool = False  # are all values texts?
    repeated: tuple[str, ...] = ()


def _look(source: _Source, config: TableConfig, kept: list[Part] | None = None) -> OpenTable:
    """Read all of a table once, to say what its columns are. kept: where its parts are kept, if they are"""
    finders: dict[str, _ValueFinder] = {name: _ValueFinder(config, source.raw) for name in source.names}
    first = size = 0  # rows and bytes until now
    with readable_as(source.path, "a table"):
        for data, objects in source.parts():
            for name, column in zip(data.column_names, data.columns, strict=True):
                finders.setdefault(name, _ValueFinder(config, source.raw)).add(column, objects.get(name), first)
            first += len(data)
            if kept is not None:
                kept.append((data, objects))
                size += data.nbytes
                _check_size(source.path, size)
    marks = {mark for each in finders.values() if (mark := each.texts.decided_mark()) is not None}
    kinds, said, doubts = {}, list(source.said), list(source.doubts)

    def place(row: int) -> str:
        return f"line {source.locate([row])[0]}"

    for name, finder in finders.items():
        kinds[name], more = finder.decide(name, place, marks, config)
        doubts += [f"{source.path}: {each}" for each in more]
        if kinds[name].how and kinds[name].how != "dates":
            said.append(f"{name}: {kinds[name].how}")
    notes = [f"{source.path}: {', '.join(said)}"] if source.said or marks == {","} else []
    return OpenTable(
        source.path,
        list(finders),
        kinds,
        (*notes, *doubts),
        first,
        config,
        source.parts,
        source.locate,
        source.repeated,
    )


class _ValueFinder:
    """What the values of a column are."""

    def __init__(self, config: TableConfig, raw: bool) -> None:
        self.raw = raw  # are the values texts of a file that has only texts?
        self.texts = ColumnFinder(config.nulls)
        self.words: dict[str, tuple[Any, int]] = {}  # the first value of each sort, and its row
        self.odd: set[str] = set()  # sorts of values that Arrow cannot hold, and of what is in their lists

    def add(self, column: Any, objects: Sequence[Any] | None, first: int) -> None:
        if objects is not None:
            for row, value in enumerate(objects, first):
                if value is not None:
                    self.words.setdefault(_word_of(value), (value, row))
                    self.odd |= set(map(_word_of, value)) if isinstance(value, list) else {_word_of(value)}
        elif column.null_count < len(column):
            word = _word_of_type(column.type)
            if word not in self.words:
                row = int(np.flatnonzero(pc.is_valid(column).to_numpy())[0])
                self.words[word] = (column[row].as_py(), first + row)
            if word == TEXT:
                self.texts.add(column, first)

    def decide(
        self, name: str, place: Callable[[int], str], marks: set[str], config: TableConfig
    ) -> tuple[Kind, list[str]]:
        if set(self.words) <= {TEXT}:
            kind, doubts = self.texts.decide(name, place, marks, config.decimal, config.dates)
            return kind, doubts if self.raw or kind.word != TEXT else []
        word, (value, row) = next(iter(self.words.items()))
        if len(self.words) == 1 and word == "number" in self.odd:
            doubt = f"has numbers with too many digits ({place(row)})"
            return Kind("object", doubt=doubt), [f"column '{name}' {doubt}, kept as they are; write them as text"]
        if len(self.words) == 1 and word == "list" and len(self.odd - {"object"}) > 1:
            doubt = f"has lists of different things, such as {value} ({place(row)})"
            return Kind("list", doubt=doubt), [f"column '{name}' {doubt}, kept as they are; write them alike"]
        if len(self.words) == 1:
            return Kind(word), []
        (one, (a, at)), (other, (b, there)) = list(self.words.items())[:2]
        doubt = f"has both {one}s such as {a!r} ({place(at)}) and {other}s such as {b!r} ({place(there)})"
        return Kind("object", doubt=doubt), [f"column '{name}' {doubt}; write them alike"]


def _word_of(value: Any) -> str:
    for kinds, word in (((str,), TEXT), ((bool,), "flag"), ((int, float), "number"), ((list, tuple), "list")):
        if isinstance(value, kinds):
            return word
    return "object"


def _word_of_type(kind: Any) -> str:
    tests = {TEXT: _is_text, "flag": pa.types.is_boolean, "date": _is_moment, "list": _is_list}
    found = next((word for word, test in tests.items() if test(kind)), None)
    if found is None:
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        return "number" if numeric else "object"
    return found


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_moment(kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _check_size(path: str, size: int) -> None:
    if size > (most := most_unpacked()):
        raise RegardError(
            f"{path} has more than {most:,} bytes unpacked, which is more than is read here; give a part of it"
        )


def _join(parts: Sequence[Part], names: Sequence[str]) -> Part:
    """All parts as one, with all columns."""
    columns, objects = [], {}
    known = [set(data.column_names) for data, _ in parts]
    for name in names:
        found = [
            data.column(name) if name in own else pa.nulls(len(data))
            for (data, _), own in zip(parts, known, strict=True)
        ]
        types = {each.type for each in found} - {pa.null()}
        if len(types) < 2 and not any(name in other for _, other in parts):
            kind = next(iter(types), pa.string())
            columns.append(pa.chunked_array([chunk.cast(kind) for each in found for chunk in _chunks(each)], kind))
            continue
        values: list[Any] = []
        for column, (_, other) in zip(found, parts, strict=True):
            values += other[name] if name in other else column.to_pylist()
        column, odd = column_of(values)
        columns.append(column)
        if odd is not None:
            objects[name] = odd
    return pa.table(columns, names=list(names)), objects


def _chunks(column: Any) -> list[Any]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def column_of(values: Sequence[Any]) -> tuple[Any, list[Any] | None]:
    """Values as Arrow holds them; if it would change any, as their texts, and the values themselves."""
    plain = [None if isinstance(value, float) and math.isnan(value) else value for value in values]
    try:
        column = pa.array(plain)
        if column.to_pylist() == plain:
            return (column.cast(pa.string()) if pa.types.is_null(column.type) else column), None
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass
    return pa.array([None if value is None else text_of(value) for value in plain], pa.string()), plain


def text_of(value: Any) -> str:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    try:
        return json_text(value)
    except (TypeError, ValueError):
        return str(value)


# ── files


def _open(path: str, config: TableConfig, least: int) -> _Source:
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no {path}; give a table ({', '.join(SUFFIXES)})")
    with readable_as(path, "a table"), open_regular(path) as file:
        head = file.read(8)
        name = without_packed(path).lower()
        if head.startswith(b"PAR1") or name.endswith(".parquet"):
            return _open_parquet(path)
        if name.endswith(".xlsx"):
            return _open_excel(path)
        if name.endswith(JSON_LINES):
            return _open_json_lines(path, config)
        return _open_text(path, config, least)


@contextmanager
def unpacked(path: PathLike) -> Iterator[Any]:
    """The bytes of a file, unpacked if its first bytes say that it is packed."""
    with open_regular(path) as raw:
        head = raw.read(4)
        raw.seek(0)
        packed = next((way for start, way in PACKED.items() if head.startswith(start)), None)
        try:
            yield pa.input_stream(raw, compression=packed)
        except OSError as error:
            if packed is None or error.errno is not None:
                raise
            raise RegardError(f"{path} is not a {packed} file, or it is cut off: {error}") from error


def unpack_lines(path: PathLike, encoding: str = "utf-8-sig") -> Iterator[str]:
    """The lines of a text, ends included."""
    with unpacked(path) as stream:
        lines = io.TextIOWrapper(stream, encoding=encoding, newline="")
        number = 0
        try:
            while line := lines.readline(LONGEST + 1):
                number += 1
                if len(line) > LONGEST:
                    raise RegardError(
                        f"line {number} of {path} has more than {LONGEST:,} characters; give a table or a text"
                    )
                if "\0" in line:
                    raise RegardError(f"{path} is binary, not text: there is a NUL in line {number}; give a text")
                yield line
        except UnicodeDecodeError as error:
            raise RegardError(
                f"{path} is not text in {encoding.removesuffix('-sig').upper()} from line {number + 1} on: {error.reason}; "
                "save it as UTF-8, or name its encoding with --data.encoding"
            ) from error


class _Walk:
    """Finds the lines of rows by reading the file again; rows in order cost one reading."""

    def __init__(self, open_rows: Callable[[], Iterator[tuple[int, Any]]]) -> None:
        self.open_rows = open_rows
        self.rest: Iterator[tuple[int, tuple[int, Any]]] = iter(())
        self.next = -1  # row

    def __call__(self, rows: Sequence[int]) -> list[int]:
        found: dict[int, int] = {}
        for row in sorted(set(rows)):
            if not 0 <= self.next <= row:
                self.rest = enumerate(self.open_rows())
            found[row] = next(line for number, (line, _) in self.rest if number == row)
            self.next = row + 1
        return [found[row] for row in rows]


# CSV and its relatives


def _open_text(path: str, config: TableConfig, least: int) -> _Source:
    with unpacked(path) as stream:
        found = scan(stream, path, config)
    dialect = find_dialect(found, path, config, least)
    quoted = found.quotes if dialect.quote == '"' else bool(dialect.quote)
    direct = not (quoted or dialect.comments or (found.blanks and len(dialect.names) > 1))

    def parts() -> Iterator[Part]:
        if quoted:  # pyarrow accepts a quote that is never closed
            for _ in _strict_rows(path, dialect):
                pass
        return _text_parts(path, dialect)

    def count(rows: Sequence[int]) -> list[int]:
        return [row + 1 + dialect.header for row in rows]

    locate = count if direct else _Walk(lambda: _strict_rows(path, dialect))
    return _Source(path, list(dialect.names), parts, locate, dialect.said, dialect.doubts, True, dialect.repeated)


def _strict_rows(path: str, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row with its line, by the csv module; what is wrong is an error with the line."""
    lines = unpack_lines(path, dialect.encoding)
    for _ in islice(lines, dialect.header):
        pass
    try:
        for number, cells in split_lines(lines, dialect):
            line = number + dialect.header
            if len(cells) != dialect.width:
                if dialect.comments and cells[0].startswith("#"):
                    continue
                raise _wrong_width(line, path, len(cells), dialect)
            yield line, cells
    except csv.Error as error:
        words, number = error.args
        raise wrong_quotes(path, number + dialect.header, words) from error


def _wrong_width(line: int, path: str, count: int, dialect: Dialect) -> RegardError:
    mark = {"\t": "a tab", " ": "a blank"}.get(dialect.separator, f"'{dialect.separator}'")
    return RegardError(
        f"line {line} of {path} has {count} values, but there are {dialect.width} columns; a text with {mark} or a line end "
        "in it needs double quotes around it"
    )


def _text_parts(path: str, dialect: Dialect) -> Iterator[Part]:
    """The columns of a text, some megabytes at once."""
    plain = dialect.separator == " " or dialect.blanks
    waiting = 0  # empty rows of one column, which are none at the end
    for data in _python_parts(path, dialect) if plain else _arrow_parts(path, dialect):
        if dialect.width == 1:
            filled = np.flatnonzero(pc.not_equal(data.column(0), "").to_numpy())
            rows = int(filled[-1]) + 1 if len(filled) else 0
            empty, waiting = (waiting if rows else 0), (len(data) - rows if rows else waiting + len(data))
            column = pa.concat_arrays([pa.repeat("", empty), *data.column(0).slice(0, rows).chunks])
            data = pa.table([column], names=data.column_names)
        for place in range(len(dialect.names), dialect.width):
            odd = np.flatnonzero(pc.not_equal(pc.utf8_trim_whitespace(data.column(place)), "").to_numpy())
            if len(odd):
                _refuse_last(path, dialect)
        data = data.select(range(len(dialect.names))).rename_columns(list(dialect.names))
        yield data, {}


def _refuse_last(path: str, dialect: Dialect) -> None:
    line = next(line for line, cells in _strict_rows(path, dialect) if cells[-1].strip())
    raise RegardError(
        f"line {line} of {path} has {dialect.width} values, but there are {len(dialect.names)} columns; the last has no name"
    )


def _python_parts(path: str, dialect: Dialect) -> Iterator[Any]:
    rows = _strict_rows(path, dialect)
    while some := [cells for _, cells in islice(rows, AT_ONCE)]:
        yield pa.table([pa.array(column, pa.string()) for column in zip(*some, strict=True)], _numbered(dialect.width))


def _numbered(width: int) -> list[str]:
    return [str(number) for number in range(width)]


def _arrow_parts(path: str, dialect: Dialect) -> Iterator[Any]:
    """As pyarrow splits it: strictly, and everything as text. A cell larger than a block is tried again with larger
    ones."""
    from pyarrow import csv as arrow_csv

    def skip_comment(row: Any) -> str:
        return "skip" if dialect.comments and row.text.lstrip().startswith("#") else "error"

    names, block, done = _numbered(dialect.width), BLOCK, 0
    parse = arrow_csv.ParseOptions(
        delimiter=dialect.separator or "\x1f",
        quote_char=dialect.quote or False,
        double_quote=not dialect.escape,
        escape_char=dialect.escape or False,
        newlines_in_values=bool(dialect.quote),
        ignore_empty_lines=dialect.width > 1,
        invalid_row_handler=skip_comment,
    )
    convert = arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    while True:
        with unpacked(path) as stream:
            if dialect.encoding not in ("utf-8", "utf-8-sig"):
                stream = pa.transcoding_input_stream(stream, dialect.encoding, "utf8")
            read = arrow_csv.ReadOptions(
                use_threads=False, block_size=block, column_names=names, skip_rows=dialect.header
            )
            at = 0
            try:
                for batch in arrow_csv.open_csv(stream, read, parse, convert):
                    at += len(batch)
                    if at > done:
                        batch = batch.slice(max(0, len(batch) - (at - done)))
                        done = at
                        yield pa.Table.from_batches([batch])
                return
            except pa.ArrowInvalid as error:
                if "straddling" in str(error) and block < LONGEST:
                    block *= 8
                    continue
                if "Could not skip" in str(error) or "Empty CSV" in str(error):
                    return
                for _ in _strict_rows(path, dialect):
                    pass
                raise


# JSON Lines


def _open_json_lines(path: str, config: TableConfig) -> _Source:
    def parts() -> Iterator[Part]:
        rows = _json_rows(path, config)
        while some := [row for _, row in islice(rows, AT_ONCE)]:
            yield part_of_rows(some)

    return _Source(path, [], parts, _Walk(lambda: _json_rows(path, config)))


def _json_rows(path: str, config: TableConfig) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, content in enumerate(unpack_lines(path, config.encoding or "utf-8-sig"), start=1):
        if not content.strip():
            continue
        try:
            row = json.loads(content, object_pairs_hook=_different_keys)
        except (ValueError, RecursionError) as error:
            raise RegardError(
                f"line {line} of {path} is not JSON: {error}; JSONL has one object in each line"
            ) from error
        if not isinstance(row, dict):
            raise RegardError(
                f"line {line} of {path} is a {type(row).__name__}; JSONL has one object with the columns in each line"
            )
        yield line, row


def _different_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key '{twice}' is there twice")
    return found


def part_of_rows(rows: Sequence[Mapping[Any, Any]]) -> Part:
    """Dicts as columns; a key that a dict does not have is missing."""
    for number, row in enumerate(rows, start=1):
        if not all(isinstance(name, str) for name in row):
            raise RegardError(f"row {number} has a column that is not named by text; rename its columns")
    return part_of_columns({name: [row.get(name) for row in rows] for name in dict.fromkeys(chain(*rows))})


def part_of_columns(columns: Mapping[Any, Sequence[Any]]) -> Part:
    found, objects = {}, {}
    for name, values in columns.items():
        if not isinstance(name, str):
            raise RegardError(f"the column {name!r} is not named by text; rename it")
        found[name], odd = column_of(values)
        if odd is not None:
            objects[name] = odd
    if len({len(column) for column in found.values()}) > 1:
        raise RegardError(
            f"the columns have different lengths: {', '.join(f'{name} {len(each)}' for name, each in found.items())}"
        )
    return pa.table(found), objects


# Parquet and Excel


def _open_parquet(path: str) -> _Source:
    from pyarrow import parquet

    def refuse(error: Exception) -> RegardError:
        return RegardError(f"{path} is not a Parquet file, or it is cut off: {' '.join(str(error).split())}")

    def parts() -> Iterator[Part]:
        try:
            with open_regular(path) as file:
                for batch in parquet.ParquetFile(file).iter_batches(batch_size=AT_ONCE):
                    yield _stored(pa.Table.from_batches([batch]))
        except (pa.ArrowException, OSError) as error:
            raise refuse(error) from error

    try:
        with open_regular(path) as file:
            about = parquet.ParquetFile(file)
            _check_cells(path, about.metadata)
            return _Source(path, list(about.schema_arrow.names), parts)
    except (pa.ArrowException, OSError) as error:
        raise refuse(error) from error


def _check_cells(path: str, about: Any) -> None:
    """Raise for a table too large for memory: a few bytes can say that a million cells are all alike."""
    size = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    cells, most = about.num_rows * about.num_columns, most_unpacked()
    if max(size, cells * BYTES_OF_A_CELL) > most:
        raise RegardError(
            f"{path} has {about.num_rows:,} rows of {about.num_columns:,} columns and {size:,} bytes "
            f"unpacked, which is more than the {most:,} bytes that are read here; give a part of it"
        )


def _open_excel(path: str) -> _Source:
    try:
        import fastexcel
    except ImportError as error:
        raise RegardError(
            f"{path} is an Excel file, and fastexcel, which reads it, is not installed; use pip install fastexcel, or save it "
            "as CSV"
        ) from error
    sheet = fastexcel.read_excel(path).load_sheet(0, dtypes="string").to_arrow()
    table = pa.Table.from_batches([sheet]).cast(pa.schema([(name, pa.string()) for name in sheet.schema.names]))
    filled = pa.table([pc.fill_null(column, "") for column in table.columns], names=table.column_names)
    return _Source(
        path, table.column_names, lambda: iter([(filled, {})]), lambda rows: [row + 2 for row in rows], raw=True
    )


def _stored(table: Any) -> Part:
    """A table of Arrow with columns of the types that are used here."""
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_dictionary(kind):
            try:
                column = column.cast(kind.value_type)
            except pa.ArrowNotImplementedError:  # categories of polars
                column = pa.chunked_array([pa.array(column.to_pylist())])
        columns.append(column.cast(pa.string()) if _is_text(column.type) else column)
    return pa.table(columns, names=table.column_names), {}


# ── frames in memory


def _part_of(given: Any) -> Part | None:
    """What is in memory as columns; None: it is no table."""
    home = type(given).__module__.partition(".")[0]
    if home == "pandas" and hasattr(given, "columns"):
        names = list(given.columns)
        _check_names(names)
        return _merge({name: _of_pandas(given.iloc[:, place]) for place, name in enumerate(names)})
    if home == "polars" and hasattr(given, "collect"):
        raise RegardError("a LazyFrame has no rows yet; give frame.collect()")
    if hasattr(given, "__arrow_c_stream__"):
        odd = {}
        if home == "polars":  # Arrow would get the pointers of Python objects
            odd = {name: given[name].to_list() for name in given.columns if str(given[name].dtype) == "Object"}
            given = given.drop(list(odd))
        data, _ = _stored(pa.RecordBatchReader.from_stream(given).read_all())
        objects = {name: column_of(values) for name, values in odd.items()}
        for name, (column, _) in objects.items():
            data = data.append_column(name, column)
        return data, {name: values for name, (_, values) in objects.items() if values is not None}
    if isinstance(given, Mapping):
        if given and all(isinstance(each, Sequence) and not isinstance(each, str | bytes) for each in given.values()):
            return part_of_columns(given)
        return part_of_rows([given])
    rows = isinstance(given, Sequence) and not isinstance(given, str | bytes) and bool(given)
    if rows and all(isinstance(each, Mapping) for each in given):
        return part_of_rows(given)
    return None


def _check_names(names: Sequence[Any]) -> None:
    for name in names:
        if not isinstance(name, str):
            raise RegardError(f"the column {name!r} is not named by text; rename it")
        if names.count(name) > 1:
            raise RegardError(f"the table has several columns called '{name}'; rename all but one")


def _of_pandas(series: Any) -> tuple[Any, list[Any] | None]:
    try:
        column = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return column_of(series.tolist())
    if pa.types.is_struct(column.type) or str(series.dtype).startswith("period"):
        return column_of(series.tolist())
    return column, None


def _merge(columns: Mapping[str, tuple[Any, list[Any] | None]]) -> Part:
    data, _ = _stored(pa.table({name: column for name, (column, _) in columns.items()}))
    return data, {name: values for name, (_, values) in columns.items() if values is not None}


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

    writer = None
    for table in tables:
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


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
