"""Answers as a table: one row for each input, with its columns, the answer, and the probability of each class.

They are kept as columns until the last, because only that tells which columns there are; then the table is written,
whole or not at all.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from regard.data.tables import SUFFIXES, column_of, text_of, write_table
from regard.data.targets import sort_labels
from regard.errors import RegardError
from regard.files import PathLike
from regard.recipes.prediction import Prediction

AMONG = f"{', '.join(SUFFIXES[:-2])} or {SUFFIXES[-2]}"  # .csv, .tsv, .parquet or .jsonl
PICTURES = (".png", ".svg", ".pdf")
AT_ONCE = 1 << 14  # rows that become columns together
Key = tuple[str, str]  # a section of a row, and a name in it


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


def write_answers(predictions: Iterable[Prediction], out: PathLike) -> Iterator[Prediction]:
    """Pass predictions on, and write them as a table after the last. If there is no answer at all, nothing is
    written."""
    answers = _Answers()
    for prediction in predictions:
        answers.add(prediction)
        yield prediction
    if answers.answered:
        write_table(out, answers.tables())


@dataclass(eq=False)
class _Answers:
    """Rows as columns of Arrow, some thousand together, and which columns they have."""

    waiting: list[dict[Key, Any]] = field(default_factory=list)
    packed: list[tuple[int, dict[Key, Any]]] = field(default_factory=list)
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
        found: dict[Key, Any] = {("row", name): cell for name, cell in row.items()}
        found |= {("label", label): share for label, share in prediction.labels.items()}
        found |= {("value", name): number for name, number in prediction.values.items()}
        found["input", ""], found["answer", ""], found["right", ""] = (whole, prediction.answer, prediction.right)
        found["part", ""], found["error", ""] = part, prediction.error
        self.waiting.append({key: _writable(cell) if isinstance(cell, str) else cell for key, cell in found.items()})
        if len(self.waiting) == AT_ONCE:
            self._pack()

    def _pack(self) -> None:
        keys = dict.fromkeys(chain(*self.waiting))
        columns = {key: column_of([row.get(key) for row in self.waiting])[0] for key in keys}
        self.packed.append((len(self.waiting), columns))
        self.waiting = []

    def tables(self) -> Iterator[pa.Table]:
        """The parts of the table, all with the same columns."""
        self._pack()
        keys = self._heading()
        kinds = {key: _common([columns[key].type for _, columns in self.packed if key in columns]) for key in keys}
        for size, columns in self.packed:
            found = [
                _as_kind(columns[key], kinds[key]) if key in columns else pa.nulls(size, kinds[key]) for key in keys
            ]
            yield pa.table(found, names=list(keys.values()))

    def _heading(self) -> dict[Key, str]:
        """All columns with their names: which input it is, the columns of the input, and the answers. Ours get a
        number if the input has columns of that name."""
        before, after = self._identity(), self._results()
        end = next(
            each for each in _endings() if not self.columns.keys() & {name + each for name in (before | after).values()}
        )
        ours = [{key: name + end for key, name in part.items()} for part in (before, after)]
        return {**ours[0], **{("row", name): name for name in self.columns}, **ours[1]}

    def _identity(self) -> dict[Key, str]:
        """The columns that say which input it is, where the columns of the input do not."""
        found = {}
        if self.named or len(self.sources) > 1:
            found["input", ""] = "input"
        if self.parts:
            found["part", ""] = "part"
        return found

    def _results(self) -> dict[Key, str]:
        """The columns of the answers."""
        found: dict[Key, str] = {}
        if self.labels or len(self.numbers) < 2:
            found["answer", ""] = "answer"
        if self.judged:
            found["right", ""] = "right"
        found |= {("label", label): f"p({label})" for label in sort_labels(self.labels)}
        if len(self.numbers) > 1:
            found |= {("value", name): f"answer({name})" for name in self.numbers}
        if self.failed:
            found["error", ""] = "error"
        return found


def _common(kinds: Sequence[Any]) -> Any:
    """The type that all parts of a column can have: text if they have nothing else in common."""
    try:
        found = pa.unify_schemas([pa.schema([("x", kind)]) for kind in kinds], promote_options="permissive")
        kind = found.field("x").type if kinds else pa.string()
    except (pa.ArrowException, TypeError, ValueError):
        return pa.string()
    return pa.string() if pa.types.is_null(kind) else kind


def _as_kind(column: Any, kind: Any) -> Any:
    if kind != pa.string() or column.type == kind:
        return column.cast(kind)
    return pa.array([None if cell is None else text_of(cell) for cell in column.to_pylist()], kind)


def _endings() -> Iterator[str]:
    """Nothing, _2, _3 …"""
    yield ""
    yield from (f"_{number}" for number in count(2))


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
