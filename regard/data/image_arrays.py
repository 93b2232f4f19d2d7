"""Images that come as numbers: idx files (MNIST and its family), .npz, the digits of scikit-learn.

Each gives pixels, labels and splits of as many rows. Nothing pickled is opened, and no more is unpacked than
a header says.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import struct
import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np

from regard.data.array import Array
from regard.data.image_files import Pixels
from regard.data.splits import SPLITS, TEST, TRAIN
from regard.errors import RegardError
from regard.files import most_unpacked, open_regular, read_arrays


class Rows(NamedTuple):
    """Images of one size with their labels."""

    pixels: Pixels  # n h w, or n h w c
    labels: list[str]
    splits: Array  # TRAIN, VALIDATION or TEST, of each


def digits() -> Rows:
    """1,797 handwritten digits of 8 × 8 pixels, which come with scikit-learn; every fifth is kept for the
    end."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError as error:
        raise RegardError("the digits come with scikit-learn; pip install 'regard[look]', or give --data") from error
    data = load_digits()
    pixels = (data.images * (255 / 16)).round().astype(np.uint8)
    splits = np.where(np.arange(len(pixels)) % 5 == 4, TEST, TRAIN).astype(np.uint8)
    return Rows(pixels, [str(each) for each in data.target.tolist()], splits)


MOST_PACKED = 1032  # bytes that gzip can make of one

# ── idx


def is_idx_of_images(path: Path) -> bool:
    return "idx3-ubyte" in path.name.lower() and path.is_file()


def read_idx_files(paths: Sequence[Path], name: str, *, labels: bool = True) -> Rows:
    """Files called ...images-idx3-ubyte (.gz) with ...labels-idx1-ubyte beside them; t10k or test in a name:
    for the end. labels: False if there need be none; the label of each is then empty"""
    families = sorted({re.split(r"(?i)(?:train|t10k|test)?[-_.]*images", path.name)[0].rstrip("-_.") for path in paths})
    if len(families) > 1:
        raise RegardError(
            f"{name} holds several collections: "
            f"{', '.join(each or 'one without a name' for each in families)}; "
            f"put the files of one into a folder of their own, or give one file, such as {paths[0]}"
        )
    pixels, classes, splits = [], [], []
    for path in paths:
        beside = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
        if beside.suffix == ".gz":
            other = beside.with_suffix("")
        else:
            other = beside.with_name(beside.name + ".gz")
        found = next((each for each in (beside, other) if each.exists()), None)
        if found is None and labels:
            raise RegardError(f"there are no labels beside {path}; they should be in {beside.name}")
        pixels.append(_read_idx(path, 3))
        if found is None:
            classes.append(np.full(len(pixels[-1]), "", dtype=object))
        else:
            classes.append(_read_idx(found, 1))
        if len(pixels[-1]) != len(classes[-1]):
            raise RegardError(
                f"{path} has {len(pixels[-1]):,} images and {found} has {len(classes[-1]):,} labels; "
                "there must be as many"
            )
        last = any(word in path.name.lower() for word in ("t10k", "test"))
        splits.append(np.full(len(classes[-1]), TEST if last else TRAIN, dtype=np.uint8))
    if len({each.shape[1:] for each in pixels}) > 1:
        raise RegardError(f"the idx files of {name} have images of different sizes")
    return Rows(
        np.concatenate(pixels), [str(each) for each in np.concatenate(classes).tolist()], np.concatenate(splits)
    )


def _read_idx(path: Path, axes: int) -> Pixels:
    """The numbers of an idx file of bytes, gzipped or not."""
    with open_regular(path) as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            stream = cast(IO[bytes], gzip.GzipFile(fileobj=file) if packed else file)
            size = os.fstat(file.fileno()).st_size * (MOST_PACKED if packed else 1)
            return _idx(stream, path, axes, min(size, most_unpacked()))
        except (OSError, EOFError, zlib.error) as error:
            raise RegardError(f"{path} is damaged: {error}") from error


def _idx(stream: IO[bytes], path: Path, axes: int, most: int) -> Pixels:
    start = stream.read(4 + 4 * axes)
    if len(start) < 4 + 4 * axes or start[:4] != bytes([0, 0, 8, axes]):
        raise RegardError(
            f"{path} is no idx file of bytes with {axes} {'axes' if axes > 1 else 'axis'}: "
            f"it begins with {start[:4].hex(' ') or 'nothing'}, not 00 00 08 {axes:02x}"
        )
    shape = struct.unpack(f">{axes}I", start[4:])
    size = math.prod(shape)
    if size > most:  # nothing is unpacked to see that
        raise RegardError(
            f"{path} should hold {' × '.join(map(str, shape))} bytes, and it can have {most:,} at most here; "
            "it is cut off or damaged"
        )
    content = stream.read(size + 1)
    if len(content) != size:
        held = f"holds {len(content):,}" if len(content) < size else "holds more"
        raise RegardError(
            f"{path} should hold {' × '.join(map(str, shape))} bytes and {held}; it is cut off or damaged"
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


# ── npz

PAIRS = (("images", "labels"), ("x", "y"))
SHAPES = "they should be n h w, n h w 3 or n 3 h w"


def read_npz(path: Path, *, labels: bool = True) -> Rows:
    """Arrays images and labels (or x and y), or x_train, y_train, x_test, y_test, or train_images,
    train_labels, ... labels: False if there need be none; the label of each is then empty"""
    return rows_of_arrays(read_arrays(path), path, labels=labels)


def find_pairs(arrays: Collection[str]) -> list[tuple[str, str, int]]:
    """The name of each of these arrays that holds inputs, what that of its labels is called, and its split."""
    named = [(x, y, TRAIN) for x, y in PAIRS]
    for end, split in SPLITS.items():
        named += [(way.format(x, end), way.format(y, end), split) for x, y in PAIRS for way in ("{0}_{1}", "{1}_{0}")]
    return [each for each in named if each[0] in arrays]


def rows_of_arrays(given: Mapping[str, Any], path: Path | str, *, labels: bool = True) -> Rows:
    """The same of arrays in memory. path: what errors call them"""
    arrays = {name.lower(): array for name, array in given.items()}
    parts = find_pairs(arrays)
    if not parts:
        raise RegardError(
            f"{path} has no 'images' and 'labels' (or x and y, or x_train and y_train, or train_images and "
            f"train_labels); it has: {', '.join(arrays) or 'nothing'}"
        )
    for x, y, _ in parts:
        if y not in arrays:
            if labels:
                raise RegardError(f"{path} has '{x}' and no '{y}'; it has: {', '.join(arrays)}")
            arrays[y] = np.full(len(arrays[x]), "")
        if arrays[x].ndim not in (3, 4):
            raise RegardError(f"{path} has images of shape {arrays[x].shape} in '{x}'; {SHAPES}")
        _check_labels(arrays[y], len(arrays[x]), y, path)
    pixels = _as_bytes([arrays[x] for x, _, _ in parts], path)
    words = [_label(each) for _, y, _ in parts for each in arrays[y].reshape(-1).tolist()]
    splits = np.concatenate([np.full(len(arrays[x]), split, dtype=np.uint8) for x, _, split in parts])
    return Rows(pixels, words, splits)


def _check_labels(labels: Any, images: int, name: str, path: Path | str) -> None:
    if labels.ndim > 1 and labels.size == images * labels.shape[-1] > images:
        raise RegardError(
            f"{path} has labels of shape {labels.shape} in '{name}'; there should be one for each image "
            "(if they are one-hot, save labels.argmax(-1))"
        )
    if labels.size != images:
        raise RegardError(f"{path} has {images:,} images and {labels.size:,} labels; there must be as many")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise RegardError(f"{path} has labels that are not finite in '{name}'; leave these images out")


def _label(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value).strip()


def _as_bytes(arrays: Sequence[Any], path: Path | str) -> Pixels:
    """n h w or n h w c as bytes, all by the same measure: bytes are taken as they are; what has no number
    above 1 is black and white, or real numbers from 0 to 1; then up to 255; then up to 65,535."""
    first = [x.ndim == 4 and x.shape[1] in (1, 3) and x.shape[3] not in (1, 3) for x in arrays]  # channels before rows
    arrays = [x.transpose(0, 2, 3, 1) if turn else x for x, turn in zip(arrays, first, strict=True)]
    for x in arrays:
        if x.ndim == 4 and x.shape[3] not in (1, 3):
            raise RegardError(f"{path} has images of shape {x.shape}; {SHAPES}")
        if x.dtype.kind not in "buif" or not np.isfinite(x).all() or x.min(initial=0) < 0:
            raise RegardError(
                f"{path} has images of {x.dtype} that are no pixels; they should be 0 to 255, or 0.0 to 1.0"
            )
    if len({x.shape[1:] for x in arrays}) > 1:
        raise RegardError(f"{path} has images of different shapes: {', '.join(str(x.shape) for x in arrays)}")
    high = max(float(x.max(initial=0)) for x in arrays)
    top = next((each for each in (1.0, 255.0, 65535.0) if high <= each), high)
    if top == 255 and all(x.dtype == np.uint8 for x in arrays):
        return np.concatenate(arrays)
    return np.concatenate([(x.astype(np.float32) * (255.0 / top)).round().astype(np.uint8) for x in arrays])
