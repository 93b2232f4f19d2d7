"""A table with column names in memory: CSV, TSV, JSON Lines or Parquet. Each row has the number of its line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from regard.data.table_rows import JSON_LINES, open_cells, place_of
from regard.errors import RegardError
from regard.files import readable_as


class Table(NamedTuple):
    """The column names, and the rows as text (JSON Lines and Parquet: as stored)."""

    path: str
    names: list[str]
    rows: list[list[Any]]
    lines: list[int]  # of each row

    def place(self, name: str, advice: str, taken: Iterable[str | None] = ()) -> int:
        """The index of the column with this name. advice: what to do if there is none; taken: columns that
        are never suggested"""
        return place_of(name, self.names, self.path, advice, taken)

    def texts(self, name: str, advice: str, taken: Iterable[str | None] = ()) -> list[str]:
        """One column, in which no cell may be empty."""
        place = self.place(name, advice, taken)
        return [self._text(row[place], line, name) for row, line in zip(self.rows, self.lines, strict=True)]

    def _text(self, value: Any, line: int, column: str) -> str:
        said = "" if value is None else str(value).strip()
        if not said or said.lower() == "nan":
            raise RegardError(
                f"line {line} of {self.path} has an empty cell in column '{column}'; fill it in, or "
                "remove the line"
            )
        return said


def read_table(path: str) -> Table:
    """Every row of a file, in memory."""
    with readable_as(path, "a table"):
        names, cells = open_cells(path)
        found = list(cells)
        lines = [line for line, _ in found]
        if not path.lower().endswith(JSON_LINES):
            return Table(path, names, [row for _, row in found], lines)
        # the rows of JSON Lines may have different keys
        names = list(dict.fromkeys(name for _, row in found for name in row))
        return Table(path, names, [[row.get(name) for name in names] for _, row in found], lines)
