"""Inputs of an autoencoder as batches: images as bytes, rows of tables and point clouds as real numbers.

What a path holds decides: a table with a column of paths lists images, one of numbers only holds rows, and a
folder without images may hold point clouds. Labels are optional: nothing is learned from them, but codes are
coloured by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
import torch
from pydantic import Field

from regard.config import Amount, Classes, Natural, Size, config
from regard.data.array import Array
from regard.data.batch import Batch
from regard.data.dialect import TableConfig
from regard.data.image_arrays import is_idx_of_images
from regard.data.image_files import Fit
from regard.data.point_clouds import READERS
from regard.data.row_source import RowSource
from regard.data.scan import once
from regard.data.splits import TEST, TRAIN, VALIDATION, SplitConfig, check_splits
from regard.data.tables import is_table, names_of
from regard.errors import RegardError
from regard.recipes.autoencoder.unlabelled_images import holds_images
from regard.recipes.dataset import Encodings
from regard.recipes.images.read_images import images_in

Form = Literal["images", "rows", "points"]
Binarise = Literal["none", "threshold", "dynamic"]
UNITS: dict[Form, str] = {"images": "images", "rows": "rows", "points": "point clouds"}
CLOUDS = tuple(suffix for suffix in READERS if suffix != ".csv")  # a .csv in a folder may be anything


@config
class InputsConfig(TableConfig, SplitConfig):
    """Which inputs, and how they become numbers."""

    paths: ClassVar[tuple[str, ...]] = ("path",)

    # images as for `regard train images`, with labels or without; a table of numbers; a folder of point clouds;
    # None: digits
    path: str | None = None
    image: str = "file"  # the column of a table that holds paths of images; without it, a table holds numbers
    label: str = "label"  # the column that holds labels, if there are any
    columns: tuple[str, ...] = ()  # tables of numbers: which columns; none: all but the label
    # side that images are resized to; None: their shorter side (the median, if they differ), at most 64
    size: Annotated[int, Field(ge=1, le=2**13)] | None = None
    channels: Literal["auto", "grey", "colour"] = "auto"  # auto: grey if all images are
    fit: Fit = "crop"  # to a square: the middle of it, all of it with black beside, or out of shape
    damaged: Literal["skip", "stop"] = "skip"  # what to do with files that cannot be read; they are named
    decoded: Literal["auto", "never"] = "auto"  # auto: decoded images are kept on the disk when they fit
    # images as black and white: threshold at a half, or dynamic: each time drawn anew, white as often as it is
    # bright. Figures of the two cannot be compared
    binarise: Binarise = "none"
    points: Classes = 256  # of each point cloud

    def __post_init__(self) -> None:
        check_splits(self, "inputs")
        if self.image == self.label:
            raise RegardError(f"image and label must be two columns, got '{self.image}' for both")


@once
def find_form(path: str | None, image: str = "file") -> Form:
    """What a path holds."""
    if path is None:
        return "images"
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(
            f"there is no {path}; give a folder of images or of point clouds, idx files, an .npz file or a table"
        )
    if place.is_dir():
        return _form_of_folder(place)
    if is_idx_of_images(place):
        return "images"
    if place.suffix.lower() == ".npz":
        return "images" if holds_images(place) else "rows"
    if is_table(path):
        return "images" if image in names_of(path) else "rows"
    if place.suffix.lower() in READERS:
        raise RegardError(f"{path} is one point cloud; give a folder of them")
    raise RegardError(
        f"{path} is none of these: a folder of images or of point clouds, idx files, an .npz file, a table "
        "(.csv, .tsv, .parquet, .jsonl)"
    )


def _form_of_folder(place: Path) -> Form:
    if any(map(is_idx_of_images, place.iterdir())) or next(images_in(place), None) is not None:
        return "images"
    if any(path.suffix.lower() in READERS for path in place.rglob("*") if path.is_file()):
        return "points"
    raise RegardError(f"{place} holds neither images nor point clouds ({', '.join(CLOUDS)})")


@config
class InputsInfo:
    """Inputs in figures, and how they become numbers: with the model, all that later commands need."""

    path: str
    form: Form
    rows: Natural  # how many there are
    train: Natural
    validation: Natural
    test: Natural
    # c h w of an image, d of a row, n d of a point cloud
    shape: Annotated[tuple[Size, ...], Field(min_length=1)]
    labels: tuple[str, ...] = ()  # none: there are no labels
    counts: tuple[Natural, ...] = ()  # inputs of each label
    # of each channel of an image, where 1 is white, or of each column: the encoder reads (x − mean) / deviation
    mean: tuple[float, ...] = ()
    deviation: tuple[Amount, ...] = ()
    columns: tuple[str, ...] = ()  # of a table
    # of a table: the model sees (x − centre) / scale
    centre: tuple[float, ...] = ()
    scale: tuple[Amount, ...] = ()
    skipped: tuple[str, ...] = ()  # what was wrong with files that were left out

    def __post_init__(self) -> None:
        if not len(self.columns) == len(self.centre) == len(self.scale):
            raise RegardError(
                f"{len(self.columns)} columns need as many centres and scales, got {self.centre} and {self.scale}"
            )


class Store(Protocol):
    """Where numbers are: bytes of images, or real numbers."""

    slow: bool  # are they made from files whenever they are asked for?

    def take(self, rows: Array) -> Any:
        """Some of them.   b shape"""
        ...


class InMemory:
    """Real numbers of all inputs.   n shape"""

    slow = False

    def __init__(self, values: Array) -> None:
        self.values = np.ascontiguousarray(values, dtype=np.float32)

    def take(self, rows: Array) -> Array:
        return self.values[rows]


class Decoded:
    """Bytes of images. rows: those that could be read"""

    def __init__(self, encodings: Encodings, rows: Array) -> None:
        self.encodings, self.rows, self.slow = encodings, rows, encodings.keep == "none"

    def take(self, rows: Array) -> Array:
        return np.stack([each["x"] for each in self.encodings(self.rows[rows])])


@dataclass(frozen=True, eq=False, kw_only=True)
class Inputs:
    """Inputs of one shape, with their splits, and their labels if there are any."""

    name: str
    form: Form
    store: Store
    splits: Array
    shape: tuple[int, ...]
    labels: tuple[str, ...] = ()
    classes: Array  # the place of each label in `labels`; zeros without
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    columns: tuple[str, ...] = ()
    centre: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.splits)

    @property
    def unit(self) -> str:
        return UNITS[self.form]

    @property
    def info(self) -> InputsInfo:
        """What they are, in figures, for people and for later commands."""
        counts = np.bincount(self.classes, minlength=len(self.labels)) if self.labels else np.zeros(0, int)
        return InputsInfo(
            path=self.name,
            form=self.form,
            rows=len(self),
            train=len(self.rows(TRAIN)),
            validation=len(self.rows(VALIDATION)),
            test=len(self.rows(TEST)),
            shape=self.shape,
            labels=self.labels,
            counts=tuple(counts.tolist()),
            mean=self.mean,
            deviation=self.deviation,
            columns=self.columns,
            centre=self.centre,
            scale=self.scale,
            skipped=self.skipped,
        )

    def rows(self, split: int) -> Array:
        return np.flatnonzero(self.splits == split)

    def take(self, rows: Array) -> Batch:
        """Some of them.   tokens b shape (uint8 of images), target b: their labels"""
        return Batch({"x": torch.from_numpy(self.store.take(rows))}, torch.from_numpy(self.classes[rows]))

    def batches(self, rows: Array, batch: int) -> Iterator[Batch]:
        """Some of them, in order."""
        for start in range(0, len(rows), batch):
            yield self.take(rows[start : start + batch])

    def name_of(self, row: int) -> str:
        """What an input is called."""
        if self.files:
            return Path(self.files[row]).name
        return f"{UNITS[self.form][:-1]} {row + 1:,}"


class InputSource(RowSource):
    """Inputs in shuffled batches, which depend on (seed, step) alone. Files are read while a step is computed."""

    def __init__(self, inputs: Inputs, batch: int, seed: int) -> None:
        super().__init__(inputs.take, inputs.rows(TRAIN), batch, seed, slow=inputs.store.slow)
        self._inputs = inputs

    def validation(self) -> Iterator[Batch]:
        return self.split(VALIDATION)

    def split(self, number: int) -> Iterator[Batch]:
        """All of one split, in order."""
        return self._inputs.batches(self._inputs.rows(number), self.rows)


def check_enough(name: str, splits: Sequence[int] | Array, unit: str) -> None:
    """Raise unless there are two inputs to train on."""
    count = int((np.asarray(splits) == TRAIN).sum())
    if count < 2:
        raise RegardError(f"{name} has {count} {unit} to train on; give at least two")
