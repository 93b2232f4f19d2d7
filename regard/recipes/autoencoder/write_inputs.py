"""Inputs that a model made, as files: a sheet of images, a folder, arrays, a table."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Sequence
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from regard import files
from regard.data.array import Array
from regard.data.image_files import pillow
from regard.errors import RegardError
from regard.recipes.autoencoder.dataset import Form, InputsInfo
from regard.recipes.autoencoder.given_inputs import restore

Output = str | os.PathLike[str]
WHITE = 255
GAP = 1  # pixels between two images of a sheet
LEAST = 56  # pixels of the side of an image on a sheet: smaller ones are enlarged by a whole number
WAYS: dict[Form, str] = {
    "images": "a sheet (.png), a folder (ending in /), or arrays (.npz)",
    "rows": "a table (.csv), or arrays (.npz)",
    "points": "arrays (.npz), a table (.csv), or a folder (ending in /)",
}
SUFFIXES: dict[Form, tuple[str, ...]] = {
    "images": (".png", ".npz"),
    "rows": (".csv", ".npz"),
    "points": (".npz", ".csv"),
}


def is_folder(out: Output) -> bool:
    """Is it the name of a folder: one that exists, or that ends in a slash, or that has no suffix?"""
    return os.path.isdir(out) or os.fspath(out).endswith(("/", os.sep)) or not Path(out).suffix


def check_place(out: Output, form: Form) -> None:
    """A RegardError for what cannot be written, before any work."""
    if is_folder(out):
        if form == "rows" or os.path.isfile(out):
            raise RegardError(f"--out must be {WAYS[form]}, got {os.fspath(out)!r}")
        return
    if Path(out).suffix.lower() not in SUFFIXES[form]:
        raise RegardError(f"--out must be {WAYS[form]}, got {os.fspath(out)!r}")
    parent = Path(out).absolute().parent
    if not parent.is_dir():
        raise RegardError(f"cannot write {out}: there is no folder {parent}; make it first")


def check_not_lost(out: Output, inputs: Iterable[str]) -> None:
    """A RegardError if `out` is an input, or the folder of one, which could be overwritten there."""
    if not os.path.exists(out):
        return
    for each in inputs:
        if os.path.exists(each) and os.path.samefile(each, out):
            raise RegardError(f"--out {os.fspath(out)} is one of the inputs, which would be lost; give another name")
        folder = Path(each).parent
        if folder.is_dir() and os.path.samefile(folder, out):
            raise RegardError(
                f"--out {os.fspath(out)} is the folder of {each}, which could be lost; give another folder"
            )


def write_made(
    made: Tensor, info: InputsInfo, out: Output, *, columns: int | None = None, names: Sequence[str] = ()
) -> None:
    """Inputs as a model gives them.   n shape. columns: of a sheet; None: about as many as rows. names: of the
    files of a folder, without their endings; none: numbers"""
    if is_folder(out):
        _write_folder(made, info, Path(out), names)
        return
    WRITERS[info.form, Path(out).suffix.lower()](made, info, Path(out), columns)


def to_bytes(made: Tensor) -> Array:
    """Numbers from 0 to 1 as bytes.   n c h w -> n h w, or n h w 3"""
    found = (made.clamp(0, 1) * WHITE).round().byte().numpy()
    if found.shape[1] == 1:
        return np.ascontiguousarray(found[:, 0])
    return np.ascontiguousarray(found.transpose(0, 2, 3, 1))


def png(image: Array) -> bytes:
    """One image as a file.   h w, or h w 3"""
    out = io.BytesIO()
    pillow().fromarray(image).save(out, format="png")
    return out.getvalue()


def lay_out(images: Array, columns: int | None = None) -> Array:
    """All images side by side, with a grey line between; small ones are enlarged.   n h w ... -> h' w' ..."""
    count, side = len(images), images.shape[1]
    columns = columns or max(1, ceil(sqrt(count)))
    rows, scale = -(-count // columns), max(1, -(-LEAST // side))
    step = side * scale + GAP
    sheet = np.full((rows * step + GAP, columns * step + GAP, *images.shape[3:]), WHITE // 2, dtype=np.uint8)
    for i, image in enumerate(images):
        top, left = (i // columns) * step + GAP, (i % columns) * step + GAP
        large = image.repeat(scale, 0).repeat(scale, 1)
        sheet[top : top + side * scale, left : left + side * scale] = large
    return sheet


# ── one file


def _write_sheet(made: Tensor, info: InputsInfo, out: Path, columns: int | None) -> None:
    files.write_bytes(out, png(lay_out(to_bytes(made), columns)))


def _write_images(made: Tensor, info: InputsInfo, out: Path, columns: int | None) -> None:
    _write_arrays(out, images=to_bytes(made))


def _write_numbers(made: Tensor, info: InputsInfo, out: Path, columns: int | None) -> None:
    _write_arrays(out, x=restore(made, info).numpy(), columns=np.array(info.columns))


def _write_clouds(made: Tensor, info: InputsInfo, out: Path, columns: int | None) -> None:
    _write_arrays(out, points=made.numpy())


def _write_arrays(out: Path, **arrays: Any) -> None:
    files.write_arrays(out, arrays)


def rows_as_csv(made: Tensor, info: InputsInfo) -> str:
    """Rows in the units of the table, with its columns."""
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\n")
    writer.writerow(info.columns)
    for row in restore(made, info).tolist():
        writer.writerow([f"{number:.7g}" for number in row])
    return held.getvalue()


def _write_table(made: Tensor, info: InputsInfo, out: Path, columns: int | None) -> None:
    files.write_text(out, rows_as_csv(made, info))


def _write_long(made: Tensor, info: InputsInfo, out: Path, columns: int | None) -> None:
    """A point in each line, with the number of its cloud."""
    names = ("x", "y", "z") if made.shape[-1] == 3 else tuple(f"x{i + 1}" for i in range(made.shape[-1]))
    lines = [",".join(("set", *names))]
    for number, cloud in enumerate(made.tolist(), 1):
        lines += [",".join((str(number), *(f"{each:.6g}" for each in point))) for point in cloud]
    files.write_text(out, "\n".join(lines) + "\n")


WRITERS: dict[tuple[Form, str], Callable[[Tensor, InputsInfo, Path, int | None], None]] = {
    ("images", ".png"): _write_sheet,
    ("images", ".npz"): _write_images,
    ("rows", ".csv"): _write_table,
    ("rows", ".npz"): _write_numbers,
    ("points", ".npz"): _write_clouds,
    ("points", ".csv"): _write_long,
}


def _write_folder(made: Tensor, info: InputsInfo, out: Path, names: Sequence[str]) -> None:
    """A file for each input, called by its name or number."""
    files.make_folder(out, parents=True)
    digits = len(str(len(made)))
    called = names or [f"{number:0{digits}}" for number in range(1, len(made) + 1)]
    if info.form == "images":
        for name, image in zip(called, to_bytes(made), strict=True):
            files.write_bytes(out / f"{name}.png", png(image))
        return
    for name, cloud in zip(called, made.numpy(), strict=True):
        files.write_array(out / f"{name}.npy", cloud)
