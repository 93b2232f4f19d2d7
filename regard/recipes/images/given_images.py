"""Images to predict: files, and the rows of tables of paths."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from regard.data.rows_in_memory import folder_of
from regard.data.tables import OpenTable, is_empty, is_missing, is_table, open_table
from regard.errors import RegardError
from regard.recipes.answers import plain_cell
from regard.recipes.images.dataset import ImagesConfig
from regard.recipes.prediction import Prediction


class GivenImage(NamedTuple):
    """The path of an image, and its prediction without the answer; path None: the prediction has an error."""

    path: str | None
    prediction: Prediction


def given_images(inputs: Sequence[str], data: ImagesConfig) -> Iterator[GivenImage]:
    """Each file, and the image of each row of each table, in order."""
    for given in inputs:
        if not (is_table(given) and os.path.isfile(given)):
            yield GivenImage(given, Prediction(input=given))
            continue
        try:
            table = _open(given, data)  # what is wrong with it is said before any answer
            if not table.count:
                raise RegardError(f"{given} has no rows; give the path of one image in each")
            yield from (_read_row(given, line, cells, data) for line, cells in table.records())
        except (ValueError, OSError) as error:
            yield GivenImage(None, Prediction(input=given, error=str(error)))


def paths_of(inputs: Sequence[str], data: ImagesConfig) -> list[str]:
    """The path of every image that is given."""
    return [each.path for each in given_images(inputs, data) if each.path is not None]


def _open(table: str, data: ImagesConfig) -> OpenTable:
    found = open_table(table)
    advice = "a table has the paths of images in this column; rename yours, or name it with --data.image"
    found.place(data.image, advice, (data.label, "split"))
    return found


def _read_row(table: str, line: int, cells: dict[str, Any], data: ImagesConfig) -> GivenImage:
    cell, label = cells.get(data.image), cells.get(data.label)
    row = {name: plain_cell(each) for name, each in cells.items()}
    truth = None if is_missing(label) else str(label).strip()
    if is_empty(cell):
        reason = f"line {line} of {table} has no path in column '{data.image}'; fill it in"
        return GivenImage(
            None, Prediction(input=f"line {line}", source=table, row=row, truth=truth, error=reason)
        )
    path = os.path.normpath(folder_of(table) / str(cell).strip())
    return GivenImage(path, Prediction(input=path, source=table, row=row, truth=truth))
