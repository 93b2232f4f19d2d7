"""Rows of numbers: a table (.csv, .tsv, .parquet, .jsonl), or the arrays of an .npz file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regard.data.array import Array
from regard.data.image_arrays import PAIRS
from regard.data.splits import SPLITS, TRAIN
from regard.data.tables import Table, read_table
from regard.data.targets import sort_labels
from regard.errors import RegardError
from regard.files import read_arrays

if TYPE_CHECKING:
    from regard.recipes.autoencoder.dataset import InputsConfig

WAYS = "fill it in, or remove the line"
SPLIT = "split"  # the column that may say train, validation, test


class Rows(NamedTuple):
    """Numbers n d, the names of their columns, and what the table says of each row."""

    numbers: Array
    columns: tuple[str, ...]
    labels: list[str] | None
    splits: Array
    own_splits: bool  # does the data say which row is in which split?
    notes: tuple[str, ...] = ()  # how the table was read


def read_rows(config: InputsConfig) -> Rows:
    """All rows of a file: the columns that the settings name, or all but the label and the split."""
    path = str(config.path)
    if Path(path).suffix.lower() == ".npz":
        return _of_arrays(path)
    table = read_table(path, config)
    if not len(table):
        raise RegardError(f"{path} has no rows; give numbers in each")
    chosen = choose_columns(table, config.label, config.columns)
    labels = None
    if config.label in table.names and config.label not in chosen:
        table.check_filled([config.label])
        labels = [str(text) for text in table.texts(config.label)]
    own = SPLIT in table.names and SPLIT not in chosen
    splits = _splits_of(table) if own else np.zeros(len(table), dtype=np.uint8)
    return Rows(numbers_of(table, chosen), tuple(chosen), labels, splits, own, table.notes)


def choose_columns(table: Table, label: str, columns: Sequence[str]) -> list[str]:
    """The columns that are numbers of an input."""
    chosen = list(columns) or [name for name in table.names if name not in (label, SPLIT)]
    if not chosen:
        raise RegardError(f"{table.path} has no columns of numbers, only: {', '.join(table.names)}")
    return chosen


def numbers_of(table: Table, chosen: Sequence[str]) -> Array:
    """The numbers of some columns, none of which is missing.   n d"""
    return table.finite_numbers(chosen, "name the columns of numbers with --data.columns a,b,c", WAYS)


def _splits_of(table: Table) -> Array:
    found = np.zeros(len(table), dtype=np.uint8)
    for row, said in enumerate(table.texts(SPLIT)):
        if (said or "").lower() not in SPLITS:
            raise RegardError(f"{table.where(row)} has '{said}' as its split; it is train, validation or test")
        found[row] = SPLITS[str(said).lower()]
    return found


def _of_arrays(path: str) -> Rows:
    """Arrays x, x_train, x_val, x_test or train_x ... n d, and y beside them."""
    arrays = {name.lower(): array for name, array in read_arrays(path).items()}
    named = [(x, y, TRAIN) for x, y in PAIRS]
    for end, split in SPLITS.items():
        for x, y in PAIRS:
            named += [(way.format(x, end), way.format(y, end), split) for way in ("{0}_{1}", "{1}_{0}")]
    parts = [each for each in named if each[0] in arrays]
    if not parts:
        known = ", ".join(arrays) or "nothing"
        raise RegardError(f"{path} has no 'x', 'x_train' or 'images'; it has: {known}")
    for x, _, _ in parts:
        if arrays[x].ndim != 2 or arrays[x].dtype.kind not in "buif":
            raise RegardError(
                f"{path} has {arrays[x].dtype} of shape {arrays[x].shape} in '{x}'; rows of numbers are n d, "
                "images n h w or n h w c"
            )
    widths = {arrays[x].shape[1] for x, _, _ in parts}
    if len(widths) > 1:
        raise RegardError(f"{path} has rows of different widths: {', '.join(map(str, sorted(widths)))}")
    numbers = np.concatenate([arrays[x] for x, _, _ in parts]).astype(np.float64)
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers).all(1))[0])
        raise RegardError(f"row {row + 1} of {path} has NaN or infinity; remove it")
    labels = None
    if all(y in arrays and arrays[y].size == len(arrays[x]) for x, y, _ in parts):
        labels = [str(each) for _, y, _ in parts for each in arrays[y].reshape(-1).tolist()]
    splits = np.concatenate([np.full(len(arrays[x]), split, dtype=np.uint8) for x, _, split in parts])
    columns = tuple(f"x{i + 1}" for i in range(numbers.shape[1]))
    return Rows(numbers, columns, labels, splits, len({split for _, _, split in parts}) > 1)


def number_labels(labels: Sequence[str] | None, count: int) -> tuple[tuple[str, ...], Array]:
    """The labels, each once, and the place of each row's label among them."""
    if labels is None:
        return (), np.zeros(count, dtype=np.int64)
    known = sort_labels(labels)
    number = {label: i for i, label in enumerate(known)}
    return tuple(known), np.array([number[label] for label in labels], dtype=np.int64)
