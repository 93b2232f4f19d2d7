"""Images to predict: files, folders, patterns, the rows of tables of paths, and images in memory."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.image_files import SUFFIXES, pillow
from regard.data.table_formats import is_table
from regard.data.tables import table_of
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.images.config import ImagesConfig
from regard.recipes.images.labelled_images import images_in, is_image, read_image_table

LOOKED = "looked.png"  # how the name of a drawing ends; such a file in a folder is no input


def is_object(given: Any) -> bool:
    """Is it an image itself, of pillow's or an array, and not the path of one? (A tensor is what a model takes.)"""
    return isinstance(given, np.ndarray | pillow().Image)


def is_file(given: Any) -> bool:
    """Does it stand for one image, and not for those in a folder, of a pattern or of a table?"""
    if not isinstance(given, str) or os.path.isdir(given):
        return False
    return not (is_table(given) and os.path.isfile(given)) and not _is_pattern(given)


def gather_images(inputs: Sequence[Any]) -> list[Any]:
    """Files side by side, or images in memory, as one list: they are predicted together."""
    if inputs and all(map(is_object, inputs)):
        return [list(inputs)]
    found: list[Any] = []
    for alone, some in groupby(inputs, is_file):
        each = list(some)
        found += [each] if alone else each
    return found


def given_images(given: Any, config: ImagesConfig) -> Examples:
    """Images whose labels nobody need know; those in memory are called image 1, image 2."""
    if isinstance(given, bytes):
        return _listed([given], ["the image"])
    if is_object(given):
        return _listed([given], ["image 1"])
    if isinstance(given, list) and all(map(is_object, given)):
        return _listed(given, [f"image {i + 1}" for i in range(len(given))])
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        return _listed(given, given)
    if not isinstance(given, str | os.PathLike):
        if table_of(given) is None:
            raise RegardError(
                "images are given as paths, rows of a table, pillow's images or arrays of bytes, got "
                f"{type(given).__name__}"
            )
        return read_image_table(given, config, "use")
    path = os.fspath(given)
    if is_file(path):
        return _listed([path], [path])
    if not os.path.isdir(path) and not _is_pattern(path):
        return read_image_table(path, config, "use")
    if os.path.isdir(path):
        files, none = [each for each in images_in(Path(path)) if not each.endswith(f"-{LOOKED}")], "holds"
    else:
        match = sorted(glob.glob(path, recursive=True))
        files, none = [each for each in match if is_image(os.path.basename(each))], "matches"
    if not files:
        raise RegardError(f"{path} {none} no images; those are files in {', '.join(SUFFIXES)}")
    return _listed(files, files)


def _is_pattern(path: str) -> bool:
    return glob.has_magic(path) and not os.path.exists(path)


def _listed(images: Sequence[Any], names: Sequence[str]) -> Examples:
    return Examples(
        what="the images", count=len(images), inputs=lambda i: {"image": images[i]}, names=names.__getitem__
    )
