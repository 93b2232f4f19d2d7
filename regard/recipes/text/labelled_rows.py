"""Rows of a table of texts with labels: a CSV, TSV, JSONL or Parquet file. An error names the line."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

from regard.data.dialect import DEFAULTS, TableConfig
from regard.data.table_formats import SUFFIXES
from regard.data.tables import is_empty, is_missing, open_table
from regard.data.text_files import find
from regard.data.tokenizer import half_a_character
from regard.errors import RegardError

Missing = Literal["refuse", "drop"]  # what to do with rows without a text or a label


class Row(NamedTuple):
    """A text and its label, and the line of the file where they begin."""

    line: int
    text: str
    label: str


def read_rows(
    path: str, text: str = "text", label: str = "label", missing: Missing = "refuse", config: TableConfig = DEFAULTS
) -> tuple[list[Row], tuple[str, ...]]:
    """The rows, and a note on those that were left out because a cell of them is missing."""
    (file, *others) = find(path)
    if others or not file.path.lower().endswith(SUFFIXES):
        raise RegardError(
            f"labelled text is one file that ends in {', '.join(SUFFIXES)}, got {path}; "
            "rename it, or leave the labels out for plain text"
        )
    table = open_table(file.path, config)
    if table.names:
        advice = "choose columns with --data.text and --data.label"
        table.place(text, advice, (label,))
        table.place(label, advice, (text,))
    rows, bad = [], []
    for line, cells in table.records():
        if is_empty(cells.get(text)) or is_missing(cells.get(label)):
            bad.append(line)
            continue
        rows.append(
            Row(line, check_text(cells[text], file.path, line, text), label_text(cells[label], file.path, line, label))
        )
        if half := half_a_character("".join(rows[-1][1:])):
            raise RegardError(f"line {line} of {path}: {half}")
    if bad and missing == "refuse":
        raise RegardError(
            f"{path} has {len(bad):,} row{'s' if len(bad) > 1 else ''} without a '{text}' or a '{label}', "
            f"in {_name_lines(bad)}; fill in these rows, remove them, or leave them out with --data.missing "
            f"drop; missing are empty cells and null, and in '{label}' also NA, N/A, NaN and ?"
        )
    if not rows:
        without = f" with a '{text}' and a '{label}'" if bad else ""
        raise RegardError(f"{path} has no rows{without}; give at least one for each of two labels")
    if not bad:
        return rows, table.notes
    return rows, (*table.notes, f"left out {len(bad):,} rows without a '{text}' or a '{label}': {_name_lines(bad)}")


def _name_lines(lines: list[int]) -> str:
    """lines 2, 3, 4, 5, 6 and 3 more"""
    named = ", ".join(map(str, lines[:5])) + (f" and {len(lines) - 5} more" if len(lines) > 5 else "")
    return f"line{'s' if len(lines) > 1 else ''} {named}"


def check_text(value: Any, path: str, line: int, column: str) -> str:
    """The text of a cell; raise if it is something else."""
    if not isinstance(value, str):
        raise RegardError(f"line {line} of {path} has {value!r} in '{column}', which is not text; put it in quotes")
    return value


def label_text(value: Any, path: str, line: int, column: str) -> str:
    """The label of a cell as text; raise for what is no label."""
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int):
        return str(value).strip()
    raise RegardError(f"line {line} of {path} has {value!r} in '{column}'; a label is text, a number, true or false")
