"""STL files: triangles by the places of their corners, as text or as bytes."""

from __future__ import annotations

import numpy as np

from regard.data.array import Array
from regard.data.mesh_repair import Mesh
from regard.data.text_files import split_lines

HEAD = 84  # bytes before the triangles
TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])


def read_stl(data: bytes) -> Mesh:
    """Every triangle has corners of its own."""
    count = int.from_bytes(data[HEAD - 4 : HEAD], "little")
    if len(data) >= HEAD and len(data) == HEAD + TRIANGLE.itemsize * count:
        corners = np.frombuffer(data[HEAD:], TRIANGLE)["corners"].reshape(-1, 3).astype(np.float64)
    elif data.lstrip()[:5].lower() == b"solid" and b"\0" not in data[:HEAD]:
        corners = _read_text(data)
    else:
        raise ValueError(
            f"it does not begin with 'solid', and its {len(data):,} bytes are not those of {count:,} triangles"
        )
    return Mesh(corners, np.arange(len(corners)).reshape(-1, 3))


def _read_text(data: bytes) -> Array:
    corners: list[list[float]] = []
    triangles = 0
    for _, (kind, *words) in split_lines(data):
        if kind.lower() == b"vertex":
            corners.append([float(word) for word in words])
        elif kind.lower() == b"endloop":
            triangles += 1
            if len(corners) != 3 * triangles:
                raise ValueError(f"triangle {triangles} does not have three corners")
    if len(corners) != 3 * triangles:
        raise ValueError(f"it is cut off within triangle {triangles + 1}")
    return np.array(corners, dtype=np.float64).reshape(len(corners), 3)
