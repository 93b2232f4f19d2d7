"""Cells of a table that hold nothing: which they are, and the error that names the first."""

from __future__ import annotations

from typing import Any

from regard.errors import RegardError

# cells that stand for nothing, as spreadsheets, pandas, R and the UCI repository write them
WORDS = frozenset(
    {"", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "null", "NULL", "Null", "?"},
)
RECOGNISED = "empty cells, NA, N/A, NaN, null and ?"


def is_missing(cell: Any) -> bool:
    """Does a cell hold nothing? An empty cell, NA, N/A, NaN, null or ?, or a null of JSON or Parquet."""
    if cell is None:
        return True
    if isinstance(cell, str):
        return cell.strip() in WORDS
    return isinstance(cell, float) and cell != cell


def is_empty(cell: Any) -> bool:
    """Does a cell of text hold nothing? There, NA and ? are texts as any other."""
    return is_missing(cell) and not (isinstance(cell, str) and cell.strip())


def missing_cells(path: str, line: int, column: str, count: int, ways: str) -> RegardError:
    """The error for cells that hold nothing, `count` in all. ways: what to do"""
    more = f", the first of {count:,}" if count > 1 else ""
    return RegardError(
        f"line {line} of {path} has a missing cell in column '{column}'{more}; {ways}; missing are {RECOGNISED}"
    )
