"""Texts as examples: the rows of a table with labels, in a file or in memory; and one text from the user."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from regard.data.table_formats import SUFFIXES
from regard.data.tables import Table, is_empty, is_missing, open_table, read_table
from regard.data.text_files import decode_text
from regard.data.tokenizer import half_a_character
from regard.errors import RegardError
from regard.files import open_regular, read_bounded
from regard.recipes.example import Examples
from regard.recipes.processor import Want
from regard.recipes.target import word_of
from regard.recipes.text.config import LabelledTextConfig

CHOOSE = "choose columns with --data.text and --data.label"
TRAINED = "the model was trained on this column; rename yours, or name it with --data.text"
NAMED = 5  # lines that an error names
MOST = 2**26  # bytes of a file with a text to read
# reviews/one.txt, but not "and/or, he said"
LIKE_A_PATH = re.compile(r"\A[^\n]*\.(txt|csv|tsv|jsonl?|ndjson|parquet)(\.gz)?\Z|\A\S*/\S*\Z")


def is_given_file(given: str) -> bool:
    """Is this the path of a file, and not a text?"""
    try:
        return Path(given).is_file()
    except (OSError, ValueError):  # too long to be the name of a file, or no name at all
        return False


def read_given_text(given: str) -> tuple[str, Literal["text", "file"]]:
    """A text, or the text of a file. A string that looks like a path but is not a file is an error, because
    it is probably a typing error."""
    path = Path(given)
    try:
        folder, file = path.is_dir(), path.is_file()
    except (OSError, ValueError):  # too long to be the name of a file, or no name at all
        return given, "text"
    if folder and given.strip():
        raise RegardError(f"{given} is a folder; give a text, or files of text: {given.rstrip('/')}/*.txt")
    if file:
        with open_regular(path) as opened:
            text = decode_text(read_bounded(opened, MOST, given), given)
        if not text.strip():
            raise RegardError(f"{given} is empty; give a file with text in it")
        return text, "file"
    if LIKE_A_PATH.search(given):
        raise FileNotFoundError(f"there is no file {given}; if this is a text, write it into a file and give that file")
    return given, "text"


def read_text(given: str | bytes) -> Examples:
    """A text, or the text of a file; bytes are what somebody typed on the page."""
    if isinstance(given, bytes):
        name, text, kind = "the text", decode_text(given, "the text"), None
    else:
        name, (text, kind) = given, read_given_text(given)
    if not text.strip():
        raise RegardError("the text is empty, so there is nothing to predict from; give a text or a file")
    return Examples(what=name, count=1, inputs=lambda i: {"text": text}, names=lambda i: name, kind=kind)


def read_table_of_texts(data: Any, config: LabelledTextConfig, want: Want) -> Examples:
    """A text and a label in each row of a table: of a file, or in memory."""
    if isinstance(data, str | Path) and not str(data).lower().endswith(SUFFIXES) and want != "use":
        raise RegardError(
            f"labelled text is one file that ends in {', '.join(SUFFIXES)}, got {data}; "
            "rename it, or leave the labels out for plain text"
        )
    table = read_table(data, config)
    if want == "use":
        return _texts_of(table, config, want, table.notes)
    table.place(config.text, CHOOSE, (config.label,))
    table.place(config.label, CHOOSE, (config.text,))
    table, notes = _without_missing(table, config)
    return _texts_of(table, config, want, (*table.notes, *notes))


def read_parts_of_table(path: str, config: LabelledTextConfig) -> Iterator[Examples]:
    """The texts of a table that may be larger than the memory, some thousand at once. The whole file is looked at first."""
    table, done = open_table(path, config), 0
    for part in table.batches():
        done += len(part)
        yield _texts_of(part, config, "use", table.notes if done == table.count else ())
    if not done:
        raise RegardError(f"{path} has no rows; give one for each text")


def _texts_of(table: Table, config: LabelledTextConfig, want: Want, notes: tuple[str, ...]) -> Examples:
    table.place(config.text, TRAINED, (config.label,))
    if not len(table):
        raise RegardError(f"{table.path} has no rows; give one for each text")
    texts, labels = table.cells(config.text), None
    if config.label in table.names:
        labels = table.targets(config.label)
    errors: dict[int, str] = {}
    words: list[str | None] = []
    for row, text in enumerate(texts):
        label = None if labels is None else labels[row]
        try:
            _check_text(text, label, config)
            words.append(None if is_missing(label) else _label_of(label, config, strict=want != "use"))
        except RegardError as error:
            errors[row] = f"{table.where(row)} {error}"
            words.append(None)
    if errors and want != "use":
        raise RegardError(errors[min(errors)])
    lines = table.lines(range(len(table)))
    return Examples(
        what=table.path,
        source=table.path,
        count=len(table),
        inputs=lambda i: {"text": texts[i]},
        names=lambda i: f"line {lines[i]:,} of {table.path}",
        titles=lambda i: f"line {lines[i]:,}" if is_empty(texts[i]) else str(texts[i]),
        kind="text",
        cells=None if labels is None else pa.array(words, pa.string()),
        target_names=(config.label,),
        places=lambda i: f"line {lines[i]:,} of {table.path}",
        rows=table.data if want == "use" else None,
        errors=errors,
        about={"bytes": sum(len(text.encode()) for text in texts)} if want == "learn" else {},
        notes=notes,
    )


def _without_missing(table: Table, config: LabelledTextConfig) -> tuple[Table, tuple[str, ...]]:
    """The rows that have a text and a label, and a note on others."""
    pairs = zip(table.cells(config.text), table.targets(config.label), strict=True)
    bad = np.array([is_empty(text) or is_missing(label) for text, label in pairs], dtype=bool)
    if not bad.any():
        return table, ()
    lines, without = table.lines(np.flatnonzero(bad).tolist()), f"without a '{config.text}' or a '{config.label}'"
    if config.missing == "refuse":
        raise RegardError(
            f"{table.path} has {len(lines):,} row{'s' * (len(lines) > 1)} {without}, in {_name_lines(lines)}; fill in "
            "these rows, remove them, or leave them out with --data.missing drop; missing are empty cells and null, "
            f"and in '{config.label}' also NA, N/A, NaN and ?"
        )
    return table.take(np.flatnonzero(~bad)), (f"left out {len(lines):,} rows {without}: {_name_lines(lines)}",)


def _name_lines(lines: Sequence[int]) -> str:
    """lines 2, 3, 4, 5, 6 and 3 more"""
    named = ", ".join(map(str, lines[:NAMED]))
    more = f" and {len(lines) - NAMED} more" if len(lines) > NAMED else ""
    return f"line{'s' * (len(lines) > 1)} {named}{more}"


def _check_text(text: Any, label: Any, config: LabelledTextConfig) -> None:
    """Raise for a cell that is no text."""
    if is_empty(text):
        raise RegardError(f"has no text in column '{config.text}'; fill it in")
    if isinstance(text, list | tuple):
        raise RegardError(
            f"has a list in column '{config.text}', expected one text; labels of single words are not learned here"
        )
    if not isinstance(text, str):
        raise RegardError(f"has {text!r} in column '{config.text}', which is not text; put it in quotes")
    if half := half_a_character(text + (label if isinstance(label, str) else "")):
        raise RegardError(f"cannot be read: {half}")


def _label_of(label: Any, config: LabelledTextConfig, *, strict: bool) -> str:
    """The label of a cell as text. strict: raise for what is none; else no answer is equal to it"""
    if isinstance(label, bool):
        return str(label).lower()
    if isinstance(label, str | int) or (isinstance(label, float) and math.isfinite(label)):
        return word_of(label)
    if not strict:
        return str(label)
    raise RegardError(f"has {label!r} in column '{config.label}'; a label is one text or number, true or false")
