"""Answers as a table: one row for each input, with its columns, the answer, and the probability of each class.

They are kept as columns until the last, because only that tells which columns there are; then the table is written,
whole or not at all.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from regard.data.table_formats import SUFFIXES, as_texts, hold_values, join_parts
from regard.data.tables import write_table
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


def write_answers(
    predictions: Iterable[Prediction], out: PathLike, *, with_truth: bool = False
) -> Iterator[Prediction]:
    """Pass predictions on, and write them as a table after the last. If there is no answer at all, nothing is written.
    with_truth: in a column of its own"""
    answers = _Answers(with_truth)
    for prediction in predictions:
        for part in prediction.each or (prediction,):
            name = part.input if prediction.each and not part.row else None
            answers.add(part, prediction.source or prediction.input, name)
        yield prediction
    if answers.answered:
        write_table(out, answers.table())


class _Answers:
    """Rows as columns of Arrow, some thousand together."""

    def __init__(self, with_truth: bool) -> None:
        self.with_truth = with_truth
        self.waiting: list[dict[Any, Any]] = []
        self.packed: list[dict[Any, Any]] = []
        self.answered = False
        self.named = False  # has a row no columns of its own?

    def add(self, prediction: Prediction, whole: str, part: str | None) -> None:
        self.named |= not prediction.row
        self.answered |= prediction.error is None
        row: dict[Key, Any] = {("row", str(name)): plain_cell(cell) for name, cell in prediction.row.items()}
        row |= {("label", label): share for label, share in prediction.labels.items()}
        row |= {("value", name): number for name, number in prediction.values.items()}
        ours = {"input": whole, "part": part, "answer": prediction.answer, "right": prediction.right}
        ours["truth"] = prediction.truth if self.with_truth else None
        row |= {("", name): cell for name, cell in {**ours, "error": prediction.error}.items()}
        self.waiting.append({key: _writable(cell) if isinstance(cell, str) else cell for key, cell in row.items()})
        if len(self.waiting) == AT_ONCE:
            self._pack()

    def _pack(self) -> None:
        keys = dict.fromkeys(chain(*self.waiting))
        self.packed.append({key: hold_values([row.get(key) for row in self.waiting]) for key in keys})
        self.waiting = []

    def table(self) -> pa.Table:
        """All rows."""
        self._pack()
        joined = join_parts(self.packed, list(dict.fromkeys(chain(*self.packed))))
        columns = {key: as_texts(each) if isinstance(each, list) else each for key, each in joined.items()}
        names = self._name_columns(columns)
        return pa.table([columns[key] for key in names], names=list(names.values()))

    def _name_columns(self, columns: dict[Key, Any]) -> dict[Key, str]:
        """All columns with their names: which input it is, the columns of the input, and the answers. Ours get a number if
        the input has columns of that name."""
        rows = [name for section, name in columns if section == "row"]
        labels = sort_labels(name for section, name in columns if section == "label")
        values = [name for section, name in columns if section == "value"]
        filled = {name for section, name in columns if not section and columns["", name].drop_null()}
        before, after = [], {}
        if self.named or len(columns["", "input"].unique()) > 1:
            before.append("input")
        if "part" in filled:
            before.append("part")
        if "truth" in filled:
            after["", "truth"] = "truth"
        if labels or len(values) < 2:
            after["", "answer"] = "answer"
        if "right" in filled:
            after["", "right"] = "right"
        after |= {("label", label): f"p({label})" for label in labels}
        if len(values) > 1:
            after |= {("value", name): f"answer({name})" for name in values}
        if "error" in filled:
            after["", "error"] = "error"
        endings = ("" if number == 1 else f"_{number}" for number in count(1))
        end = next(each for each in endings if not {name + each for name in (*before, *after.values())} & set(rows))
        found = {("", name): name + end for name in before} | {("row", name): name for name in rows}
        return found | {key: name + end for key, name in after.items()}


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
