"""Pictures that a person gives: opened with care, because a file can be anything."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

LARGEST_FILE = 20 * 2**20  # bytes
MOST_PIXELS = 64_000_000  # a small file can hold a picture too large for memory


def opened(given: str | bytes) -> Any:
    """A picture from a file, or from its bytes."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ValueError("pictures need pillow; install it with: pip install 'regard[look]'") from error
    name = given if isinstance(given, str) else "the picture"
    if isinstance(given, str):
        if not os.path.isfile(given):
            raise ValueError(f"there is no picture {given!r}; give the path of an image file")
        given = Path(given).read_bytes()
    if len(given) > LARGEST_FILE:
        raise ValueError(f"{name} has {len(given):,} bytes; a picture may have {LARGEST_FILE:,}")
    try:
        picture = Image.open(io.BytesIO(given))
        if picture.width * picture.height > MOST_PIXELS:
            raise ValueError(f"{name} has {picture.width} × {picture.height} pixels; make it smaller")
        return picture.convert("RGB")
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"{name} is no image that can be read; give a PNG, JPEG or WebP file") from error


def drawn() -> Any:
    """A picture to look at when none is given: a red disc and a blue square on sand."""
    from PIL import Image, ImageDraw

    picture = Image.new("RGB", (256, 256), (235, 225, 200))
    pen = ImageDraw.Draw(picture)
    pen.ellipse((30, 40, 130, 140), fill=(200, 50, 40))
    pen.rectangle((140, 130, 230, 220), fill=(40, 70, 170))
    return picture
