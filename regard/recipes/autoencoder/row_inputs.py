"""Rows of numbers as inputs: of a table, on disk or in memory, or of the arrays of an .npz file."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from regard import files
from regard.config import Amount, config
from regard.data.array import Array
from regard.data.batch import Batch
from regard.data.image_arrays import find_pairs
from regard.data.tables import read_table
from regard.data.targets import find_scale
from regard.errors import RegardError
from regard.recipes.autoencoder.config import Form
from regard.recipes.autoencoder.processor import InputsProcessor
from regard.recipes.example import Example, Examples
from regard.recipes.images.read_images import read_split_column
from regard.recipes.processor import Encoded, Take, Want

WAYS = "fill it in, or remove the line"
SPLIT = "split"  # the column that may say train, validation, test


@config
class RowsFitted:
    """The columns of a table. The model sees (x − centre) / scale."""

    columns: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[Amount, ...]
    binary: bool = False  # are all numbers 0 or 1? They stay what they are

    def __post_init__(self) -> None:
        if not len(self.columns) == len(self.centre) == len(self.scale):
            raise RegardError(
                f"{len(self.columns)} columns need as many centres and scales, got {self.centre} and {self.scale}"
            )


@dataclass(frozen=True, eq=False)
class RowInputs(InputsProcessor[RowsFitted]):
    """Rows are kept as they are in the table, and standardised in a batch."""

    Fitted: ClassVar[type] = RowsFitted
    form: ClassVar[Form] = "rows"
    unit: ClassVar[str] = "rows"
    one: ClassVar[str] = "a table with a row at least"
    writes: ClassVar[Mapping[str, str]] = {".csv": "a table", ".npz": "arrays"}
    example_file: ClassVar[str] = "samples.csv"
    noisy: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.fitted.columns),)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.fitted.columns

    @property
    def centre(self) -> tuple[float, ...]:
        return self.fitted.centre

    @property
    def scale(self) -> tuple[float, ...]:
        return self.fitted.scale

    # ── reading and fitting

    def read(self, data: Any, *, want: Want) -> Examples:
        if isinstance(data, np.ndarray):
            found = _read_arrays({"x": data}, "the array")
        elif isinstance(data, str | os.PathLike) and Path(data).suffix.lower() == ".npz":
            found = _read_arrays(files.read_arrays(data), os.fspath(data))
        else:
            found = self._read_table(data, want)
        width = len(found.about["columns"])
        if self.fitted is not None and width != len(self.columns):
            raise RegardError(f"{found.what} has {width} columns of numbers, the model reads {len(self.columns)}")
        return found

    def _read_table(self, data: Any, want: Want) -> Examples:
        """All rows: the columns that the settings name, or all but the label and the split."""
        table = read_table(data, self.config)
        if not len(table):
            raise RegardError(f"{table.path} has no rows; give numbers in each")
        chosen = self.config.columns if self.fitted is None else self.columns
        chosen = chosen or tuple(name for name in table.names if name not in (self.config.label, SPLIT))
        if not chosen:
            raise RegardError(f"{table.path} has no columns of numbers, only: {', '.join(table.names)}")
        label = self.config.label if self.config.label in table.names and self.config.label not in chosen else None
        filled = [label] if label is not None and want != "use" else []
        numbers = table.numbers(chosen, "name the columns of numbers with --data.columns a,b,c", WAYS, filled)
        about = {"form": self.form, "columns": chosen, "numbers": numbers}
        found = Examples(
            what=table.path,
            count=len(table),
            inputs=lambda i: {"x": numbers[i]},
            names=lambda i: f"row {i + 1:,}",
            about=about,
            notes=table.notes,
        )
        if want == "use":
            called = lambda i: f"line {table.line(i)}"  # noqa: E731
            return replace(found, source=table.path, names=called, titles=called, rows=table.data)
        labels = None
        if label is not None:
            labels = np.array([str(text) for text in table.texts(label)])
        return replace(found, cells=labels, splits=None if SPLIT in chosen else read_split_column(table))

    def fit(self, examples: Examples, train: Array, model: Any, start: Self | None) -> Self:
        columns, binary = examples.about["columns"], bool(np.isin(examples.about["numbers"], (0, 1)).all())
        count = len(columns)
        fitted = RowsFitted(columns=columns, centre=(0.0,) * count, scale=(1.0,) * count, binary=binary)
        return replace(self, fitted=fitted)

    def measure(self, take: Take, train: Array, codes: Array) -> tuple[Self, tuple[str, ...]]:
        if self.fitted.binary:
            return self, ()
        learned = np.stack([each["x"] for each in take(train)])
        centre, scale = tuple(learned.mean(0).tolist()), tuple(find_scale(learned).tolist())
        return replace(self, fitted=replace(self.fitted, centre=centre, scale=scale)), ()

    def notes(self, examples: Examples, train: Array) -> tuple[str, ...]:
        if all(each == 1 for each in self.scale):
            return ()
        return ("figures are of standardised columns: mean 0, deviation 1",)

    def model_config(self, model: Any) -> Any:
        return replace(model, shape=self.shape, mean=(), deviation=())

    # ── one batch

    def encode(self, example: Example) -> Encoded:
        return example.inputs

    def collate(self, rows: Sequence[Encoded], random: np.random.Generator | None = None) -> Batch:
        numbers = (np.stack([row["x"] for row in rows]) - np.array(self.centre)) / np.array(self.scale)
        return Batch({"x": torch.from_numpy(numbers.astype(np.float32))})

    def in_units(self, x: Tensor) -> Tensor:
        exact = x.double()
        return exact * exact.new_tensor(self.scale) + exact.new_tensor(self.centre)

    # ── writing

    def write(self, made: Tensor, out: Path, columns: int | None = None) -> None:
        if out.suffix.lower() == ".npz":
            files.write_arrays(out, {"x": self.in_units(made).numpy(), "columns": np.array(self.columns)})
        else:
            files.write_text(out, self.to_csv(made))

    def to_csv(self, made: Tensor) -> str:
        """Rows in the units of the table, with its columns."""
        held = io.StringIO()
        writer = csv.writer(held, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.in_units(made).tolist():
            writer.writerow([f"{number:.7g}" for number in row])
        return held.getvalue()


def _read_arrays(given: Mapping[str, Array], what: str) -> Examples:
    """Arrays x, x_train, x_val, x_test or train_x ... n d, and y beside them."""
    arrays = {name.lower(): array for name, array in given.items()}
    parts = find_pairs(arrays)
    if not parts:
        known = ", ".join(arrays) or "nothing"
        raise RegardError(f"{what} has no 'x', 'x_train' or 'images'; it has: {known}")
    for x, _, _ in parts:
        if arrays[x].ndim != 2 or arrays[x].dtype.kind not in "buif":
            raise RegardError(
                f"{what} has {arrays[x].dtype} of shape {arrays[x].shape} in '{x}'; rows of numbers are n d, "
                "images n h w or n h w c"
            )
    widths = {arrays[x].shape[1] for x, _, _ in parts}
    if len(widths) > 1:
        raise RegardError(f"{what} has rows of different widths: {', '.join(map(str, sorted(widths)))}")
    numbers = np.concatenate([arrays[x] for x, _, _ in parts]).astype(np.float64)
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers).all(1))[0])
        raise RegardError(f"row {row + 1} of {what} has NaN or infinity; remove it")
    labels = None
    if all(y in arrays and arrays[y].size == len(arrays[x]) for x, y, _ in parts):
        labels = np.array([str(each) for _, y, _ in parts for each in arrays[y].reshape(-1).tolist()])
    columns = tuple(f"x{i + 1}" for i in range(numbers.shape[1]))
    return Examples(
        what=what,
        count=len(numbers),
        inputs=lambda i: {"x": numbers[i]},
        names=lambda i: f"row {i + 1:,}",
        cells=labels,
        splits=np.concatenate([np.full(len(arrays[x]), split, dtype=np.uint8) for x, _, split in parts]),
        about={"form": "rows", "columns": columns, "numbers": numbers},
    )
