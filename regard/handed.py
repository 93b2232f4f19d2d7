"""Pictures handed over in memory: they become files for as long as they are looked at, and so are read as all others are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.data.pictures import REAL, Damaged, pillow, readable

SAVED = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "I", "I;16")  # modes that a PNG can hold; of others the colours are kept


def is_handed(given: Any) -> bool:
    """Is it a picture itself, of pillow's or an array, and not the path of one?"""
    return hasattr(given, "shape") or isinstance(given, pillow().Image)


@contextmanager
def as_files(given: Sequence[Any]) -> Iterator[dict[str, str]]:
    """Files of the pictures, in a folder that goes away at the end, and what each is called: picture 1, picture 2."""
    with TemporaryDirectory(prefix="regard-") as folder:
        found = {}
        for number, each in enumerate(given, 1):
            path = Path(folder) / f"picture {number}.png"
            picture = of_array(each, path.stem) if hasattr(each, "shape") else each
            with readable(path.stem):
                save(picture, path)
            found[str(path)] = path.stem
        yield found


def of_array(array: Any, name: str) -> Any:
    """Pixels as a picture of pillow's.   h w, or h w c"""
    kind, shape = str(array.dtype).removeprefix("torch."), tuple(array.shape)
    if type(array).__module__.split(".")[0] == "torch":
        raise ValueError(f"{name} is a tensor; give an array of bytes 'h w c': (x * 255).byte().permute(1, 2, 0).numpy() makes "
                         "one of numbers from 0 to 1 with the channels first")
    if kind != "uint8" or not (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4))) or 0 in shape:
        raise ValueError(f"{name} must be bytes 'h w' or 'h w c' with 1, 3 or 4 channels, got {kind} of shape {shape}; several "
                         "pictures are given as a list, list(x), and (x * 255).astype('uint8') makes bytes of numbers up to 1")
    return pillow().fromarray(array[:, :, 0] if shape[2:] == (1,) else array)


def save(picture: Any, path: Path) -> None:
    from PIL import ImageOps

    if picture.mode == "F":
        raise Damaged(f"{path.stem} {REAL}")
    upright = ImageOps.exif_transpose(picture)
    (upright if upright.mode in SAVED else upright.convert("RGB")).save(path, compress_level=1)
