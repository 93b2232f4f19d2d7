"""Inputs of an autoencoder, whatever their form: how they are read, become numbers, and are written as files again.

What a path holds decides the form: a table with a column of paths lists images, one of numbers only holds rows, and a
folder without images may hold point clouds. Labels are optional: nothing is learned from them, but codes are coloured
by them.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard import files
from regard.data.array import Array
from regard.data.batch import Batch
from regard.data.image_arrays import find_pairs, is_idx_of_images
from regard.data.point_clouds import READERS
from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.data.table_formats import is_table
from regard.data.tables import names_of, read_table
from regard.data.targets import sort_labels
from regard.errors import RegardError
from regard.recipes.autoencoder.config import Form, InputsConfig
from regard.recipes.dataset import Dataset
from regard.recipes.example import Examples
from regard.recipes.images.read_images import images_in, is_object
from regard.recipes.processor import Encoded, Processor

F = TypeVar("F")
Output = str | os.PathLike[str]
CLOUDS = tuple(suffix for suffix in READERS if suffix != ".csv")  # a .csv in a folder may be anything


@dataclass(frozen=True, eq=False)
class InputsProcessor(Processor[InputsConfig, F], Generic[F]):
    """Inputs of one form. A batch: x b shape."""

    form: ClassVar[Form]
    unit: ClassVar[str]  # what is counted
    one: ClassVar[str]  # of them, with its article
    writes: ClassVar[Mapping[str, str]]  # the endings of files that hold all that a model made -> what they are
    ending: ClassVar[str | None] = None  # of files with one each, in a folder; None: they are not written so
    example_file: ClassVar[str]  # for the samples that are drawn after training
    noisy: ClassVar[bool] = False  # are samples drawn with the noise that inputs have?

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """c h w of an image, d of a row, n d of a point cloud."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the numbers of a row."""
        return ()

    @property
    def centre(self) -> tuple[float, ...]:
        """What the columns are standardised by: (x − centre) / scale."""
        return ()

    @property
    def scale(self) -> tuple[float, ...]:
        return ()

    def store(self) -> dict[str, Any]:
        return {"form": self.form, **super().store()}

    # ── one batch

    def collate(self, rows: Sequence[Encoded], random: np.random.Generator | None = None) -> Batch:
        return Batch({"x": torch.from_numpy(np.stack([row["x"] for row in rows]))})

    def place_targets(self, codes: Sequence[Array], batch: Batch, parts: Array | None = None) -> Array:
        return np.stack(codes)

    def numbers(self, x: Tensor, random: torch.Generator | None = None) -> Tensor:
        """A batch as the model takes it. random: None in training   b shape"""
        return x

    def in_units(self, x: Tensor) -> Tensor:
        """Numbers of the model in the units of the data.   n shape"""
        return x

    def forward(self, model: Any, batch: Batch) -> Any:
        """Codes, what is made of them, and the error of each input."""
        x = batch["x"]
        codes = model.encode(x)[0]
        made = model.decode_mean(codes)
        return codes, made, model.likelihood.squared_error(x, made).sqrt()

    def answers(self, out: Any, batch: Batch, rows: Sequence[Encoded]) -> Sequence[Any]:
        """For each input itself, its code, what is made of it, and the error."""
        return list(zip(batch["x"], *out, strict=True))

    def read_one(self, given: Any) -> Tensor:
        """The first input of a file, as the model takes it.   1 shape"""
        examples = self.read(given, want="use")
        if not len(examples):
            raise RegardError(f"{given} has none; give {self.one}")
        found: Tensor = self.finish(self.collate([self.encode(examples[0])]), training=False)["x"]
        return found

    # ── writing

    @abstractmethod
    def write(self, made: Tensor, out: Path, columns: int | None = None) -> None:
        """All in one file. columns: of a sheet of images; None: about as many as rows   n shape"""

    def write_one(self, made: Tensor, out: Path) -> None:
        """A file of its own.   shape"""
        raise NotImplementedError

    def write_folder(self, made: Tensor, out: Path, names: Sequence[str] = ()) -> None:
        """A file for each, called by its name or its number.   n shape"""
        files.make_folder(out, parents=True)
        digits = len(str(len(made)))
        for number, each in enumerate(made, 1):
            name = names[number - 1] if names else f"{number:0{digits}}"
            self.write_one(each, out / f"{name}{self.ending}")

    def check_place(self, out: Output) -> None:
        """A RegardError for what cannot be written, before any work."""
        folder = () if self.ending is None else ("a folder (ending in /)",)
        ways = ", ".join((*(f"{what} ({ending})" for ending, what in self.writes.items()), *folder))
        if is_folder(out):
            if self.ending is None or os.path.isfile(out):
                raise RegardError(f"--out must be {ways}, got {os.fspath(out)!r}")
            return
        if Path(out).suffix.lower() not in self.writes:
            raise RegardError(f"--out must be {ways}, got {os.fspath(out)!r}")
        parent = Path(out).absolute().parent
        if not parent.is_dir():
            raise RegardError(f"cannot write {out}: there is no folder {parent}; make it first")


def is_folder(out: Output) -> bool:
    """Is it the name of a folder: one that exists, or that ends in a slash, or that has no suffix?"""
    return os.path.isdir(out) or os.fspath(out).endswith(("/", os.sep)) or not Path(out).suffix


def check_not_lost(out: Output, inputs: Iterable[str]) -> None:
    """A RegardError if `out` is an input, or the folder of one, which could be overwritten there."""
    if not os.path.exists(out):
        return
    for each in inputs:
        if os.path.exists(each) and os.path.samefile(each, out):
            raise RegardError(f"--out {os.fspath(out)} is one of the inputs, which would be lost; give another name")
        folder = Path(each).parent
        if folder.is_dir() and os.path.samefile(folder, out):
            raise RegardError(
                f"--out {os.fspath(out)} is the folder of {each}, which could be lost; give another folder"
            )


# ── the form


def find_form(data: Any, config: InputsConfig) -> Form:
    """What a path or an object holds; None: the digits that come with scikit-learn."""
    if data is None:
        return "images"
    if not isinstance(data, str | os.PathLike):
        return _form_in_memory(data, config)
    place = Path(data)
    if not place.exists():
        raise FileNotFoundError(
            f"there is no {data}; give a folder of images or of point clouds, idx files, an .npz file or a table"
        )
    if place.is_dir():
        return _form_of_folder(place)
    if is_idx_of_images(place):
        return "images"
    if place.suffix.lower() == ".npz":
        arrays = {name.lower(): array for name, array in files.read_arrays(place).items()}
        return "images" if any(arrays[x].ndim > 2 for x, _, _ in find_pairs(arrays)) else "rows"
    if is_table(place):
        return "images" if config.image in names_of(place, config) else "rows"
    if place.suffix.lower() in READERS:
        raise RegardError(f"{data} is one point cloud; give a folder of them")
    raise RegardError(
        f"{data} is none of these: a folder of images or of point clouds, idx files, an .npz file, a table "
        "(.csv, .tsv, .parquet, .jsonl)"
    )


def _form_in_memory(data: Any, config: InputsConfig) -> Form:
    """Bytes are images; real numbers are rows, n d, or point clouds: several n d, or m n d."""
    first = data[0] if isinstance(data, list | tuple) and len(data) else data
    if not is_object(first):
        return "images" if config.image in read_table(data, config).names else "rows"
    if not isinstance(first, np.ndarray) or first.dtype == np.uint8:
        return "images"
    return "rows" if first is data and data.ndim == 2 else "points"


def _form_of_folder(place: Path) -> Form:
    if any(map(is_idx_of_images, place.iterdir())) or next(images_in(place), None) is not None:
        return "images"
    if any(path.suffix.lower() in READERS for path in place.rglob("*") if path.is_file()):
        return "points"
    raise RegardError(f"{place} holds neither images nor point clouds ({', '.join(CLOUDS)})")


# ── inputs that were read


def number_labels(examples: Examples) -> tuple[tuple[str, ...], Array]:
    """The labels, each once, and the place of that of each input among them; none: there are no labels."""
    if examples.cells is None:
        return (), np.zeros(len(examples), dtype=np.int64)
    words = [word or "" for word in examples.plain]
    known = sort_labels(words)
    number = {label: i for i, label in enumerate(known)}
    return known, np.array([number[word] for word in words], dtype=np.int64)


def find_held_out(dataset: Dataset) -> tuple[str, Array]:
    """Inputs that were not learned from, if there are any: the name of their split, and their numbers."""
    for name, split in (("test", TEST), ("validation", VALIDATION), ("training", TRAIN)):
        rows = np.flatnonzero(dataset.splits == split)
        if len(rows):
            return name, rows
    return "training", np.zeros(0, dtype=np.int64)


def take_batches(dataset: Dataset, rows: Array, size: int) -> Iterator[Tensor]:
    """Some inputs in order, so many at once; `numbers` gives what the model takes.   b shape"""
    for start in range(0, len(rows), size):
        yield dataset.take(rows[start : start + size])["x"]


def name_input(examples: Examples, row: int) -> str:
    """What an input is called, without the folders of its file."""
    return os.path.basename(examples.names(row))
