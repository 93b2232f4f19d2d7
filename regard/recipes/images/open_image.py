"""Images that a person gives: opened with care, because a file can be anything."""

from __future__ import annotations

import os
from typing import Any

from regard.data import image_files as files
from regard.errors import RegardError
from regard.files import open_regular

CELLS = 8  # in a row, at most
LARGEST_FILE = 20 * 2**20  # bytes


def open_image(given: str | bytes) -> Any:
    """An image from a file, or from its bytes: upright, opaque, RGB."""
    name = given if isinstance(given, str) else "the image"
    if isinstance(given, str):
        if not os.path.isfile(given):
            raise RegardError(f"there is no image {given!r}; give the path of an image file")
        with open_regular(given) as file:
            given = file.read(LARGEST_FILE + 1)
    if len(given) > LARGEST_FILE:
        raise RegardError(f"{name} has more than {LARGEST_FILE:,} bytes; make it smaller")
    with files.readable(name), files.open_image_file(given, name) as image:
        files.small_enough(image, name)
        return files.to_channels(image, 3, name)


def patch_grid(height: int, width: int, patch: int | None = None) -> tuple[int, int]:
    """Rows and columns of the parts that are asked about: a model's patches, or parts of our choice where it
    has none."""
    rows, columns = (-(-side // (patch or -(-side // CELLS))) for side in (height, width))
    return rows, columns


def placeholder_image() -> Any:
    """An image to look at when none is given: a red disc and a blue square on sand."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (256, 256), (235, 225, 200))
    pen = ImageDraw.Draw(image)
    pen.ellipse((30, 40, 130, 140), fill=(200, 50, 40))
    pen.rectangle((140, 130, 230, 220), fill=(40, 70, 170))
    return image
