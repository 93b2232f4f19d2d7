"""OBJ files: a mesh as text. Materials and textures, which are other files, are not opened."""

from __future__ import annotations

import numpy as np

from regard.data.mesh_repair import Mesh
from regard.data.surface import fan
from regard.data.text_files import split_lines


def read_obj(data: bytes) -> Mesh:
    """All objects of the file as one mesh. A corner is 7, 7/1, 7/1/3 or 7//3, counted from 1, or from the last one
    back with −1."""
    points: list[list[float]] = []
    polygons: list[list[int]] = []
    for number, (kind, *words) in split_lines(data):
        try:
            if kind == b"v":
                points.append([float(word) for word in words[:3]])  # what follows are a weight and colours
                if len(words) < 3:
                    raise ValueError(f"a vertex has three numbers, got {len(words)}")
            elif kind == b"f":
                corners = [int(word.partition(b"/")[0]) for word in words]
                polygons.append([corner - 1 if corner >= 0 else len(points) + corner for corner in corners])
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    return Mesh(np.array(points, dtype=np.float64).reshape(-1, 3), fan(polygons, len(points)))
