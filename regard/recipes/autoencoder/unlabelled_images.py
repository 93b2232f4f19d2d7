"""Images whose labels are optional: whatever holds labelled images, and the same without labels."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from regard.data.array import Array
from regard.data.image_arrays import PAIRS, Rows, is_idx_of_images, read_idx_files, read_npz
from regard.data.scan import once
from regard.data.splits import SPLITS, TRAIN
from regard.data.tables import is_table, names_of, read_table
from regard.errors import RegardError
from regard.files import read_arrays
from regard.recipes.example import Examples
from regard.recipes.images.config import ImagesConfig
from regard.recipes.images.read_images import FORMATS, find_images, images_in, is_image


@once
def find_any_images(config: ImagesConfig) -> Examples:
    """What a path holds, with labels if there are any; None: the digits that come with scikit-learn."""
    path = config.path
    if path is None:
        return find_images(None, config)
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(f"there is no {path}; give images: {FORMATS}, with labels or without")
    if place.is_dir() and not any(map(is_idx_of_images, place.iterdir())):
        return _of_folder(place, config)
    if place.is_dir() or is_idx_of_images(place):
        several = sorted(each for each in place.iterdir() if is_idx_of_images(each)) if place.is_dir() else []
        return _of_rows(path, read_idx_files(several or [place], path, labels=False))
    if place.suffix.lower() == ".npz":
        return _of_rows(path, read_npz(place, labels=False))
    if is_table(path) and config.label not in names_of(path, config):
        return _of_table(place, config)
    return find_images(path, config)


def holds_images(path: Path) -> bool:
    """Is this an .npz file with arrays of images, and not with rows of numbers?"""
    names = {way.format(x, end) for x, _ in PAIRS for end in SPLITS for way in ("{0}_{1}", "{1}_{0}")}
    names |= {x for x, _ in PAIRS}
    found = {name.lower(): array for name, array in read_arrays(path).items()}
    return any(found[name].ndim > 2 for name in names if name in found)


def _of_rows(name: str, rows: Rows) -> Examples:
    pixels = rows.pixels
    return Examples(
        what=name,
        count=len(pixels),
        inputs=lambda i: {"image": pixels[i]},
        names=lambda i: f"image {i + 1:,}",
        cells=np.array(rows.labels) if any(rows.labels) else None,
        splits=rows.splits,
        about={"pixels": pixels},
    )


def _of_folder(place: Path, config: ImagesConfig) -> Examples:
    """Folders of classes; or images as they lie there, or in folders called train, validation and test."""
    parts = sorted(each for each in place.iterdir() if each.is_dir() and not each.name.startswith("."))
    splits = [part for part in parts if part.name.lower() in SPLITS]
    loose = any(is_image(each.name) and each.is_file() for each in place.iterdir())
    flat = bool(splits) and splits == parts and not any(_has_folders(part) for part in splits)
    if not (loose or flat):
        return find_images(str(place), config)
    if flat and not loose:
        rows = [(path, SPLITS[part.name.lower()]) for part in splits for path in images_in(part)]
    else:
        rows = [(path, TRAIN) for path in images_in(place)]
    if not rows:
        raise RegardError(f"{place} holds no images")
    files, numbers = zip(*rows, strict=True)
    return _unlabelled(str(place), files, np.array(numbers, dtype=np.uint8))


def _has_folders(place: Path) -> bool:
    return any(each.is_dir() and not each.name.startswith(".") for each in place.iterdir())


def _of_table(place: Path, config: ImagesConfig) -> Examples:
    """A path in each row; paths count from where the table is."""
    table = read_table(str(place), config)
    words = table.texts(config.image, "say which one with --data.image", ("split",))
    if not words:
        raise RegardError(f"{place} has no rows; give the path of an image in each")
    if None in words:
        raise RegardError(f"{table.where(words.index(None))} has no path in column '{config.image}'; fill it in")
    files = tuple(os.path.normpath(place.parent / str(each)) for each in words)
    if not any(map(os.path.exists, files)):
        raise RegardError(
            f"none of the {len(files)} images of {place} is there, such as {files[0]}; paths count from the "
            "table's folder"
        )
    return _unlabelled(str(place), files, np.zeros(len(files), dtype=np.uint8))


def _unlabelled(name: str, files: tuple[str, ...], splits: Array) -> Examples:
    return Examples(
        what=name,
        count=len(files),
        inputs=lambda i: {"image": files[i]},
        names=files.__getitem__,
        files=files.__getitem__,
        splits=splits,
    )
