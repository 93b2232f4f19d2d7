"""Which images there are and what each shows, a class or a number: folders, a table of paths, idx files (MNIST
and its family), .npz, or digits.

Labelled images have files or pixels, never both. Splits are what the data itself says: folders or files
called train, validation and test, or a column of that name; where nothing says so, all is for training.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from regard.data.array import Array
from regard.data.class_names import check_names
from regard.data.image_arrays import Rows, digits, is_idx_of_images, read_idx_files, read_npz
from regard.data.image_files import RAW, SUFFIXES, Pixels
from regard.data.labels import sort_labels
from regard.data.scan import once
from regard.data.splits import SPLITS, TRAIN
from regard.data.tables import is_table, read_table
from regard.data.targets import Asks, explain_asks, first_without_number, infer_asks, read_numbers
from regard.errors import RegardError

NAMED = 3  # folders that are named in a line
NAMED_ENDINGS = 5  # of files that are passed over
FORMATS = "a folder with one folder a class, idx files, an .npz file or a table of paths (.csv, .tsv, .parquet, .jsonl)"


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images with their classes or their numbers; a class is a place in `labels`."""

    name: str
    labels: tuple[str, ...]
    classes: Array
    splits: Array  # TRAIN, VALIDATION or TEST, of each
    files: tuple[str, ...] = ()
    pixels: Pixels | None = None  # n h w, or n h w c
    notes: tuple[str, ...] = ()  # what lies there and was not taken
    unnamed: tuple[str, ...] | None = None  # what the data calls the labels, where they were given names
    numbers: Array | None = None  # of each image, if that is asked; there are no labels then, and one class

    def __post_init__(self) -> None:
        if self.pixels is not None and 0 in self.pixels.shape[1:]:
            raise RegardError(
                f"{self.name} has images of {self.pixels.shape[1]} × {self.pixels.shape[2]} pixels: none "
                "at all"
            )

    def __len__(self) -> int:
        return len(self.classes)

    def renamed(self, names: Mapping[str, str]) -> LabelledImages:
        """With names in place of the labels; a label without one stays."""
        return replace(self, labels=tuple(names.get(label, label) for label in self.labels))

    def check_learnable(self) -> None:
        """A ValueError if there is nothing to tell apart, or nothing of a class to learn from."""
        if self.numbers is not None:
            if (count := int((self.splits == TRAIN).sum())) < 2:
                raise RegardError(f"{self.name} has {count} images to train on; give at least two")
            return
        if len(self.labels) < 2:
            if self.labels:
                only = f"only the class '{self.labels[0]}'"
            else:
                only = "no classes"
            raise RegardError(f"{self.name} has {only}; there must be two to tell apart")
        counts = np.bincount(self.classes[self.splits == TRAIN], minlength=len(self.labels))
        if (counts == 0).any():
            raise RegardError(
                f"{self.name} has no image of '{self.labels[int(counts.argmin())]}' to train on"
            )

    def keep(self, rows: Array) -> LabelledImages:
        """Some of the images of files."""
        return replace(
            self,
            files=tuple(self.files[row] for row in rows),
            classes=self.classes[rows],
            splits=self.splits[rows],
            numbers=None if self.numbers is None else self.numbers[rows],
        )


def find_images(
    path: str | None,
    image: str = "file",
    label: str = "label",
    names: tuple[str, ...] = (),
    asks: Asks = "auto",
    *,
    to_learn: bool = True,
) -> LabelledImages:
    """What a path holds; None: the digits that come with scikit-learn. `image` and `label` are columns of a
    table.

    names     of the classes of idx files and arrays, in the order of their numbers; none: the numbers
    asks      classes or numbers; auto: as labels of a table or of an .npz suggest, and classes elsewhere
    to_learn  raise unless there are two classes at least, and images of each to train on
    """
    found = _found_once(path, image, label, asks)
    if names:
        if found.numbers is not None:
            raise RegardError("names are for classes, and the labels are numbers; leave --data.names out")
        if found.pixels is None:
            raise RegardError(
                f"names are for idx files and arrays, and the classes of {found.name} have names already, such as "
                f"'{found.labels[0]}'; leave --data.names out"
            )
        check_names(names, found.labels, found.name)
        found = replace(found.renamed(dict(zip(found.labels, names, strict=True))), unnamed=found.labels)
    if to_learn:
        found.check_learnable()
    return found


@once
def _found_once(path: str | None, image: str, label: str, asks: Asks) -> LabelledImages:
    return _find_images(path, image, label, asks)


def _find_images(path: str | None, image: str, label: str, asks: Asks) -> LabelledImages:
    # names of folders and bytes of idx files are classes, unless somebody says otherwise
    sure: Asks = "classes" if asks == "auto" else asks
    if path is None:
        return _of_rows("digits of scikit-learn", digits(), sure)
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(f"there is no {path}; give {FORMATS}")
    if place.is_dir():
        idx = sorted(each for each in place.iterdir() if is_idx_of_images(each))
        if idx:
            return _of_rows(path, read_idx_files(idx, path), sure)
        return _of_folder(place, sure)
    if is_idx_of_images(place):
        return _of_rows(path, read_idx_files([place], path), sure)
    if place.suffix.lower() == ".npz":
        return _of_rows(path, read_npz(place), asks)
    if is_table(path):
        return _of_table(place, image, label, asks)
    if is_image(place.name):
        what = "one image; give the folder that has a folder for each class"
    else:
        what = "none of these"
    raise RegardError(f"{path} is {what}: data is {FORMATS}")


def _of_rows(name: str, rows: Rows, asks: Asks) -> LabelledImages:
    return _numbered(name, rows.labels, rows.splits, asks, pixels=rows.pixels)


def _numbered(
    name: str,
    labels: Sequence[str],
    splits: Array,
    asks: Asks,
    *,
    files: Sequence[str] = (),
    pixels: Pixels | None = None,
    notes: Sequence[str] = (),
    column: str = "labels",
) -> LabelledImages:
    """Images whose classes are the labels, in their order, or whose labels are numbers. The same letters are the
    same label, however they are written."""
    notes = (*notes, *explain_asks(labels, asks, column))
    if infer_asks(labels, asks) == "numbers":
        if (wrong := first_without_number(labels)) is not None:
            raise RegardError(
                f"{name} has the label '{labels[wrong]}', expected a number; use --data.asks classes for labels "
                "that are text"
            )
        values, one = read_numbers(labels), np.zeros(len(labels), dtype=np.int64)
        return LabelledImages(name, (), one, splits, tuple(files), pixels, notes, numbers=values)
    labels = [unicodedata.normalize("NFC", displayable(label)) for label in labels]
    classes = sort_labels(labels)
    number = {label: i for i, label in enumerate(classes)}
    found = np.array([number[label] for label in labels], dtype=np.int64)
    return LabelledImages(name, classes, found, splits, tuple(files), pixels, notes)


def displayable(name: str) -> str:
    """The name of a file as text, whatever bytes it is made of."""
    return os.fsencode(name).decode("utf-8", "replace")


# ── folders


def _of_folder(place: Path, asks: Asks) -> LabelledImages:
    """One folder for each class, or such folders in folders called train, validation and test.

    Images in folders of a class are of that class. Hidden files and folders are passed over, and so are
    links to folders within a class, which may lead in circles.
    """
    parts = _folders(place)
    if not parts:
        if any(_loose(place)):
            what = "images, but no folders"
        else:
            what = "no images"
        raise RegardError(
            f"{place} holds {what}; put the images of each class into a folder of its own, named as the class"
        )
    splits = [part for part in parts if part.name.lower() in SPLITS]
    deeper = [part for part in splits if _folders(part)]
    if len(splits) == len(parts) and not deeper:
        raise RegardError(
            f"{place} has {_listed(parts)}, which are no classes; put a folder for each class into each of "
            "them"
        )
    if any(SPLITS[part.name.lower()] == TRAIN for part in deeper) and len(splits) < len(parts):
        rest = [part for part in parts if part not in splits]
        raise RegardError(
            f"{place} has {_listed(rest)} beside {_listed(splits)}, so folders may be classes or splits; "
            f"move those that are no splits elsewhere, or give --data {deeper[0]}"
        )
    split = bool(deeper) and len(splits) == len(parts)
    if split:
        classes = [(each, SPLITS[part.name.lower()]) for part in parts for each in _folders(part)]
    else:
        classes = [(part, TRAIN) for part in parts]
    files = [(path, folder.name, number) for folder, number in classes for path in _files_in(folder)]
    rows = [row for row in files if is_image(row[0])]
    above = [str(each) for top in (place, *(parts if split else ())) for each in top.iterdir()]
    passed = _passed_over([*above, *(path for path, _, _ in files)])
    if not rows:
        raise RegardError(
            f"{place} holds no images ({', '.join(SUFFIXES[:4])}, ...) in its {len(parts)} folders"
            f"{f'; {passed}' if passed else ''}"
        )
    found = {label for _, label, _ in rows}
    if len(found) == 1 and len(inner := _folders(classes[0][0])) > 1:
        raise RegardError(
            f"{place} has only the class '{displayable(rows[0][1])}'; there must be two to tell apart. If "
            f"the classes are {_listed(inner)}, give --data {classes[0][0]}"
        )
    notes = [
        f"{folder} holds no images, so it is no class" for folder, _ in classes if folder.name not in found
    ]
    for each in (place, *(parts if split else ())):
        if count := sum(_loose(each)):
            notes.append(f"left out: {count:,} image{'s' * (count > 1)} of {each} in no folder of a class")
    notes += [passed] if passed else []
    paths, labels, numbers = zip(*rows, strict=True)
    return _numbered(str(place), labels, np.array(numbers, dtype=np.uint8), asks, files=paths, notes=notes)


def _folders(place: Path) -> list[Path]:
    return sorted(each for each in place.iterdir() if each.is_dir() and not each.name.startswith("."))


def _loose(place: Path) -> Iterator[bool]:
    """For each file in a folder: is it an image?"""
    return (is_image(each.name) and each.is_file() for each in place.iterdir())


def images_in(folder: Path) -> Iterator[str]:
    """Every image below a folder, in the order of their paths."""
    return (path for path in _files_in(folder) if is_image(path))


def _files_in(folder: Path) -> Iterator[str]:
    """Every file below a folder that is not hidden. A link that leads nowhere is one, too: it will be
    named."""
    for here, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        yield from (os.path.join(here, name) for name in sorted(names) if not name.startswith("."))


def is_image(path: str) -> bool:
    """By its name."""
    name = os.path.basename(path)
    return os.path.splitext(name)[1].lower() in SUFFIXES and not name.startswith(".")


def _passed_over(paths: Iterable[str]) -> str | None:
    """How many files are not images by their names, of each ending."""
    names = [os.path.basename(path) for path in paths if not is_image(path) and os.path.isfile(path)]
    endings = Counter(os.path.splitext(name)[1].lower() for name in names if not name.startswith("."))
    if not endings:
        return None
    named = sorted(endings.items(), key=lambda each: (-each[1], each[0]))[:NAMED_ENDINGS]
    said = [f"{count:,} {displayable(ending) or 'without an ending'}" for ending, count in named]
    if rest := endings.total() - sum(count for _, count in named):
        said.append(f"{rest:,} others")
    if endings.keys() & set(RAW):
        raw = "; RAW images are not read, convert them to JPEG or PNG"
    else:
        raw = ""
    return f"skipped files whose names are not those of images: {', '.join(said)}{raw}"


def _listed(parts: Sequence[Path]) -> str:
    names = [displayable(part.name) for part in parts[:NAMED]] + (["..."] if len(parts) > NAMED else [])
    if len(names) > 1:
        return ", ".join(names[:-1]) + " and " + names[-1]
    return names[0]


# ── tables


def _of_table(place: Path, image: str, label: str, asks: Asks) -> LabelledImages:
    """A path and a label in each row; paths count from where the table is. A column 'split' may say train,
    validation, test."""
    table = read_table(str(place))
    table.place(image, "say which one with --data.image", (label, "split"))
    table.place(label, "say which one with --data.label", (image, "split"))
    if not len(table):
        raise RegardError(f"{place} has no rows; give a path and a label in each")
    table.check_filled([image, label])
    paths = [os.path.normpath(place.parent / str(each)) for each in table.texts(image)]
    labels = [str(each) for each in table.texts(label)]
    splits = np.zeros(len(paths), dtype=np.uint8)
    if "split" in table.names:
        for row, said in enumerate(table.texts("split")):
            if (said or "").lower() not in SPLITS:
                raise RegardError(
                    f"{table.where(row)} has '{said}' as its split; it is train, validation or test"
                )
            splits[row] = SPLITS[str(said).lower()]
    if not any(map(os.path.exists, paths)):
        raise RegardError(
            f"none of the {len(paths)} images of {place} is there, such as {paths[0]}; "
            "paths count from the table's folder"
        )
    return _numbered(str(place), labels, splits, asks, files=paths, column=label, notes=table.notes)
