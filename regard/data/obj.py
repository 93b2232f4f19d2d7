"""OBJ files: a mesh as text. Materials and textures, which are other files, are not opened."""

from __future__ import annotations

import numpy as np

from regard.data.array import Array
from regard.data.surface import fan
from regard.data.text_files import read_lines
from regard.errors import RegardError

DIGITS = 12  # of a whole number that names a vertex


def read_obj(path: str) -> tuple[Array, Array]:
    """Vertices v 3 and triangles f 3, of all objects of the file; a face with more corners becomes several."""
    vertices: list[list[float]] = []
    triangles: list[Array] = []
    whole = ""
    for number, line in enumerate(read_lines(path), 1):
        text = line.partition("#")[0].rstrip()
        if text.endswith("\\"):  # goes on in the next line
            whole += text[:-1] + " "
            continue
        words = (whole + text).split()
        whole = ""
        if words[:1] == ["v"]:
            vertices.append(_place(words[1:], number, path))
        elif words[:1] == ["f"]:
            triangles.append(_triangles(words[1:], number, path, len(vertices)))
    faces = np.concatenate(triangles) if triangles else np.zeros((0, 3), dtype=np.int64)
    return np.array(vertices, dtype=np.float64).reshape(-1, 3), faces


def _place(words: list[str], number: int, path: str) -> list[float]:
    try:
        place = [float(word) for word in words[:3]]  # what follows are a weight and colours
    except ValueError:
        raise RegardError(
            f"line {number} of {path} must hold numbers, got {' '.join(words)[:60]!r}"
        ) from None
    if len(place) < 3:
        raise RegardError(f"line {number} of {path} has {len(place)} numbers, but a vertex has three")
    return place


def _triangles(words: list[str], number: int, path: str, count: int) -> Array:
    """A face: corners as 7, 7/1, 7/1/3 or 7//3, counted from 1, or from the last one back with −1."""
    corners = []
    for word in words:
        first = word.partition("/")[0]
        if not first.removeprefix("-").isdecimal() or len(first) > DIGITS:
            raise RegardError(
                f"line {number} of {path} must name vertices by whole numbers, got {word[:60]!r}"
            )
        corner = int(first)
        place = corner - 1 if corner > 0 else count + corner
        if corner == 0 or not 0 <= place < count:
            raise RegardError(
                f"line {number} of {path} names vertex {corner}, but {count} come before it, counted from 1"
            )
        corners.append(place)
    if len(corners) < 3:
        raise RegardError(
            f"line {number} of {path} has a face with {len(corners)} corners; it needs at least three"
        )
    return fan(np.array(corners))
