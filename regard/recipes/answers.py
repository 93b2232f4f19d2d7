"""Answers as a table: one row for each input, with its columns, the answer, and the probability of each class.

They are spooled as they come, because only the last tells which columns there are; then the table is written,
whole or not at all.
"""

from __future__ import annotations

import csv
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import IO, Any

from regard.data.labels import sort_labels
from regard.data.table_rows import JSON_LINES, SUFFIXES, import_pyarrow
from regard.errors import RegardError
from regard.files import PathLike, json_text, write_stream
from regard.recipes.prediction import Prediction

AMONG = f"{', '.join(SUFFIXES[:-2])} or {SUFFIXES[-2]}"  # .csv, .tsv, .parquet or .jsonl
PICTURES = (".png", ".svg", ".pdf")
TOGETHER = 4096  # rows of a Parquet file that are written together
LARGEST_INT = 2**63
Field = tuple[str, Callable[[dict[str, Any]], Any]]  # a column, and where its cell is in a spooled row


def is_answers_file(out: PathLike) -> bool:
    """Is this the name of a table, by its suffix?"""
    return Path(out).suffix.lower() in SUFFIXES and not os.path.isdir(out)


def is_lines_file(out: PathLike) -> bool:
    """Is this the name of a file with a line for each answer: no table, no picture, no folder?"""
    return Path(out).suffix.lower() not in (*SUFFIXES, *PICTURES, "") and not os.path.isdir(out)


def check_answers_file(out: PathLike, inputs: Sequence[str]) -> None:
    """Raise if a table cannot be written there; before any work."""
    place = Path(out)
    if not place.absolute().parent.is_dir():
        raise FileNotFoundError(f"cannot write {out}: there is no folder {place.parent}; make it first")
    if any(os.path.exists(each) and place.exists() and os.path.samefile(each, out) for each in inputs):
        raise RegardError(f"--out {out} is one of the inputs, which would be lost; give another name")
    if place.suffix.lower() == ".parquet":
        import_pyarrow(str(out), "writes")


def write_answers(predictions: Iterable[Prediction], out: PathLike) -> Iterator[Prediction]:
    """Pass predictions on, and write them as a table after the last. If there is no answer at all, nothing is
    written."""
    folder = Path(out).absolute().parent  # the disk that must hold the table anyway
    with tempfile.TemporaryFile("w+", encoding="utf-8", prefix="regard-", dir=folder) as file:
        spool = _Spool(file)
        for prediction in predictions:
            spool.add(prediction)
            yield prediction
        if spool.answered:
            write_stream(out, lambda part: _WRITERS[Path(out).suffix.lower()](part, spool))


# ── collecting


@dataclass(eq=False)
class _Spool:
    """Rows in a temporary file, and which columns they have."""

    file: IO[str]
    answered: bool = False
    columns: dict[str, None] = field(default_factory=dict)  # of the input
    labels: set[str] = field(default_factory=set)
    numbers: dict[str, None] = field(default_factory=dict)
    sources: set[str | None] = field(default_factory=set)
    parts: bool = False
    named: bool = False  # has a row no columns of its own?
    judged: bool = False
    failed: bool = False

    def add(self, prediction: Prediction) -> None:
        if not prediction.each:
            self._add_row(prediction, prediction.source or prediction.input, None)
        for part in prediction.each:
            self._add_row(part, prediction.source or prediction.input, None if part.row else part.input)

    def _add_row(self, prediction: Prediction, whole: str, part: str | None) -> None:
        row = {str(name): plain_cell(cell) for name, cell in prediction.row.items()}
        self.columns |= dict.fromkeys(row)
        self.labels |= prediction.labels.keys()
        self.numbers |= dict.fromkeys(prediction.values)
        self.sources.add(whole)
        self.parts |= part is not None
        self.named |= not row
        self.judged |= prediction.right is not None
        self.failed |= prediction.error is not None
        self.answered |= prediction.error is None
        found = {
            "row": row,
            "input": _writable(whole),
            "part": None if part is None else _writable(part),
            "answer": prediction.answer,
            "labels": prediction.labels,
            "values": prediction.values,
            "right": prediction.right,
            "error": None if prediction.error is None else _writable(prediction.error),
        }
        self.file.write(json_text(found) + "\n")

    def heading(self) -> list[str]:
        """The names of all columns: which input it is, the columns of the input, and the answers. Ours get a
        number if the input has columns of that name."""
        before, after = [name for name, _ in self._identity()], [name for name, _ in self._results()]
        end = next(each for each in _endings() if self._is_free({name + each for name in (*before, *after)}))
        return [*(name + end for name in before), *self.columns, *(name + end for name in after)]

    def _is_free(self, names: set[str]) -> bool:
        return not self.columns.keys() & names

    def rows(self) -> Iterator[list[Any]]:
        """The cells of each row, in the order of the heading."""
        before, after = self._identity(), self._results()
        self.file.seek(0)
        for line in self.file:
            found = json.loads(line)
            cells = [found["row"].get(name) for name in self.columns]
            yield [*(get(found) for _, get in before), *cells, *(get(found) for _, get in after)]

    def _identity(self) -> list[Field]:
        """The columns that say which input it is, where the columns of the input do not."""
        found: list[Field] = []
        if self.named or len(self.sources) > 1:
            found.append(("input", lambda row: row["input"]))
        if self.parts:
            found.append(("part", lambda row: row["part"]))
        return found

    def _results(self) -> list[Field]:
        """The columns of the answers."""
        found: list[Field] = []
        if self.labels or len(self.numbers) < 2:
            found.append(("answer", lambda row: row["answer"]))
        if self.judged:
            found.append(("right", lambda row: row["right"]))
        found += [(f"p({label})", _getter("labels", label)) for label in sort_labels(self.labels)]
        if len(self.numbers) > 1:
            found += [(f"answer({name})", _getter("values", name)) for name in self.numbers]
        if self.failed:
            found.append(("error", lambda row: row["error"]))
        return found


def _endings() -> Iterator[str]:
    """Nothing, _2, _3 …"""
    yield ""
    yield from (f"_{number}" for number in count(2))


def _getter(section: str, name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda row: row[section].get(name)


def plain_cell(cell: Any) -> Any:
    """A cell as JSON can hold it: text, a number, true, false, null, or lists and objects of these."""
    if hasattr(cell, "item") and not isinstance(cell, str):  # a number of numpy
        cell = cell.item()
    if cell is None or isinstance(cell, bool | int):
        return cell
    if isinstance(cell, float):
        if math.isfinite(cell):
            return cell
        return None if math.isnan(cell) else str(cell)
    if isinstance(cell, dict):
        return {str(name): plain_cell(value) for name, value in cell.items()}
    if isinstance(cell, list | tuple):
        return [plain_cell(value) for value in cell]
    return _writable(str(cell))


def _writable(text: str) -> str:
    """Without halves of characters, which UTF-8 does not have (the name of a file may hold some)."""
    return text.encode("utf-8", "replace").decode("utf-8")


# ── writing


def _write_cells(mark: str) -> Callable[[Path, _Spool], None]:
    def write(path: Path, spool: _Spool) -> None:
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=mark, lineterminator="\n")
            writer.writerow(spool.heading())
            for row in spool.rows():
                writer.writerow([_cell_text(cell) for cell in row])

    return write


def _cell_text(cell: Any) -> Any:
    """A cell of CSV: numbers with all their digits, true and false as JSON has them, null as nothing."""
    if isinstance(cell, bool | list | dict):
        return json_text(cell)
    return cell


def _write_json_lines(path: Path, spool: _Spool) -> None:
    names = spool.heading()
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for row in spool.rows():
            file.write(json_text(dict(zip(names, row, strict=True))) + "\n")


def _write_parquet(path: Path, spool: _Spool) -> None:
    pyarrow, parquet = import_pyarrow(str(path), "writes")
    names = spool.heading()
    kinds: list[set[type]] = [set() for _ in names]
    for row in spool.rows():
        for kind, cell in zip(kinds, row, strict=True):
            kind.add(_kind_of(cell))
    types = [_arrow_type(pyarrow, kind - {type(None)}) for kind in kinds]
    schema = pyarrow.schema(list(zip(names, types, strict=True)))
    rows = spool.rows()
    with parquet.ParquetWriter(path, schema) as writer:
        while some := list(islice(rows, TOGETHER)):
            cells = zip(*some, strict=True)
            columns = [_arrow_column(pyarrow, each, kind) for each, kind in zip(cells, types, strict=True)]
            writer.write_batch(pyarrow.record_batch(columns, schema=schema))


def _kind_of(cell: Any) -> type:
    if isinstance(cell, int) and not isinstance(cell, bool) and not -LARGEST_INT <= cell < LARGEST_INT:
        return str
    return type(cell)


def _arrow_type(pyarrow: Any, kinds: set[type]) -> Any:
    """Of a column with cells of these kinds: text if they have nothing else in common."""
    if kinds == {bool}:
        return pyarrow.bool_()
    if kinds == {int}:
        return pyarrow.int64()
    if kinds and kinds <= {int, float}:
        return pyarrow.float64()
    return pyarrow.string()


def _arrow_column(pyarrow: Any, cells: Sequence[Any], kind: Any) -> Any:
    if kind == pyarrow.string():
        cells = [cell if cell is None or isinstance(cell, str) else json_text(cell) for cell in cells]
    return pyarrow.array(cells, type=kind)


_WRITERS: dict[str, Callable[[Path, _Spool], None]] = {
    ".csv": _write_cells(","),
    ".tsv": _write_cells("\t"),
    ".parquet": _write_parquet,
    **dict.fromkeys(JSON_LINES, _write_json_lines),
}
