"""Points sampled on the surface of a mesh, uniform over its area."""

from __future__ import annotations

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError


class Surface:
    """Triangles on which points can be sampled.   vertices: v 3, faces: f 3"""

    def __init__(self, vertices: Array, faces: Array) -> None:
        corners = vertices[faces]  # f 3 3
        sizes = areas(corners)
        if not sizes.sum() > 0:
            raise RegardError(
                f"a mesh needs at least one triangle with an area above 0, got {len(faces)} faces without "
                "area"
            )
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
    found: Array = (
        np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=-1) / 2
    )
    return found


def fan(polygon: Array) -> Array:
    """A polygon of k corners as k − 2 triangles around its first.   k -> k−2 3"""
    first = np.full(len(polygon) - 2, polygon[0])
    return np.stack((first, polygon[1:-1], polygon[2:]), axis=-1)


def random_turns(count: int, random: np.random.Generator, *, upright: bool = False) -> Array:
    """Rotation matrices, uniform over SO(3), or over the turns about the third axis.   count 3 3"""
    if upright:
        angle = random.random(count) * 2 * np.pi
        w, x, y, z = np.cos(angle / 2), np.zeros(count), np.zeros(count), np.sin(angle / 2)
    else:
        q = random.normal(size=(4, count))  # a direction in four dimensions is a turn in three
        w, x, y, z = q / np.linalg.norm(q, axis=0)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return np.moveaxis(np.array(rows), -1, 0)
