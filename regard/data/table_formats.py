"""How the rows of a table come from a file or from memory, part by part: CSV and its relatives, JSON Lines, Parquet, Excel,
frames, dicts and lists of dicts."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from regard.data.column_kinds import as_mask
from regard.data.dialect import LONGEST, Dialect, TableConfig, find_dialect, scan, split_lines, wrong_quotes
from regard.errors import RegardError
from regard.files import PathLike, json_text, most_unpacked, open_regular, readable_as

TEXTS, JSON_LINES = (".csv", ".tsv"), (".jsonl", ".ndjson")
SUFFIXES = (*TEXTS, ".parquet", *JSON_LINES)
PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
PACKED_SUFFIXES = (".gz", ".bz2", ".zst")
AT_ONCE = 1 << 14  # rows of a part
BLOCK = 1 << 22  # bytes that pyarrow splits at once
BYTES_OF_A_CELL = 64  # in memory, at least
IN_MEMORY = "rows"  # what a table is called that was no file

Columns = dict[str, Any]  # each a column of Arrow, or a list of values that Arrow would change
Locate = Callable[[Sequence[int]], list[int]]  # the lines of rows


def count_rows(rows: Sequence[int]) -> list[int]:
    """The lines of rows that have none: their numbers, from 1."""
    return [row + 1 for row in rows]


@dataclass(frozen=True, eq=False)
class Source:
    """A table as it can be read."""

    path: str
    names: list[str]  # of JSON Lines none: its rows have them
    parts: Callable[[], Iterator[Columns]]
    locate: Locate = count_rows
    said: tuple[str, ...] = ()  # what is not the usual
    doubts: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()  # names that several columns have
    raw: bool = False  # are all values texts?


def is_table(path: PathLike) -> bool:
    """Is this the path of a table, by its suffix?"""
    return without_packed(path).lower().endswith((*SUFFIXES, ".xlsx"))


def without_packed(path: PathLike) -> str:
    """train.en of train.en.gz"""
    name = str(path)
    return name.rpartition(".")[0] if name.lower().endswith(PACKED_SUFFIXES) else name


# ── files


def open_source(path: str, config: TableConfig, least: int = 1) -> Source:
    """A file as a table. least: columns that it must have"""
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


class _Lines:
    """The lines of rows, by reading the file again as far as it is needed."""

    def __init__(self, open_rows: Callable[[], Iterator[tuple[int, Any]]]) -> None:
        self.open_rows = open_rows
        self.known = np.zeros(0, dtype=np.int64)

    def __call__(self, rows: Sequence[int]) -> list[int]:
        most = max(rows, default=-1) + 1
        if most > len(self.known):
            lines = (line for line, _ in islice(self.open_rows(), max(most, 2 * len(self.known))))
            self.known = np.fromiter(lines, dtype=np.int64)
        return [int(self.known[row]) for row in rows]


# CSV and its relatives


def _open_text(path: str, config: TableConfig, least: int) -> Source:
    with unpacked(path) as stream:
        found = scan(stream, path, config)
    dialect = find_dialect(found, path, config, least)

    def parts() -> Iterator[Columns]:
        if dialect.quote == "'" or (dialect.quote and found.quotes):  # pyarrow accepts a quote that is never closed
            for _ in _strict_rows(path, dialect):
                pass
        for data in _text_parts(path, dialect):
            for place in range(len(dialect.names), dialect.width):
                if as_mask(pc.not_equal(pc.utf8_trim_whitespace(data.column(place)), "")).any():
                    line = next(line for line, cells in _strict_rows(path, dialect) if cells[-1].strip())
                    raise _wrong_width(line, path, dialect.width, dialect)
            yield dict(zip(dialect.names, data.columns, strict=False))

    locate = _Lines(lambda: _strict_rows(path, dialect))
    return Source(path, list(dialect.names), parts, locate, dialect.said, dialect.doubts, dialect.repeated, raw=True)


def _strict_rows(path: str, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row with its line, by the csv module; what is wrong is an error with the line."""
    lines = unpack_lines(path, dialect.encoding)
    for _ in islice(lines, dialect.header):
        pass
    try:
        for number, cells in split_lines(lines, dialect):
            if len(cells) == dialect.width:
                yield number + dialect.header, cells
            elif not (dialect.comments and cells[0].startswith("#")):
                raise _wrong_width(number + dialect.header, path, len(cells), dialect)
    except csv.Error as error:
        words, number = error.args
        raise wrong_quotes(path, number + dialect.header, words) from error


def _wrong_width(line: int, path: str, count: int, dialect: Dialect) -> RegardError:
    mark = {"\t": "a tab", " ": "a blank"}.get(dialect.separator, f"'{dialect.separator}'")
    return RegardError(
        f"line {line} of {path} has {count} values, but there are {len(dialect.names)} columns; a text with {mark} or a line "
        "end in it needs double quotes around it"
    )


def _text_parts(path: str, dialect: Dialect) -> Iterator[Any]:
    """The columns of a text, some megabytes at once. The csv module splits what pyarrow cannot; of one column, empty rows at
    the end are none."""
    names = [str(place) for place in range(dialect.width)]
    if dialect.separator == " " or dialect.blanks:
        split = (cells for _, cells in _strict_rows(path, dialect))
        while some := list(islice(split, AT_ONCE)):
            yield pa.table([pa.array(column, pa.string()) for column in zip(*some, strict=True)], names)
        return
    waiting = 0
    for data in _arrow_parts(path, dialect, names):
        if dialect.width == 1:
            filled = np.flatnonzero(as_mask(pc.not_equal(data.column(0), "")))
            rows = int(filled[-1]) + 1 if len(filled) else 0
            before = pa.table([pa.repeat("", waiting if rows else 0)], names)
            waiting = len(data) - rows + (0 if rows else waiting)
            data = pa.concat_tables([before, data.slice(0, rows)])
        yield data


def _arrow_parts(path: str, dialect: Dialect, names: Sequence[str]) -> Iterator[Any]:
    """As pyarrow splits it: strictly, and everything as text. A cell larger than a block is tried again with larger
    ones."""
    from pyarrow import csv as arrow_csv

    def skip_comment(row: Any) -> str:
        return "skip" if dialect.comments and row.text.lstrip().startswith("#") else "error"

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
    block, done = BLOCK, 0
    while True:
        read = arrow_csv.ReadOptions(use_threads=False, block_size=block, column_names=names, skip_rows=dialect.header)
        at = 0
        with unpacked(path) as stream:
            if dialect.encoding not in ("utf-8", "utf-8-sig"):
                stream = pa.transcoding_input_stream(stream, dialect.encoding, "utf8")
            try:
                for batch in arrow_csv.open_csv(stream, read, parse, convert):
                    at += len(batch)
                    if at > done:
                        yield pa.Table.from_batches([batch.slice(max(0, len(batch) - (at - done)))])
                        done = at
                return
            except pa.ArrowInvalid as error:
                if "Could not skip" in str(error) or "Empty CSV" in str(error):
                    return
                if "straddling" not in str(error) or block >= LONGEST:
                    for _ in _strict_rows(path, dialect):
                        pass
                    raise
                block *= 8


# JSON Lines


def _open_json_lines(path: str, config: TableConfig) -> Source:
    def parts() -> Iterator[Columns]:
        rows = (row for _, row in _json_rows(path, config))
        while some := list(islice(rows, AT_ONCE)):
            yield columns_of_rows(some)

    return Source(path, [], parts, _Lines(lambda: _json_rows(path, config)))


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
        raise ValueError(f"the key '{next(name for name in names if names.count(name) > 1)}' is there twice")
    return found


# Parquet and Excel


def _open_parquet(path: str) -> Source:
    from pyarrow import parquet

    @contextmanager
    def opened() -> Iterator[Any]:
        try:
            with open_regular(path) as file:
                yield parquet.ParquetFile(file)
        except (pa.ArrowException, OSError) as error:
            words = " ".join(str(error).split())
            raise RegardError(f"{path} is not a Parquet file, or it is cut off: {words}") from error

    def parts() -> Iterator[Columns]:
        with opened() as file:
            for batch in file.iter_batches(batch_size=AT_ONCE):
                yield _check_columns(zip(batch.schema.names, batch.columns, strict=True))

    with opened() as file:
        about = file.metadata
        size = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
        # a few bytes can say that a million cells are all alike
        if max(size, about.num_rows * about.num_columns * BYTES_OF_A_CELL) > (most := most_unpacked()):
            raise RegardError(
                f"{path} has {about.num_rows:,} rows of {about.num_columns:,} columns and {size:,} bytes "
                f"unpacked, which is more than the {most:,} bytes that are read here; give a part of it"
            )
        return Source(path, list(file.schema_arrow.names), parts)


def _open_excel(path: str) -> Source:
    try:
        import fastexcel
    except ImportError as error:
        raise RegardError(
            f"{path} is an Excel file, and fastexcel, which reads it, is not installed; use pip install fastexcel, or save it "
            "as CSV"
        ) from error
    sheet = fastexcel.read_excel(path).load_sheet(0, dtypes="string").to_arrow()
    cells = [pc.fill_null(column.cast(pa.string()), "") for column in sheet.columns]
    columns = dict(zip(sheet.schema.names, cells, strict=True))
    return Source(path, list(columns), lambda: iter([columns]), lambda rows: [row + 2 for row in rows], raw=True)


# ── frames and rows in memory


def source_of(given: Any) -> Source | None:
    """What is in memory as a table: a frame of pyarrow, polars or pandas, a dict of columns, a dict or a list of dicts; None:
    it is something else."""
    home = type(given).__module__.partition(".")[0]
    if home == "pandas" and hasattr(given, "columns"):
        columns = _check_columns((name, _of_pandas(given.iloc[:, i])) for i, name in enumerate(given.columns))
    elif home == "polars" and hasattr(given, "collect"):
        raise RegardError("a LazyFrame has no rows yet; give frame.collect()")
    elif home == "polars" and hasattr(given, "columns"):  # of objects, Arrow would get the pointers
        series = [given[name] for name in given.columns]
        columns = _check_columns((s.name, s.to_list() if str(s.dtype) == "Object" else s.to_arrow()) for s in series)
    elif hasattr(given, "__arrow_c_stream__"):
        data = pa.RecordBatchReader.from_stream(given).read_all()
        columns = _check_columns(zip(data.column_names, data.columns, strict=True))
    elif isinstance(given, Mapping):
        several = given and all(map(_has_rows, given.values()))
        columns = (
            _check_columns((name, _of_values(each)) for name, each in given.items())
            if several
            else columns_of_rows([given])
        )
    elif isinstance(given, Sequence) and given and all(isinstance(each, Mapping) for each in given):
        columns = columns_of_rows(given)
    else:
        return None
    return Source(IN_MEMORY, list(columns), lambda: iter([columns]))


def _has_rows(values: Any) -> bool:
    """Is it a column, and not the value of one row?"""
    if isinstance(values, np.ndarray):
        return values.ndim > 0
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


def _of_values(values: Any) -> Any:
    """A column in memory as values of Python; of an array with more than one axis, each row is an array."""
    if not isinstance(values, np.ndarray):
        return values
    if values.dtype.kind == "M":
        values = values.astype("datetime64[us]")
    return values.tolist() if values.ndim == 1 else list(values)


def _of_pandas(series: Any) -> Any:
    try:
        column = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return series.tolist()
    return series.tolist() if pa.types.is_struct(column.type) or str(series.dtype).startswith("period") else column


def columns_of_rows(rows: Sequence[Mapping[Any, Any]]) -> Columns:
    """Dicts as columns; a key that a dict does not have is missing."""
    return _check_columns((name, [row.get(name) for row in rows]) for name in dict.fromkeys(chain(*rows)))


def _check_columns(columns: Iterable[tuple[Any, Any]]) -> Columns:
    """Columns of different names and one length, in the types that are used here."""
    found: Columns = {}
    for name, values in columns:
        if not isinstance(name, str):
            raise RegardError(f"the column {name!r} is not named by text; rename it")
        if name in found:
            raise RegardError(f"the table has several columns called '{name}'; rename all but one")
        found[name] = values if isinstance(values, pa.Array | pa.ChunkedArray) else hold_values(values)
        kind = getattr(found[name], "type", None)
        if kind is not None and pa.types.is_dictionary(kind):
            found[name] = pa.array(found[name].to_pylist(), kind.value_type)
        elif kind is not None and (pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
            found[name] = found[name].cast(pa.string())
    if len({len(column) for column in found.values()}) > 1:
        lengths = ", ".join(f"{name} {len(each)}" for name, each in found.items())
        raise RegardError(f"the columns have different lengths: {lengths}")
    return found


def hold_values(values: Sequence[Any]) -> Any:
    """Values as a column of Arrow; if that would change any, as a list."""
    plain = [None if isinstance(value, float) and math.isnan(value) else value for value in values]
    if any(isinstance(value, np.ndarray) for value in plain):  # which Arrow would make lists of
        return plain
    try:
        column = pa.array(plain)
        if column.to_pylist() == plain:
            return column.cast(pa.string()) if pa.types.is_null(column.type) else column
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass
    return plain


def as_texts(values: Iterable[Any]) -> Any:
    """A column of Arrow with the texts of values, JSON where they have none."""
    return pa.array([None if value is None else _text_of(value) for value in values], pa.string())


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    try:
        return json_text(value)
    except (TypeError, ValueError):
        return str(value)


def join_parts(parts: Sequence[dict[Any, Any]], names: Sequence[Any]) -> dict[Any, Any]:
    """All parts as one, with all columns."""
    found: dict[Any, Any] = {}
    counts = [len(next(iter(part.values()), ())) for part in parts]
    for name in names:
        columns = [part.get(name, pa.nulls(count)) for part, count in zip(parts, counts, strict=True)]
        types = {getattr(each, "type", None) for each in columns} - {pa.null()}
        if None in types or len(types) > 1:
            found[name] = hold_values([*chain(*map(list_values, columns))])
            continue
        kind = next(iter(types), pa.string())
        chunks = [chunk for each in columns for chunk in getattr(each, "chunks", [each])]
        found[name] = pa.chunked_array([chunk.cast(kind) for chunk in chunks], kind)
    return found


def list_values(column: Any) -> list[Any]:
    """The values of a column as Python has them."""
    return column if isinstance(column, list) else column.to_pylist()
