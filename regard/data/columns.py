"""Columns of a text table (CSV, TSV, or values with spaces between), each value with the line it came
from."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.array import Array
from regard.data.missing import is_missing, missing_cells
from regard.data.table_rows import place_of
from regard.data.text_files import read_lines
from regard.errors import RegardError


@dataclass(frozen=True, eq=False)
class Columns:
    """The rows of a file by column. `names` are those of its first line, or None if that line holds values
    already."""

    path: str
    names: tuple[str, ...] | None
    rows: list[list[str]]
    lines: list[int]  # of each row

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, name: str, advice: str) -> int:
        """The index of the column with this name."""
        return place_of(name, self.names or (), self.path, advice)

    def texts(self, column: int) -> list[str]:
        return [row[column].strip() for row in self.rows]

    def numbers(self, columns: Sequence[int], *, ways: str | None = None) -> Array:
        """Some columns as numbers; a cell that is not a finite number is an error with its line.
        rows columns, float32

        ways: what to do about missing cells; None: they are no error, and NaN
        """
        cells = [[row[column] for column in columns] for row in self.rows]
        try:
            found = np.array(cells, dtype=np.float64).reshape(len(cells), len(columns))
        except ValueError:
            found = np.array(
                [[self._number(row, column) for column in columns] for row in range(len(self.rows))]
            )
        missing = np.argwhere(np.isnan(found))
        if len(missing) and ways is not None:
            row, column = missing[0]
            name = self._name(columns[column])
            raise missing_cells(self.path, self.lines[row], name, len(missing), ways)
        wrong = np.argwhere(np.isinf(found))
        if len(wrong):
            row, column = wrong[0]
            raise RegardError(
                f"line {self.lines[row]} of {self.path} has '{cells[row][column].strip()}' in "
                f"{self._called(columns[column])}; give a finite number, or remove the row"
            )
        return found.astype(np.float32)

    def _number(self, row: int, column: int) -> float:
        if is_missing(self.rows[row][column]):
            return math.nan
        try:
            return float(self.rows[row][column])
        except ValueError:
            raise RegardError(
                f"line {self.lines[row]} of {self.path} has '{self.rows[row][column].strip()}' in "
                f"{self._called(column)}, expected a number"
            ) from None

    def _called(self, column: int) -> str:
        if self.names:
            return f"column '{self.names[column]}'"
        return f"column {column + 1}"

    def _name(self, column: int) -> str:
        if self.names:
            return self.names[column]
        return str(column + 1)


def read_columns(path: str, *, header: bool | None = None) -> Columns:
    """A table with one row per line. Values are separated by the mark that the first line has: , ; tab or
    spaces.

    header: does the first line hold names? None: it does if nothing in it is a number and some line after it
    has one.
    """
    rows: list[list[str]] = []
    lines: list[int] = []
    mark: str | None = None
    for line, text in enumerate(read_lines(path), start=1):
        text = text.strip("\r\n")
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        if mark is None:
            mark = next((each for each in ",;\t" if each in text), " ")
        if mark == " ":
            row = text.split()
        else:
            row = split_cells(text, mark, f"line {line} of {path}")
        if rows and len(row) != len(rows[0]):
            raise RegardError(
                f"line {line} of {path} has {len(row)} values, but line {lines[0]} has {len(rows[0])}; "
                "every row needs the same number"
            )
        rows.append(row)
        lines.append(line)
    if header is None:
        header = (
            bool(rows)
            and not any(map(is_number, rows[0]))
            and any(is_number(v) for row in rows[1:3] for v in row)
        )
    if header and rows:
        return Columns(path, tuple(name.strip() for name in rows[0]), rows[1:], lines[1:])
    return Columns(path, None, rows, lines)


def split_cells(text: str, mark: str, where: str) -> list[str]:
    """The cells of one line of CSV. where: the line, for an error"""
    try:
        return next(csv.reader([text], delimiter=mark, skipinitialspace=True), [])
    except csv.Error as error:  # a cell longer than any text in a table
        raise RegardError(f"{where} is not CSV: {error}") from error


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
