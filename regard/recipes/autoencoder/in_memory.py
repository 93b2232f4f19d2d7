"""Images handed over in memory: they become files for as long as they are looked at, and so are read as all
others are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from regard.data.image_files import REAL, Damaged, pillow, readable
from regard.errors import RegardError

SAVED = ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16")  # modes that a PNG can hold
CLEAR = ("PA", "La", "RGBa")  # others that are transparent


@contextmanager
def temporary_files(given: Sequence[Any]) -> Iterator[dict[str, str]]:
    """Files of the images, in a folder that goes away at the end, and what each is called: image 1,
    image 2."""
    with TemporaryDirectory(prefix="regard-") as folder:
        found = {}
        for number, each in enumerate(given, 1):
            path = Path(folder) / f"image {number}.png"
            if isinstance(each, np.ndarray):
                image = _of_array(each, path.stem)
            else:
                image = each
            with readable(path.stem):
                _save(image, path)
            found[str(path)] = path.stem
        yield found


def _of_array(array: Any, name: str) -> Any:
    """Pixels as an image of pillow's.   h w, or h w c"""
    dtype, shape = str(array.dtype), tuple(array.shape)
    if dtype != "uint8" or not (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4))) or 0 in shape:
        raise RegardError(
            f"{name} must be bytes 'h w' or 'h w c' with 1, 3 or 4 channels, got {dtype} of shape {shape}; "
            "several images are given as a list, list(x), and (x * 255).astype('uint8') makes bytes of "
            "numbers up to 1"
        )
    return pillow().fromarray(array[:, :, 0] if shape[2:] == (1,) else array)


def _save(image: Any, path: Path) -> None:
    from PIL import ImageOps

    if image.mode == "F":
        raise Damaged(f"{path.stem} {REAL}")
    upright = ImageOps.exif_transpose(image)
    if upright.mode not in SAVED:
        upright = upright.convert("RGBA" if upright.mode in CLEAR else "RGB")
    upright.save(path, compress_level=1)
