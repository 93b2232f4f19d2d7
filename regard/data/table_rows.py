"""The rows of a table one by one, so that a table may be larger than memory: CSV, TSV, JSON Lines, Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.any_length import any_length
from regard.data.packed_lines import PACKED, unpack_lines, without_packed
from regard.data.tsv_rows import MARK, read_tsv_rows, split_header
from regard.errors import RegardError, nearest
from regard.files import most_unpacked, open_regular, readable_as

JSON_LINES = (".jsonl", ".ndjson")
SUFFIXES = (".csv", ".tsv", ".parquet", *JSON_LINES)
PACKED_TABLES = tuple(f"{suffix}{PACKED}" for suffix in (".csv", ".tsv", *JSON_LINES))
BYTES_OF_A_CELL = 64  # in memory, at least
AT_ONCE = 4096  # rows of a Parquet file that are unpacked together


class Streamed(NamedTuple):
    """The column names of a table (of JSON Lines, those of the first row), and its rows, each with its line."""

    path: str
    names: list[str]
    rows: Iterator[tuple[int, dict[str, Any]]]


def looks_like_table(path: str) -> bool:
    """Is this the path of a table, by its suffix?"""
    return path.lower().endswith((*SUFFIXES, *PACKED_TABLES))


def stream_rows(path: str, wanted: Collection[str] = ()) -> Streamed:
    """A table, row by row. wanted: names of columns, which tell which mark separates the cells of a CSV file"""
    with readable_as(path, "a table"):
        names, rows = open_cells(path, wanted, short=True)
        if without_packed(path).lower().endswith(JSON_LINES):
            return Streamed(path, names, _guarded(rows, path))
        keys = _different(names)
        named = ((line, dict(zip(keys, cells, strict=True))) for line, cells in rows)
        return Streamed(path, names, _guarded(named, path))


def open_cells(
    path: str, wanted: Collection[str] = (), *, short: bool = False
) -> tuple[list[str], Iterator[tuple[int, Any]]]:
    """The column names, and the cells of each row: a list, or for JSON Lines a dict. short: rows of CSV with
    too few cells are filled up with None, not refused"""
    if path.lower().endswith(".parquet"):
        return _open_parquet(path)
    if without_packed(path).lower().endswith(JSON_LINES):
        return _open_json_lines(path)
    return _open_csv(path, wanted, short)


def place_of(
    name: str, names: Sequence[str], path: str, advice: str, taken: Iterable[str | None] = ()
) -> int:
    """The index of a column. advice: what to do if there is none; taken: columns that are something else, such
    as the target, and so are never suggested"""
    if name not in names:
        free = [each for each in names if each not in set(taken)]
        near = nearest(name, free)
        if near is None and len(free) == 1:
            near = free[0]
        hint = f" (did you mean '{near}'?)" if near else ""
        raise RegardError(f"{path} has no column '{name}', it has: {', '.join(names)}; {advice}{hint}")
    if names.count(name) > 1:
        raise RegardError(f"{path} has {names.count(name)} columns called '{name}'; rename all but one")
    return names.index(name)


def _different(names: Sequence[str]) -> list[str]:
    """The names, with a number at a second one of the same name, so that no column is lost."""
    found: dict[str, None] = {}
    next_number: dict[str, int] = {}
    for name in names:
        number = next_number.get(name, 1)
        while (new := name if number == 1 else f"{name}_{number}") in found:
            number += 1
        next_number[name] = number + 1
        found[new] = None
    return list(found)


def _guarded(rows: Iterator[tuple[int, Any]], path: str) -> Iterator[tuple[int, Any]]:
    """The same rows; what a reader of odd content raises is one line."""
    with readable_as(path, "a table"):
        yield from rows


# ── CSV


def _open_csv(
    path: str, wanted: Collection[str], short: bool
) -> tuple[list[str], Iterator[tuple[int, list[Any]]]]:
    lines = unpack_lines(path)
    first = next(lines, "")
    if not first.strip():
        raise RegardError(f"{path} has no header; write the column names in its first line")
    if without_packed(path).lower().endswith(".tsv"):
        names = [name.strip() for name in split_header(first)]
        rows: Iterator[tuple[int, list[str]]] = read_tsv_rows(lines, len(names), 2)
        return names, _check_widths(rows, path, MARK, len(names), short)
    with any_length():
        headers = {mark: [name.strip() for name in _split_header(first, mark)] for mark in ",;\t"}
    mark = max(headers, key=lambda each: (set(wanted) <= set(headers[each]), len(headers[each])))
    return headers[mark], _check_widths(_csv_rows(lines, path, mark), path, mark, len(headers[mark]), short)


def _split_header(line: str, mark: str) -> list[str]:
    try:
        return next(csv.reader([line.strip("\r\n")], delimiter=mark, skipinitialspace=True), [])
    except csv.Error:
        return []


def _check_widths(
    rows: Iterator[tuple[int, list[str]]], path: str, mark: str, width: int, short: bool
) -> Iterator[tuple[int, list[Any]]]:
    for line, row in rows:
        if len(row) > width or (len(row) < width and not short):
            named = "a tab" if mark == MARK else f"'{mark}'"
            raise RegardError(
                f"line {line} of {path} has {len(row)} values, but there are {width} columns; "
                f"a text with {named} or a line end in it needs double quotes around it"
            )
        yield line, [*row, *[None] * (width - len(row))]


def _csv_rows(lines: Iterator[str], path: str, mark: str) -> Iterator[tuple[int, list[str]]]:
    reader, line = csv.reader(lines, delimiter=mark, strict=True), 2
    while True:
        try:
            with any_length():
                row = next(reader, None)
        except csv.Error as error:
            raise RegardError(
                f"{path} is not CSV from line {line} on: {error}; a text with quotes in it needs "
                'double quotes around it, and "" for each quote inside'
            ) from error
        if row is None:
            return
        if row:  # an empty line is no row
            yield line, row
        line = reader.line_num + 2  # where the next row begins; this one may have had several lines


# ── JSON Lines


def _open_json_lines(path: str) -> tuple[list[str], Iterator[tuple[int, dict[str, Any]]]]:
    rows = _json_rows(path)
    first = next(rows, None)
    if first is None:
        return [], iter(())
    return list(first[1]), _with_first(first, rows)


def _with_first(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _json_rows(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, content in enumerate(unpack_lines(path), start=1):
        if not content.strip():
            continue
        try:
            row = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise RegardError(
                f"line {line} of {path} is not JSON: {error}; JSONL has one object in each line"
            ) from error
        if not isinstance(row, dict):
            raise RegardError(
                f"line {line} of {path} is a {type(row).__name__}, not an object such as "
                '{"column": "value"}'
            )
        yield line, row


# ── Parquet


def import_pyarrow(path: str, verb: str) -> Any:
    """pyarrow, or one line that says how to install it. verb: what it does with the file"""
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError as error:
        raise RegardError(
            f"{path} is a Parquet file, and pyarrow, which {verb} it, is not installed; "
            "use pip install 'regard[tables]', or save it as CSV"
        ) from error
    return pyarrow, parquet


def _open_parquet(path: str) -> tuple[list[str], Iterator[tuple[int, list[Any]]]]:
    pyarrow, parquet = import_pyarrow(path, "reads")
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no {path}; give a table (.csv, .tsv, .parquet, .jsonl)")
    try:
        with open_regular(path) as file:
            about = parquet.ParquetFile(file)
            _check_cells(path, about.metadata)
            names = list(about.schema_arrow.names)
    except (pyarrow.ArrowException, OSError) as error:
        raise _no_parquet(path, error) from error
    return names, _parquet_rows(path, pyarrow, parquet)


def _parquet_rows(path: str, pyarrow: Any, parquet: Any) -> Iterator[tuple[int, list[Any]]]:
    number = 0
    try:
        with open_regular(path) as file:
            for batch in parquet.ParquetFile(file).iter_batches(batch_size=AT_ONCE):
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    number += 1
                    yield number, list(row)
    except (pyarrow.ArrowException, OSError) as error:
        raise _no_parquet(path, error) from error


def _no_parquet(path: str, error: Exception) -> RegardError:
    return RegardError(f"{path} is not a Parquet file, or it is cut off: {' '.join(str(error).split())}")


def _check_cells(path: str, about: Any) -> None:
    """Raise for a table too large for memory: a few bytes can say that a million cells are all alike."""
    size = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    cells, most = about.num_rows * about.num_columns, most_unpacked()
    if max(size, cells * BYTES_OF_A_CELL) > most:
        raise RegardError(
            f"{path} has {about.num_rows:,} rows of {about.num_columns:,} columns and {size:,} bytes "
            f"unpacked, which is more than the {most:,} bytes that are read here; give a part of it"
        )
