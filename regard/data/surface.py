"""Points sampled on the surface of a mesh, uniform over its area."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from regard.data.array import Array


class Surface:
    """Triangles on which points can be sampled.   vertices: v 3, faces: f 3"""

    def __init__(self, vertices: Array, faces: Array) -> None:
        corners = vertices[faces]  # f 3 3
        sizes = areas(corners)
        if not sizes.sum() > 0:
            raise ValueError(f"a mesh needs a triangle with an area above 0, got {len(faces)} faces without area")
        self.corners, self.upto = corners[sizes > 0], np.cumsum(sizes[sizes > 0])

    def sample(self, count: int, random: np.random.Generator) -> Array:
        """`count` points, uniform over the surface.   count 3"""
        which = np.searchsorted(self.upto, random.random(count) * self.upto[-1], side="right")
        a, b, c = np.moveaxis(self.corners[which], 1, 0)
        # the root makes points uniform: without it they would crowd at the narrow tip of the triangle
        along, across = np.sqrt(random.random((count, 1))), random.random((count, 1))
        points: Array = (1 - along) * a + along * ((1 - across) * b + across * c)
        return points


def areas(corners: Array) -> Array:
    """Half the length of the cross product of two sides.   f 3 3 -> f"""
    a, b, c = np.moveaxis(corners, 1, 0)
    found: Array = np.linalg.norm(np.cross(b - a, c - a), axis=-1) / 2
    return found


def fan(polygons: Sequence[Sequence[int]], vertices: int) -> Array:
    """Polygons as triangles around their first corners, which are among so many vertices.   -> f 3"""
    triangles: list[tuple[int, int, int]] = []
    for number, polygon in enumerate(polygons, 1):
        if len(polygon) < 3:
            raise ValueError(f"face {number} has {len(polygon)} corners; a face needs at least three")
        if min(polygon) < 0 or max(polygon) >= vertices:
            raise ValueError(f"face {number} names a vertex that is not there; it has {vertices:,} vertices")
        triangles += [(polygon[0], b, c) for b, c in pairwise(polygon[1:])]
    return np.array(triangles, dtype=np.int64).reshape(-1, 3)


def random_turns(count: int, random: np.random.Generator, *, upright: bool = False) -> Array:
    """Rotation matrices, uniform over SO(3), or over the turns about the third axis.   count 3 3"""
    if upright:
        angle = random.random(count) * 2 * np.pi
        w, x, y, z = np.cos(angle / 2), np.zeros(count), np.zeros(count), np.sin(angle / 2)
    else:
        q = random.normal(size=(4, count))  # a direction in four dimensions is a turn in three
        w, x, y, z = q / np.linalg.norm(q, axis=0)
    return np.moveaxis(rotation(w, x, y, z), -1, 0)


def rotation(w: Any, x: Any, y: Any, z: Any) -> Array:
    """The rotation matrix of a unit quaternion, or of several.   ... -> 3 3 ..."""
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return np.array(rows)
