"""One image of any size and mode as pixels of one size: uint8 c s s.

What cameras and programs do to images is undone: turned by EXIF, transparent (laid on white), palettes, 16
bits a channel. Of several images in a file (an animation, pages) the first is taken.
"""

from __future__ import annotations

import io
import logging
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any, Literal

import numpy as np

from regard.errors import RegardError
from regard.files import open_regular

Fit = Literal["crop", "pad", "stretch"]
Pixels = np.ndarray[Any, np.dtype[np.uint8]]

MOST_PIXELS = 64_000_000  # that are decoded: a small file can hold an image too large for memory
# pixels of an image that is decoded while no other so large is: memory is bounded on many cores, too
ALONE_FROM = 8_000_000
SUFFIXES = (
    ".png",
    ".jpg",
    ".jpeg",
    ".webp",
    ".bmp",
    ".gif",
    ".tif",
    ".tiff",
    ".ppm",
    ".pgm",
    ".pbm",
    ".jfif",
    ".jp2",
    ".avif",
    ".heic",
    ".heif",
)  # (the last two are what phones make; where they cannot be read they are named, not passed over)
# Whatever its name, a file is opened as one of these only. Pillow knows others that it hands to other
# programs, such as EPS.
FORMATS = {
    "PNG": "PNG",
    "JPEG": "JPEG",
    "MPO": "JPEG",
    "WEBP": "WebP",
    "BMP": "BMP",
    "GIF": "GIF",
    "TIFF": "TIFF",
    "PPM": "PPM",
    "JPEG2000": "JPEG 2000",
    "AVIF": "AVIF",
    "HEIF": "HEIC",
}  # as pillow calls it: as people do
RAW = (
    ".cr2",
    ".cr3",
    ".crw",
    ".nef",
    ".nrw",
    ".arw",
    ".dng",
    ".orf",
    ".rw2",
    ".raf",
    ".pef",
    ".srw",
)  # what cameras make
OTHERS = {**dict.fromkeys(RAW, "a RAW"), ".svg": "an SVG", ".pdf": "a PDF", ".psd": "a Photoshop", ".eps": "an EPS"}
HEIC = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")  # what such a file calls itself
BEGIN = {"a JPEG": b"\xff\xd8\xff", "a PNG": b"\x89PNG", "a GIF": b"GIF8"}  # what begins as no other file does
REAL = "holds real numbers, and nothing says which are black and white; save it with 8 or 16 bits"
LARGE = threading.Lock()


class Damaged(RegardError):
    """A file that cannot be read as an image."""


@cache
def pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise RegardError("images need pillow; install it with: pip install 'regard[look]'") from error
    # of odd metadata and of sizes, which are looked at here
    warnings.filterwarnings("ignore", module=r"PIL\.")
    logging.getLogger("PIL").addHandler(logging.NullHandler())
    return Image


@cache
def formats() -> tuple[str, ...]:
    """Those of FORMATS that this pillow knows."""
    pil = pillow()
    pil.init()
    return tuple(each for each in FORMATS if each in pil.OPEN)


def header(path: str | os.PathLike[str] | bytes) -> tuple[int, int, bool]:
    """Width and height as they are shown, and whether it is grey, without reading the pixels."""
    name = "the image" if isinstance(path, bytes) else os.fspath(path)
    with readable(name), open_image_file(path, name, _most_pixels()) as image:
        return header_of(image)


def header_of(image: Any) -> tuple[int, int, bool]:
    """The same of an image of pillow's."""
    width, height = image.size
    turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
    if turned:
        return (height, width, _is_grey(image))
    return (width, height, _is_grey(image))


def read(path: str | os.PathLike[str] | bytes, size: int, channels: int, fit: Fit) -> Pixels:
    """The pixels of a file.   c s s"""
    name = "the image" if isinstance(path, bytes) else os.fspath(path)
    with readable(name), open_image_file(path, name, _most_pixels()) as image:
        # (which is held whole while it is read)
        if image.format in ("JPEG", "MPO") and not image.info.get("progressive"):
            # it can be read small at once
            image.draft("RGB" if channels == 3 else "L", (2 * size, 2 * size))
        small_enough(image, name)
        with LARGE if image.width * image.height >= ALONE_FROM else nullcontext():
            return fit_square(to_channels(image, channels, name), size, fit)


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Whatever is raised for a file that ends too soon, or holds nonsense, in our words."""
    try:
        yield
    except (Damaged, MemoryError):
        raise
    except Exception as error:  # decoders and readers of metadata raise anything: struct.error, zlib.error, KeyError
        raise Damaged(f"{name} is damaged: {' '.join(str(error).split()) or type(error).__name__}") from error


def _most_pixels() -> str:
    """How many pixels an image may have that will be made small. A JPEG is read small at once; pillow opens
    none beyond."""
    bound = pillow().MAX_IMAGE_PIXELS
    jpeg = f"{2 * bound:,}" if bound else "any number"
    return f"{MOST_PIXELS:,} at most, of a JPEG that is not progressive {jpeg}"


def small_enough(image: Any, name: str) -> None:
    if image.width * image.height > MOST_PIXELS:
        size = f"{image.width:,} × {image.height:,}"
        raise Damaged(f"{name} has {size} pixels; make it smaller ({MOST_PIXELS:,} at most)")


def open_image_file(path: str | os.PathLike[str] | bytes, name: str, most: str = f"{MOST_PIXELS:,} at most") -> Any:
    pil = pillow()
    if not isinstance(path, bytes) and not os.path.isfile(path):
        what = "is no file" if os.path.exists(path) else None
        if os.path.isdir(path):
            what = "is a folder, not an image"
        raise Damaged(f"{name} {what}" if what else f"there is no image {name}")
    try:
        return pil.open(io.BytesIO(path) if isinstance(path, bytes) else path, formats=formats())
    except pil.DecompressionBombError as error:
        raise Damaged(f"{name} has too many pixels; make it smaller ({most})") from error
    except PermissionError as error:
        raise Damaged(f"{name} cannot be read: permission denied") from error
    except Exception as error:
        raise Damaged(f"{name} {_what_it_is(path)}") from error


def _what_it_is(path: str | os.PathLike[str] | bytes) -> str:
    """Of a file that cannot be opened: which format it seems to have, by its first bytes or by its name."""
    if isinstance(path, bytes):
        start, suffix = path[:12], ""
    else:
        suffix = os.path.splitext(path)[1].lower()
        with open_regular(path) as file:
            start = file.read(12)
    if not start:
        return "is empty"
    if start[4:8] == b"ftyp" and start[8:] in HEIC:
        name: str | None = "a HEIC"
    else:
        name = OTHERS.get(suffix)
    if name is not None:
        return f"is {name} image, which is not read; convert it to JPEG or PNG"
    begun = next((name for name, first in BEGIN.items() if start.startswith(first)), None)
    if begun is not None:
        return f"is damaged: it begins as {begun}, and what follows cannot be read"
    return f"is not a readable image: it is none of {_readable_formats()}"


def _readable_formats() -> str:
    *names, last = dict.fromkeys(FORMATS[each] for each in formats())
    return f"{', '.join(names)} and {last}"


def _is_grey(image: Any) -> bool:
    return image.mode in ("1", "L", "LA", "I", "F") or image.mode.startswith("I;16")


def to_channels(image: Any, channels: int, name: str) -> Any:
    """Upright, opaque, eight bits a channel; grey or RGB."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode == "I" or image.mode.startswith("I;16"):
        values = np.asarray(image).astype(np.int32)
        low, high = int(values.min(initial=0)), int(values.max(initial=0))
        if low < 0 or high > 65535:
            raise Damaged(
                f"{name} holds whole numbers from {low:,} to {high:,}, and nothing says which are black "
                "and white; save it with 8 or 16 bits"
            )
        # 257 · 255 = 65,535
        image = Image.fromarray((values // 257 if high > 255 else values).astype(np.uint8))
    elif image.mode == "F":
        raise Damaged(f"{name} {REAL}")
    if "A" in image.mode or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("L" if channels == 1 else "RGB")


def fit_square(image: Any, size: int, fit: Fit) -> Pixels:
    """To s × s: the middle of it (crop), all of it with black beside (pad), or all of it out of shape
    (stretch).   c s s"""
    from PIL import Image, ImageOps

    if image.size != (size, size):
        how = Image.Resampling.BILINEAR
        if fit == "stretch":
            image = image.resize((size, size), how, reducing_gap=2.0)
        else:
            image = (ImageOps.fit if fit == "crop" else ImageOps.pad)(image, (size, size), how)
    pixels = np.array(image)  # a copy: what pillow holds may not be written to, and torch warns
    return np.ascontiguousarray(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))
