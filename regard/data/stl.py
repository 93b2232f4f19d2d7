"""STL files: triangles by the places of their corners, as text or as bytes."""

from __future__ import annotations

import numpy as np

from regard.data.array import Array
from regard.data.text_files import read_lines
from regard.errors import RegardError
from regard.files import most_unpacked, open_regular, read_bounded

HEAD, EACH = 84, 50  # bytes before the triangles, and of each


def read_stl(path: str) -> tuple[Array, Array]:
    """Vertices 3f 3 and triangles f 3: every triangle has corners of its own."""
    with open_regular(path) as file:
        data = read_bounded(file, most_unpacked(), path)
    count = int.from_bytes(data[80:HEAD], "little")
    if len(data) >= HEAD and len(data) == HEAD + EACH * count:
        corners = _of_bytes(data)
    elif data.lstrip()[:5].lower() == b"solid" and b"\0" not in data[:HEAD]:
        corners = _of_text(path)
    elif len(data) >= HEAD:
        raise RegardError(
            f"{path} is cut off or damaged: it promises {count:,} triangles, which are {HEAD + EACH * count:,} bytes, "
            f"and has {len(data):,}"
        )
    else:
        raise RegardError(
            f"{path} is not an STL file: it has {len(data)} bytes and does not begin with 'solid'"
        )
    return corners, np.arange(len(corners)).reshape(-1, 3)


def _of_bytes(data: bytes) -> Array:
    form = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
    corners: Array = np.frombuffer(data, form, offset=HEAD)["corners"]
    return corners.reshape(-1, 3).astype(np.float64)


def _of_text(path: str) -> Array:
    corners: list[list[float]] = []
    inside = 0  # corners of the triangle that is being read
    number = 0
    for number, line in enumerate(read_lines(path), 1):
        words = line.split()
        word = words[0].lower() if words else ""
        if word == "vertex":
            try:
                place = [float(each) for each in words[1:]]
            except ValueError:
                raise RegardError(
                    f"line {number} of {path} must hold numbers, got {' '.join(words[1:])[:60]!r}"
                ) from None
            if len(place) != 3:
                raise RegardError(f"line {number} of {path} has {len(place)} numbers, but a vertex has three")
            corners.append(place)
            inside += 1
        elif word == "endloop":
            if inside != 3:
                raise RegardError(f"line {number} of {path} ends a triangle that has {inside} corners")
            inside = 0
    if inside:
        raise RegardError(f"{path} is cut off: line {number} ends within a triangle")
    return np.array(corners, dtype=np.float64).reshape(-1, 3)
