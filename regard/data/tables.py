"""A table with column names: CSV, TSV or Parquet. Each row has the number of its line."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.columns import split_cells
from regard.data.text_files import read_lines
from regard.errors import RegardError, nearest
from regard.files import most_unpacked, open_regular, readable_as

SUFFIXES = (".csv", ".tsv", ".parquet")
BYTES_OF_A_CELL = 64  # in memory, at least


class Table(NamedTuple):
    """The column names, and the rows as text (Parquet: as stored)."""

    path: str
    names: list[str]
    rows: list[list[Any]]
    lines: list[int]  # of each row

    def place(self, name: str, advice: str) -> int:
        """The index of the column with this name. advice: what to do if there is none"""
        if name not in self.names:
            near = nearest(name, self.names)
            hint = f" (did you mean '{near}'?)" if near else ""
            raise RegardError(
                f"{self.path} has no column '{name}', it has: {', '.join(self.names)}; {advice}{hint}"
            )
        return self.names.index(name)

    def texts(self, name: str, advice: str) -> list[str]:
        """One column, in which no cell may be empty."""
        place = self.place(name, advice)
        return [self._text(row[place], line, name) for row, line in zip(self.rows, self.lines, strict=True)]

    def _text(self, value: Any, line: int, column: str) -> str:
        said = "" if value is None else str(value).strip()
        if not said or said.lower() == "nan":
            raise RegardError(
                f"line {line} of {self.path} has an empty cell in column '{column}'; fill it in, or "
                "remove the line"
            )
        return said


def looks_like_table(path: str) -> bool:
    """Is this the path of a table, by its suffix?"""
    return path.lower().endswith(SUFFIXES)


def read_table(path: str) -> Table:
    """Every row of a file, in memory."""
    with readable_as(path, "a table"):
        if path.lower().endswith(".parquet"):
            return _parquet(path)
        return _csv(path)


def _csv(path: str) -> Table:
    stream = read_lines(path)
    first = next(stream, "")
    if not first.strip():
        raise RegardError(f"{path} has no header; write the column names in its first line")
    mark = max(",;\t", key=first.count)
    names = [name.strip() for name in split_cells(first.strip("\r\n"), mark, f"line 1 of {path}")]
    rows: list[list[Any]] = []
    lines: list[int] = []
    reader = csv.reader(stream, delimiter=mark, strict=True)
    line = 2
    try:
        for row in reader:
            if row:  # an empty line is no row
                if len(row) != len(names):
                    raise RegardError(
                        f"line {line} of {path} has {len(row)} values, but there are {len(names)} columns"
                    )
                rows.append(row)
                lines.append(line)
            line = reader.line_num + 2
    except csv.Error as error:
        raise RegardError(f"{path} is not CSV from line {line} on: {error}") from error
    return Table(path, names, rows, lines)


def _check_cells(path: str, about: Any) -> None:
    """Raise for a table too large for memory: a few bytes can say that a million cells are all alike."""
    size = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    cells, most = about.num_rows * about.num_columns, most_unpacked()
    if max(size, cells * BYTES_OF_A_CELL) > most:
        raise RegardError(
            f"{path} has {about.num_rows:,} rows of {about.num_columns:,} columns and {size:,} bytes "
            "unpacked, "
            f"which is more than the {most:,} bytes that are read here; give a part of it"
        )


def _parquet(path: str) -> Table:
    try:
        from pyarrow import ArrowException, parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise RegardError(
            f"{path} is a Parquet file, and pyarrow, which reads it, is not installed; "
            "use pip install 'regard[tables]', or save it as CSV"
        ) from error
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no {path}; give a table (.csv, .tsv, .parquet)")
    try:
        with open_regular(path) as file:
            opened = parquet.ParquetFile(file)
            _check_cells(path, opened.metadata)
            columns: dict[str, list[Any]] = opened.read().to_pydict()
    except (ArrowException, OSError) as error:
        raise RegardError(
            f"{path} is not a Parquet file, or it is cut off: {' '.join(str(error).split())}"
        ) from error
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    return Table(path, list(columns), rows, list(range(1, len(rows) + 1)))
