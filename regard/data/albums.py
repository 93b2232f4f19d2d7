"""Which pictures there are and what each shows: folders, a table of paths, idx files (MNIST and its family), .npz, or digits.

An album has files or pixels, never both. Splits are what the data itself says: folders or files called train, validation and
test, or a column of that name; where nothing says so, all is for training.
"""

from __future__ import annotations

import csv
import gzip
import os
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import nearest
from regard.data.labelled import sort_labels
from regard.data.pictures import SUFFIXES, Pixels

TRAIN, VALIDATION, TEST = 0, 1, 2
SPLITS = {"train": TRAIN, "training": TRAIN, "val": VALIDATION, "valid": VALIDATION, "validation": VALIDATION,
          "test": TEST, "testing": TEST, "t10k": TEST}
Ids = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Album:
    """Pictures with their classes; a class is a place in `labels`."""

    name: str
    labels: tuple[str, ...]
    classes: Ids
    splits: Ids  # TRAIN, VALIDATION or TEST, of each
    files: tuple[str, ...] = ()
    pixels: Pixels | None = None  # n h w, or n h w c

    def __post_init__(self) -> None:
        if len(self.labels) < 2:
            only = f"only the class '{self.labels[0]}'" if self.labels else "no classes"
            raise ValueError(f"{self.name} has {only}; there must be two to tell apart")
        counts = np.bincount(self.classes[self.splits == TRAIN], minlength=len(self.labels))
        if (counts == 0).any():
            raise ValueError(f"{self.name} has no picture of '{self.labels[int(counts.argmin())]}' to train on")

    def __len__(self) -> int:
        return len(self.classes)


def album(path: str | None, picture: str = "file", label: str = "label") -> Album:
    """What a path holds; None: the digits that come with scikit-learn. `picture` and `label` are columns of a table."""
    if path is None:
        return digits()
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(f"there is no {path}; give a folder of pictures, idx files, an .npz file or a .csv file")
    if place.is_dir():
        idx = sorted(each for each in place.iterdir() if is_idx_of_pictures(each))
        return of_idx(idx, path) if idx else of_folder(place)
    if is_idx_of_pictures(place):
        return of_idx([place], path)
    suffix = place.suffix.lower()
    if suffix == ".npz":
        return of_npz(place)
    if suffix in (".csv", ".tsv"):
        return of_table(place, picture, label)
    what = "one picture; give the folder that has a folder for each class" if suffix in SUFFIXES else "none of these"
    raise ValueError(f"{path} is {what}: data is a folder with one folder a class, idx files, an .npz file or a .csv file")


def digits() -> Album:
    """1,797 handwritten digits of 8 × 8 pixels, which come with scikit-learn; every fifth is kept for the end."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError as error:
        raise ValueError("the digits come with scikit-learn; pip install 'regard[look]', or give --data") from error
    data = load_digits()
    pixels = (data.images * (255 / 16)).round().astype(np.uint8)
    splits = np.where(np.arange(len(pixels)) % 5 == 4, TEST, TRAIN).astype(np.uint8)
    return Album("digits of scikit-learn", tuple(map(str, range(10))), data.target.astype(np.int64), splits, pixels=pixels)


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def of_folder(place: Path) -> Album:
    """One folder for each class, or such folders in folders called train, validation and test."""
    parts = {each.name: each for each in sorted(place.iterdir()) if each.is_dir() and not each.name.startswith(".")}
    if not parts:
        what = "pictures, but no folders" if any(is_picture(each) for each in place.iterdir()) else "no pictures"
        raise ValueError(f"{place} holds {what}; put the pictures of each class into a folder of its own, named as the class")
    deeper = any(each.is_dir() for part in parts.values() for each in part.iterdir())
    split = deeper and all(name.lower() in SPLITS for name in parts)
    rows: list[tuple[str, str, int]] = []
    for name, part in parts.items():
        if split:
            rows += [row for each in sorted(part.iterdir()) if each.is_dir() for row in in_class(each, SPLITS[name.lower()])]
        else:
            rows += in_class(part, TRAIN)
    if not rows:
        raise ValueError(f"{place} holds no pictures ({', '.join(SUFFIXES[:4])}, ...) in its {len(parts)} folders")
    return of_rows(str(place), rows)


def in_class(folder: Path, split: int) -> list[tuple[str, str, int]]:
    return [(str(each), folder.name, split) for each in sorted(folder.rglob("*")) if is_picture(each)]


def is_picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def of_table(place: Path, picture: str, label: str) -> Album:
    """A path and a label in each row; paths count from where the table is. A column 'split' may say train, validation, test."""
    rows = []
    with open(place, encoding="utf-8-sig", newline="") as stream:
        table = csv.DictReader(stream, delimiter="\t" if place.suffix.lower() == ".tsv" else ",")
        names = table.fieldnames or []
        for name, option in ((picture, "--data.picture"), (label, "--data.label")):
            if name not in names:
                near = nearest(name, names)
                raise ValueError(f"{place} has no column '{name}', it has: {', '.join(names) or 'nothing'}; say which one with "
                                 f"{option}" + (f" (is it '{near}'?)" if near else ""))
        for row in table:
            line, values = table.line_num, [row.get(picture), row.get(label)]
            if None in row or not all(values):
                raise ValueError(f"line {line} of {place} has {'too many values' if None in row else 'no path or no label'}")
            split = (row.get("split") or "train").strip().lower()
            if split not in SPLITS:
                raise ValueError(f"line {line} of {place} has '{split}' as its split; it is train, validation or test")
            rows.append((os.path.join(place.parent, str(values[0]).strip()), str(values[1]).strip(), SPLITS[split]))
    if not rows:
        raise ValueError(f"{place} has no rows; give a path and a label in each")
    missing = [path for path, _, _ in rows if not os.path.exists(path)]
    if len(missing) == len(rows):
        raise ValueError(f"none of the {len(rows)} pictures of {place} is there, such as {missing[0]}; "
                         "paths count from the table's folder")
    return of_rows(str(place), rows)


def of_rows(name: str, rows: Sequence[tuple[str, str, int]]) -> Album:
    labels = sort_labels(label for _, label, _ in rows)
    number = {label: i for i, label in enumerate(labels)}
    classes = np.array([number[label] for _, label, _ in rows], dtype=np.int64)
    splits = np.array([split for _, _, split in rows], dtype=np.uint8)
    return Album(name, labels, classes, splits, tuple(path for path, _, _ in rows))


# ── arrays ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def is_idx_of_pictures(path: Path) -> bool:
    return "idx3-ubyte" in path.name.lower() and path.is_file()


def of_idx(paths: Sequence[Path], name: str) -> Album:
    """Files called ...images-idx3-ubyte (.gz) with ...labels-idx1-ubyte beside them; t10k or test in a name: for the end."""
    pixels, classes, splits = [], [], []
    for path in paths:
        beside = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
        other = beside.with_suffix("") if beside.suffix == ".gz" else beside.with_name(beside.name + ".gz")
        found = next((each for each in (beside, other) if each.exists()), None)
        if found is None:
            raise ValueError(f"there are no labels beside {path}; they should be in {beside.name}")
        pixels.append(read_idx(path, 3))
        classes.append(read_idx(found, 1))
        if len(pixels[-1]) != len(classes[-1]):
            raise ValueError(f"{path} has {len(pixels[-1]):,} pictures and {found} has {len(classes[-1]):,} labels; "
                             "there must be as many")
        last = any(word in path.name.lower() for word in ("t10k", "test"))
        splits.append(np.full(len(classes[-1]), TEST if last else TRAIN, dtype=np.uint8))
    if len({each.shape[1:] for each in pixels}) > 1:
        raise ValueError(f"the idx files of {name} have pictures of different sizes")
    return of_numbers(name, np.concatenate(pixels), np.concatenate(classes), np.concatenate(splits))


def read_idx(path: Path, axes: int) -> Pixels:
    """The numbers of an idx file of bytes, gzipped or not."""
    content = path.read_bytes()
    try:
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    start = 4 + 4 * axes
    if len(content) < start or content[:4] != bytes([0, 0, 8, axes]):
        raise ValueError(f"{path} is no idx file of bytes with {axes} {'axes' if axes > 1 else 'axis'}: "
                         f"it begins with {content[:4].hex(' ')}, not 00 00 08 {axes:02x}")
    shape = struct.unpack(f">{axes}I", content[4:start])
    if len(content) - start != int(np.prod(shape, dtype=np.int64)):
        raise ValueError(f"{path} should hold {' × '.join(map(str, shape))} bytes and holds {len(content) - start:,}; "
                         "it is cut off or damaged")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def of_npz(path: Path) -> Album:
    """Arrays images and labels (or x and y), or x_train, y_train, x_test, y_test."""
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays = {name.lower(): held[name] for name in held.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        why = "it holds Python objects, which are never read" if "pickle" in str(error).lower() else str(error)
        raise ValueError(f"{path} cannot be read: {why}") from error
    parts = []
    for end, split in (("", TRAIN), *((f"_{name}", number) for name, number in SPLITS.items())):
        pair = next(((x + end, y + end) for x, y in (("images", "labels"), ("x", "y")) if x + end in arrays), None)
        if pair is not None:
            if pair[1] not in arrays:
                raise ValueError(f"{path} has '{pair[0]}' and no '{pair[1]}'; it has: {', '.join(arrays)}")
            parts.append((arrays[pair[0]], arrays[pair[1]].reshape(-1), split))
    if not parts:
        raise ValueError(f"{path} has no 'images' and 'labels' (or x and y, or x_train and y_train); "
                         f"it has: {', '.join(arrays)}")
    for x, y, _ in parts:
        if len(x) != len(y):
            raise ValueError(f"{path} has {len(x):,} pictures and {len(y):,} labels; there must be as many")
    pixels = [as_bytes(x, path) for x, _, _ in parts]
    splits = np.concatenate([np.full(len(y), split, dtype=np.uint8) for _, y, split in parts])
    return of_numbers(str(path), np.concatenate(pixels), np.concatenate([y for _, y, _ in parts]), splits)


def as_bytes(x: Any, path: Path) -> Pixels:
    """n h w or n h w c as bytes: integers as they are (16 bits are scaled down), real numbers from 0 to 1 or to 255."""
    if x.ndim == 4 and x.shape[1] in (1, 3) and x.shape[3] not in (1, 3):
        x = x.transpose(0, 2, 3, 1)
    if x.ndim not in (3, 4) or (x.ndim == 4 and x.shape[3] not in (1, 3)):
        raise ValueError(f"{path} has pictures of shape {tuple(x.shape)}; they should be n h w, n h w 3 or n 3 h w")
    if x.dtype == np.uint8:
        return np.asarray(x)
    if x.dtype.kind not in "uif" or not np.isfinite(x).all() or x.min(initial=0) < 0:
        raise ValueError(f"{path} has pictures of {x.dtype} that are no pixels; they should be 0 to 255, or 0.0 to 1.0")
    high = x.max(initial=0)
    top = 1.0 if x.dtype.kind == "f" and high <= 1 else 255.0 if high <= 255 else 65535.0
    return (x.astype(np.float32) * (255.0 / top)).round().clip(0, 255).astype(np.uint8)


def of_numbers(name: str, pixels: Pixels, classes: Ids, splits: Ids) -> Album:
    labels = sort_labels(map(str, classes.tolist()))
    number = {label: i for i, label in enumerate(labels)}
    known = np.array([number[str(each)] for each in classes.tolist()], dtype=np.int64)
    return Album(name, labels, known, splits, pixels=pixels)
