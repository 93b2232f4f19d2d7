"""Rows that are handed over in memory: they become a table in a file for as long as it is read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard import files
from regard.data.tables import table_of

NAME = "rows"  # what such a table is called
_files: set[str] = set()


def rows_of(given: Any) -> list[Mapping[str, Any]] | None:
    """The rows of a table in memory; None: it is something else."""
    table = table_of(given)
    return None if table is None else [row for _, row in table.records()]


@contextmanager
def rows_as_file(rows: Sequence[Mapping[str, Any]], to_line: Callable[[Any], str]) -> Iterator[str]:
    """The path of a .jsonl file with these rows, which goes away at the end. to_line: one row as JSON"""
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        path = os.path.join(folder, f"{NAME}.jsonl")
        files.write_text(path, "".join(f"{to_line(row)}\n" for row in rows))
        _files.add(path)
        try:
            yield path
        finally:
            _files.discard(path)


def folder_of(table: str) -> Path:
    """The folder from which paths in a table count: that of the table, or the current one for rows in
    memory."""
    if table in _files:
        return Path()
    return Path(table).parent
