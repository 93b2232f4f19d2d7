"""OFF files: a mesh as text, vertices first, then faces."""

from __future__ import annotations

import re

import numpy as np

from regard.data.mesh_repair import Mesh
from regard.data.surface import fan
from regard.data.text_files import split_lines


def read_off(data: bytes) -> Mesh:
    """A face is a number of corners and as many vertices; what follows a vertex or a face are normals and colours."""
    lines = [words for _, words in split_lines(data)]
    head = re.match(rb"(ST)?C?N?OFF(?![A-Z])", lines[0][0].upper()) if lines else None
    if head is None:
        raise ValueError("its first line must be OFF")
    # some write the counts on the first line, and even without a space between: OFF8 12 0
    lines[0] = [word for word in (lines[0][0][head.end() :], *lines[0][1:]) if word]
    lines = lines if lines[0] else lines[1:]
    if not lines or len(lines[0]) < 2:
        raise ValueError("it must begin with OFF, a number of vertices and a number of faces")
    vertices, faces = map(int, lines[0][:2])
    if min(vertices, faces) < 0 or len(lines) - 1 < vertices + faces:
        raise ValueError(f"it promises {vertices} vertices and {faces} faces, and has {len(lines) - 1} lines for them")
    points = np.array([words[:3] for words in lines[1 : vertices + 1]], dtype=np.float64).reshape(vertices, 3)
    polygons = []
    for words in lines[vertices + 1 : vertices + faces + 1]:
        count = int(words[0])
        polygons.append([int(word) for word in words[1 : max(0, count) + 1]])
        if len(polygons[-1]) != count:
            raise ValueError(f"face {len(polygons)} promises {count} corners and has {len(polygons[-1])}")
    return Mesh(points, fan(polygons, vertices))
