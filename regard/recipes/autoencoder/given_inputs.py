"""Inputs that a person gives: files of images or point clouds, rows of tables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data.image_files import read
from regard.data.table_formats import is_table
from regard.data.tables import read_table
from regard.errors import RegardError
from regard.recipes.answers import plain_cell
from regard.recipes.autoencoder.dataset import Form, InputsConfig, InputsInfo
from regard.recipes.autoencoder.read_inputs import image_reader, read_points
from regard.recipes.autoencoder.read_rows import numbers_of
from regard.recipes.prediction import Prediction
from regard.runs.run import Run

ONE: dict[Form, str] = {"images": "an image", "rows": "a table", "points": "a point cloud"}


class GivenInput(NamedTuple):
    """An input, and its prediction without the answer; tokens None: the prediction has an error."""

    tokens: Tensor | None  # shape: bytes of an image, or real numbers
    prediction: Prediction


def given_inputs(inputs: Sequence[str], run: Run) -> Iterator[GivenInput]:
    """Each file, and each row of each table, in order."""
    config, info = run.section(InputsConfig, "data"), run.section(InputsInfo, "corpus")
    if info.form == "images":
        yield from _images(inputs, config, info)
        return
    for given in inputs:
        try:
            if info.form == "rows":
                yield from _rows(given, config, info)
            else:
                tokens, notes = _read_cloud(given, config, info)
                yield GivenInput(tokens, Prediction(input=given, notes=notes))
        except (ValueError, OSError) as error:
            yield GivenInput(None, Prediction(input=given, error=str(error)))


def _images(inputs: Sequence[str], config: InputsConfig, info: InputsInfo) -> Iterator[GivenInput]:
    channels, size, _ = info.shape
    reader = image_reader(config).sized(size, channels)
    for given in inputs:
        try:
            found = reader.read(given, want="use")
        except (ValueError, OSError) as error:
            yield GivenInput(None, Prediction(input=given, error=str(error)))
            continue
        for i in range(len(found)):
            notes = found.notes if i == len(found) - 1 else ()
            asked = Prediction(input=found.names(i), source=found.source, row=found.row_of(i), notes=notes)
            try:
                if i in found.errors:
                    raise RegardError(found.errors[i])
                yield GivenInput(torch.from_numpy(reader.encode(found[i])["x"]), asked)
            except (ValueError, OSError) as error:
                yield GivenInput(None, replace(asked, error=str(error)))


def _rows(path: str, config: InputsConfig, info: InputsInfo) -> Iterator[GivenInput]:
    if not is_table(path):
        raise RegardError(f"{path} is no table; give rows of {', '.join(info.columns[:5])} in a .csv file")
    table = read_table(path, config)
    numbers = standardise(numbers_of(table, info.columns), info)
    for i, ((line, cells), row) in enumerate(zip(table.records(), numbers, strict=True)):
        named = {name: plain_cell(cell) for name, cell in cells.items()}
        notes = table.notes if i == len(table) - 1 else ()
        yield GivenInput(row, Prediction(input=f"line {line}", source=path, row=named, notes=notes))


def standardise(numbers: np.ndarray, info: InputsInfo) -> Tensor:
    """Rows as the model takes them.   n d"""
    found = (numbers - np.array(info.centre)) / np.array(info.scale)
    return torch.from_numpy(found.astype(np.float32))


def restore(numbers: Tensor, info: InputsInfo) -> Tensor:
    """Rows in the units of the table.   n d"""
    exact = numbers.double()
    return exact * exact.new_tensor(info.scale) + exact.new_tensor(info.centre)


def read_one(given: str | bytes, config: InputsConfig, info: InputsInfo) -> Tensor:
    """One input: an image or a point cloud by its file or its bytes, or the first row of a table.   shape"""
    _check_file(given, info)
    if info.form == "images":
        channels, size, _ = info.shape
        return torch.from_numpy(read(given, size, channels, config.fit))
    if isinstance(given, bytes):
        raise RegardError(f"{info.form} are read from files")
    if info.form == "points":
        return _read_cloud(given, config, info)[0]
    first = next(_rows(given, config, info), None)
    if first is None or first.tokens is None:
        raise RegardError(f"{given} has no rows; give one at least")
    return first.tokens


def _read_cloud(path: str, config: InputsConfig, info: InputsInfo) -> tuple[Tensor, tuple[str, ...]]:
    """The points of a file, and how its table was read.   n d"""
    _check_file(path, info)
    points, notes = read_points(path, info.shape[0], config=config)
    if points.shape[1] != info.shape[1]:
        raise RegardError(f"{path} has points of {points.shape[1]} numbers, the model reads {info.shape[1]}")
    return torch.from_numpy(points.astype(np.float32)), notes


def _check_file(given: str | bytes, info: InputsInfo) -> None:
    if isinstance(given, str) and not os.path.isfile(given):
        raise RegardError(f"there is no file {given!r}; give the path of {ONE[info.form]}")
