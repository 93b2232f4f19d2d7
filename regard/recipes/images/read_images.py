"""Which images there are and what each shows: folders, a table of paths, idx files (MNIST and its family), .npz, arrays
in memory, or digits.

Splits are what the data itself says: folders or files called train, validation and test, or a column of that name.
"""

from __future__ import annotations

import glob
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from regard.data.array import Array
from regard.data.image_arrays import Rows, digits, is_idx_of_images, read_idx_files, read_npz, rows_of_arrays
from regard.data.image_files import RAW, SUFFIXES, pillow
from regard.data.scan import once
from regard.data.splits import SPLITS, TRAIN
from regard.data.table_formats import is_table
from regard.data.tables import Table, is_missing, read_table, table_of
from regard.data.targets import check_names, sort_labels
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.images.config import ImagesConfig
from regard.recipes.processor import Want
from regard.recipes.target import Target, cells_in_memory, word_of

NAMED = 3  # folders that are named in a line
NAMED_ENDINGS = 5  # of files that are passed over
FORMATS = "a folder with one folder a class, idx files, an .npz file or a table of paths (.csv, .tsv, .parquet, .jsonl)"


def find_images(data: Any, config: ImagesConfig, *, labelled: bool = True) -> Examples:
    """Images with what they show, of a path or in memory; None: the digits that come with scikit-learn. `about` has the
    pixels of arrays, and says whether they were in memory.

    labelled: must they have labels? If they need not, images may lie in one folder, or be one array
    """
    if data is None or isinstance(data, str):
        return _find_images(data, config, labelled)
    found = _in_memory(data, config, "learn", labelled=labelled)
    if labelled and found.cells is None:
        raise RegardError(f"{found.what} have no labels; give a pair (images, labels)")
    return replace(found, about={**found.about, "in_memory": True})


@once
def _find_images(path: str | None, config: ImagesConfig, labelled: bool) -> Examples:
    if path is None:
        return _of_rows("digits of scikit-learn", digits(), config)
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(f"there is no {path}; give {FORMATS}")
    if place.is_dir():
        idx = sorted(each for each in place.iterdir() if is_idx_of_images(each))
        if idx:
            return _of_rows(path, read_idx_files(idx, path, labels=labelled), config)
        loose = None if labelled else _of_loose_files(place)
        return _of_folder(place, config) if loose is None else loose
    if is_idx_of_images(place):
        return _of_rows(path, read_idx_files([place], path, labels=labelled), config)
    if place.suffix.lower() == ".npz":
        return _of_rows(path, read_npz(place, labels=labelled), config, sure=False)
    if is_table(path):
        return read_image_table(path, config, "learn", labelled=labelled)
    if is_image(place.name):
        what = "one image; give the folder that has a folder for each class"
    else:
        what = "none of these"
    raise RegardError(f"{path} is {what}: data is {FORMATS}")


def name_classes(found: Examples, names: Sequence[str], known: Sequence[str] | None = None) -> Examples:
    """Images to learn from, whose classes get these names. known: what the classes were called; None: all are there, in
    their order"""
    if not names:
        if found.target is not None and len(found.target.classes) < 2:
            only = found.target.classes[0]
            raise RegardError(f"{found.what} has only the class '{only}'; there must be two to tell apart")
        return found
    labels = sort_labels(found.plain) if known is None else known
    if known is None:
        if "pixels" not in found.about:
            raise RegardError(
                f"names are for idx files and arrays, and the classes of {found.what} have names already, such as "
                f"'{labels[0]}'; leave --data.names out"
            )
        check_names(names, labels, found.what)
    called = dict(zip(labels, names, strict=True))
    return replace(
        found,
        cells=pa.array([called.get(label, label) for label in found.plain], pa.string()),
        target=Target(classes=tuple(names)),
        about={**found.about, "unnamed": tuple(labels)},
    )


def _of_rows(name: str, rows: Rows, config: ImagesConfig, *, sure: bool = True) -> Examples:
    """sure: are labels classes unless somebody says otherwise?"""
    pixels = rows.pixels
    if 0 in pixels.shape[1:]:
        raise RegardError(f"{name} has images of {pixels.shape[1]} × {pixels.shape[2]} pixels: none at all")
    return Examples(
        what=name,
        count=len(pixels),
        inputs=lambda i: {"image": pixels[i]},
        names=lambda i: f"image {i + 1:,}",
        splits=_own(rows.splits),
        about={"pixels": pixels},
        **_labelled(rows.labels, config, sure=sure),
    )


def _labelled(labels: Sequence[str], config: ImagesConfig, *, sure: bool) -> dict[str, Any]:
    """Their cells, and the classes if it is sure that these are some; nothing if none has a label. The same letters are
    the same label, however they are written."""
    if not any(labels):
        return {}
    words = [unicodedata.normalize("NFC", displayable(label)) for label in labels]
    classes = Target(classes=sort_labels(words)) if sure and config.asks == "auto" else None
    return {"cells": pa.array(words, pa.string()), "target_names": (config.label,), "target": classes}


def _own(splits: Array) -> Array | None:
    """What the data says of splits; None: nothing."""
    return splits if (splits != TRAIN).any() else None


def displayable(name: str) -> str:
    """The name of a file as text, whatever bytes it is made of."""
    return os.fsencode(name).decode("utf-8", "replace")


# ── folders


def _of_folder(place: Path, config: ImagesConfig) -> Examples:
    """One folder for each class, or such folders in folders called train, validation and test.

    Images in folders of a class are of that class. Hidden files and folders are passed over, and so are
    links to folders within a class, which may lead in circles.
    """
    parts = _folders(place)
    if not parts:
        what = "images, but no folders" if any(_loose(place)) else "no images"
        raise RegardError(
            f"{place} holds {what}; put the images of each class into a folder of its own, named as the class"
        )
    splits = [part for part in parts if part.name.lower() in SPLITS]
    deeper = [part for part in splits if _folders(part)]
    if len(splits) == len(parts) and not deeper:
        raise RegardError(
            f"{place} has {_listed(parts)}, which are no classes; put a folder for each class into each of them"
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
    notes = [f"{folder} holds no images, so it is no class" for folder, _ in classes if folder.name not in found]
    for each in (place, *(parts if split else ())):
        if count := sum(_loose(each)):
            notes.append(f"left out: {count:,} image{'s' * (count > 1)} of {each} in no folder of a class")
    notes += [passed] if passed else []
    paths, labels, numbers = zip(*rows, strict=True)
    return Examples(
        what=str(place),
        count=len(paths),
        inputs=lambda i: {"image": paths[i]},
        names=paths.__getitem__,
        files=paths.__getitem__,
        splits=_own(np.array(numbers, dtype=np.uint8)),
        notes=tuple(notes),
        **_labelled(labels, config, sure=True),
    )


def _of_loose_files(place: Path) -> Examples | None:
    """Images as they lie there, or in folders called train, validation and test. None: there are folders of classes."""
    parts = _folders(place)
    splits = [part for part in parts if part.name.lower() in SPLITS]
    if any(_loose(place)):
        rows = [(path, TRAIN) for path in images_in(place)]
    elif splits and splits == parts and not any(map(_folders, parts)):
        rows = [(path, SPLITS[part.name.lower()]) for part in parts for path in images_in(part)]
    else:
        return None
    if not rows:
        raise RegardError(f"{place} holds no images")
    paths, numbers = zip(*rows, strict=True)
    return Examples(
        what=str(place),
        count=len(paths),
        inputs=lambda i: {"image": paths[i]},
        names=paths.__getitem__,
        files=paths.__getitem__,
        splits=_own(np.array(numbers, dtype=np.uint8)),
    )


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


def read_image_table(data: Any, config: ImagesConfig, want: Want, *, labelled: bool = True) -> Examples:
    """A path and a label in each row; paths count from where the table is. A column 'split' may say train,
    validation, test. labelled: must there be labels to learn from?"""
    table = read_table(data, config)
    place = Path(table.path).parent if isinstance(data, str) else Path()
    advice = "a table has the paths of images in this column; rename yours, or name it with --data.image"
    table.place(config.image, advice, (config.label, "split"))
    held = table.columns[config.image]
    if isinstance(held, list) and any(map(is_object, held)):
        return _of_held(table, held, config, want)
    paths = [None if cell is None else os.path.normpath(place / cell) for cell in table.texts(config.image)]
    errors = {
        row: f"{table.where(row)} has no path in column '{config.image}'; fill it in"
        for row, path in enumerate(paths)
        if path is None
    }
    if not paths:
        raise RegardError(f"{table.path} has no rows; give the path of one image in each")
    words, splits = None, None
    if want != "use":
        if labelled:
            table.place(config.label, "say which one with --data.label", (config.image, "split"))
        if errors:
            raise RegardError(next(iter(errors.values())))
        splits = read_split_column(table)
        if not any(path is not None and os.path.exists(path) for path in paths):
            raise RegardError(
                f"none of the {len(paths)} images of {table.path} is there, such as {paths[0]}; "
                "paths count from the table's folder"
            )
    if config.label in table.names:
        words = [None if word is None else unicodedata.normalize("NFC", word) for word in table.labels(config.label)]
    return Examples(
        what=table.path,
        source=table.path if want == "use" else None,
        count=len(paths),
        inputs=lambda i: {"image": paths[i]},
        names=lambda i: paths[i] or f"line {table.line(i)}",
        files=lambda i: str(paths[i]),
        cells=None if words is None else pa.array(words, pa.string()),
        target_names=(config.label,),
        places=table.where,
        rows=table.data if want == "use" else None,
        splits=splits,
        errors=errors,
        notes=table.notes,
    )


def _of_held(table: Table, held: Sequence[Any], config: ImagesConfig, want: Want) -> Examples:
    """The same of a table whose column holds the images themselves."""
    found = _name_images(held, [f"image {i + 1}" for i in range(len(held))])
    labelled = _labels_of(table.labels(config.label), len(held), config) if config.label in table.names else {}
    empty = {row: f"{table.where(row)} has no image" for row, each in enumerate(held) if each is None}
    known: dict[str, Any] = (
        {"source": table.path, "rows": table.data} if want == "use" else {"splits": read_split_column(table)}
    )
    return replace(found, what=table.path, places=table.where, errors=empty, notes=table.notes, **labelled, **known)


def read_split_column(table: Table) -> Array | None:
    """What the column 'split' says of each row; None: nothing."""
    if "split" not in table.names:
        return None
    said = [str(cell).lower() for cell in table.texts("split")]
    odd = next((row for row, word in enumerate(said) if word not in SPLITS), None)
    if odd is not None:
        raise RegardError(f"{table.where(odd)} has '{said[odd]}' as its split; it is train, validation or test")
    return _own(np.array([SPLITS[word] for word in said], dtype=np.uint8))


# ── images to predict

LOOKED = "looked.png"  # how the name of a drawing ends; such a file in a folder is no input


def given_images(given: Any, config: ImagesConfig) -> Examples:
    """Images whose labels nobody need know: of a path, a folder, a pattern, a table, or in memory."""
    if not isinstance(given, str | os.PathLike):
        return _in_memory(given, config, "use")
    path = os.fspath(given)
    if is_file(path):
        return _name_images([path], [path])
    if not os.path.isdir(path) and not _is_pattern(path):
        return read_image_table(path, config, "use")
    if os.path.isdir(path):
        files, none = [each for each in images_in(Path(path)) if not each.endswith(f"-{LOOKED}")], "holds"
    else:
        match = sorted(glob.glob(path, recursive=True))
        files, none = [each for each in match if is_image(os.path.basename(each))], "matches"
    if not files:
        raise RegardError(f"{path} {none} no images; those are files in {', '.join(SUFFIXES)}")
    return _name_images(files, files)


def is_file(given: Any) -> bool:
    """Does it stand for one image, and not for those in a folder, of a pattern or of a table?"""
    if not isinstance(given, str) or os.path.isdir(given):
        return False
    return not (is_table(given) and os.path.isfile(given)) and not _is_pattern(given)


def _is_pattern(path: str) -> bool:
    return glob.has_magic(path) and not os.path.exists(path)


def _name_images(images: Sequence[Any], names: Sequence[str], **more: Any) -> Examples:
    return Examples(
        what="the images", count=len(images), inputs=lambda i: {"image": images[i]}, names=names.__getitem__, **more
    )


# ── in memory


def is_object(given: Any) -> bool:
    """Is it an image itself, of pillow's or an array, and not the path of one? (A tensor is what a model takes.)"""
    return isinstance(given, np.ndarray | pillow().Image)


def _in_memory(data: Any, config: ImagesConfig, want: Want, *, labelled: bool = True) -> Examples:
    """One image or several, perhaps with their labels: (images, labels); or a table. They are called image 1, image 2."""
    images, labels = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    if isinstance(images, np.ndarray) and not labelled:
        return _of_rows("the array", rows_of_arrays({"images": images}, "the array", labels=False), config, sure=False)
    if labels is not None and (getattr(images, "ndim", 0) >= 3 or _are_alike(images)):
        arrays = {"images": np.asarray(images), "labels": np.asarray(labels)}
        return _of_rows("the arrays", rows_of_arrays(arrays, "the arrays"), config, sure=False)
    if is_object(images) or isinstance(images, bytes):
        images = list(images) if getattr(images, "ndim", 0) == 4 else [images]
    if isinstance(images, list | tuple) and images:
        if all(is_object(each) or isinstance(each, bytes) for each in images):
            names = [f"image {i + 1}" for i in range(len(images))]
            return _name_images(images, names, **({} if labels is None else _labels_of(labels, len(images), config)))
        if all(isinstance(each, str) for each in images):
            return _name_images(images, images)
    if table_of(data, config) is None:
        raise RegardError(
            "images are given as paths, rows of a table, pillow's images or arrays of bytes, or as a pair (images, "
            f"labels), got {type(data).__name__}"
        )
    return read_image_table(data, config, want, labelled=labelled)


def _are_alike(images: Any) -> bool:
    """Are these arrays of one shape, so that they are one array?"""
    several = isinstance(images, list | tuple) and all(isinstance(each, np.ndarray) for each in images)
    return several and len({each.shape for each in images}) == 1


def _labels_of(labels: Any, count: int, config: ImagesConfig) -> dict[str, Any]:
    cells = cells_in_memory(labels).tolist()
    if len(cells) != count:
        raise RegardError(f"there are {count:,} images and {len(cells):,} labels; there must be as many")
    words = [None if is_missing(cell) else unicodedata.normalize("NFC", word_of(cell)) for cell in cells]
    return {"cells": pa.array(words, pa.string()), "target_names": (config.label,)}
