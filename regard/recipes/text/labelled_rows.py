"""Rows of a table of texts with labels: a CSV, TSV or JSONL file. An error names the line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.text_files import find, read_lines
from regard.data.tokenizer import half_a_character
from regard.errors import RegardError, nearest

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")


class Row(NamedTuple):
    """A text and its label, and the line of the file where they begin."""

    line: int
    text: str
    label: str


def read_rows(path: str, text: str = "text", label: str = "label") -> list[Row]:
    """The rows of a CSV, TSV or JSONL file. An empty cell is an error that names its line."""
    (file, *others) = find(path)
    suffix = Path(file.path).suffix.lower()
    if others or suffix not in SUFFIXES:
        raise RegardError(
            f"labelled text is one file that ends in {', '.join(SUFFIXES)}, got {path}; "
            "rename it, or leave the labels out for plain text"
        )
    lines = read_lines(file.path)
    if suffix in SUFFIXES[2:]:
        table = _json_rows(lines, file.path, text, label)
    else:
        table = _csv_rows(lines, file.path, text, label)
    rows, bad = [], []
    for line, values in table:
        if any(value is None or not str(value).strip() for value in values):
            bad.append(line)
        else:
            rows.append(
                Row(line, _text(values[0], file.path, line, text), _label(values[1], file.path, line, label))
            )
            if half := half_a_character("".join(rows[-1][1:])):
                raise RegardError(f"line {line} of {path}: {half}")
    if bad:
        named = ", ".join(map(str, bad[:5])) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
        raise RegardError(
            f"{path} has no '{text}' or no '{label}' in line{'s' if len(bad) > 1 else ''} {named}; "
            "fill in these rows, or remove them"
        )
    if not rows:
        raise RegardError(f"{path} has no rows; give at least one for each of two labels")
    return rows


def _csv_rows(lines: Iterator[str], path: str, text: str, label: str) -> Iterator[tuple[int, list[Any]]]:
    first, line = next(lines), 1
    with _any_length():
        try:
            headers = {
                mark: [name.strip() for name in next(csv.reader([first], delimiter=mark))] for mark in ",;\t"
            }
            mark = max(headers, key=lambda each: ({text, label} <= set(headers[each]), len(headers[each])))
            names = headers[mark]
            places = [_column(name, names, path) for name in (text, label)]
            reader, line = csv.reader(lines, delimiter=mark, strict=True), 2
            for row in reader:
                if len(row) > len(names):
                    raise RegardError(
                        f"line {line} of {path} has {len(row)} values, but there are {len(names)} columns; "
                        f"a text with '{mark}' or a line end in it needs double quotes around it"
                    )
                if row:  # an empty line is no row
                    yield line, [row[place] if place < len(row) else None for place in places]
                line = reader.line_num + 2  # where the next row begins; this one may have had several lines
        except csv.Error as error:
            raise RegardError(
                f"{path} is not CSV from line {line} on: {error}; a text with quotes in it needs "
                'double quotes around it, and "" for each quote inside'
            ) from error


def _json_rows(lines: Iterator[str], path: str, text: str, label: str) -> Iterator[tuple[int, list[Any]]]:
    for line, content in enumerate(lines, start=1):
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
                f"line {line} of {path} is a {type(row).__name__}, not an object "
                f'such as {{"{text}": "...", "{label}": "..."}}'
            )
        if line == 1:
            for name in (text, label):
                _column(name, list(row), path)
        yield line, [row.get(text), row.get(label)]


def _column(name: str, names: list[str], path: str) -> int:
    if name not in names:
        near = nearest(name, names)
        raise RegardError(
            f"{path} has no column '{name}', it has: {', '.join(names)}; "
            "choose columns with --data.text and --data.label"
            + (f" (did you mean '{near}'?)" if near else "")
        )
    return names.index(name)


def _text(value: Any, path: str, line: int, column: str) -> str:
    if not isinstance(value, str):
        raise RegardError(
            f"line {line} of {path} has {value!r} in '{column}', which is not text; put it in quotes"
        )
    return value


def _label(value: Any, path: str, line: int, column: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        value = json.dumps(value)
        if value not in ("true", "false"):
            raise RegardError(
                f"line {line} of {path} has {value} in '{column}'; a label is text, a whole number, true "
                "or false"
            )
    return str(value).strip()


@contextmanager
def _any_length() -> Iterator[None]:
    """Lift the global size limit of the csv module while reading."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)
