"""Surfaces of triangles: points sampled on them, and how a mesh of a file becomes one."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError


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


# ── the surface that the triangles of a file make. They agree which side is up, and lie one after the other
# around each vertex; where they cannot, the surface is cut, and the cut is a border


@dataclass(frozen=True, eq=False)
class Mesh:
    """points n 3, faces f 3 with corners counter-clockwise, and a label for each vertex if there are labels."""

    points: Array
    faces: Array
    labels: Array | None = None


@dataclass(frozen=True)
class Repairs:
    """What was done to a mesh, in numbers."""

    merged: int = 0  # vertices at the place of another
    isolated: int = 0  # vertices without a triangle, left out
    degenerate: int = 0  # triangles with the same corner twice, left out
    double: int = 0  # triangles that were there already, left out
    turned: int = 0  # triangles whose other side is up now
    cut: int = 0  # edges along which the surface was cut: more than two triangles, or a twist
    split: int = 0  # vertices that were added where the surface was cut

    def __add__(self, other: Repairs) -> Repairs:
        return Repairs(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    @property
    def sentence(self) -> str | None:
        """In words, without what changes nothing about the surface."""
        said = []
        if self.isolated:
            said.append(f"left out: {_count(self.isolated, 'vertex', 'vertices')} without a triangle")
        if self.degenerate + self.double:
            flat = _count(self.degenerate + self.double, "triangle", "triangles")
            said.append(f"left out: {flat} with the same corner twice, or listed twice")
        if self.turned:
            said.append(f"turned over: {_count(self.turned, 'triangle', 'triangles')}")
        if self.cut:
            edges = _count(self.cut, "edge", "edges")
            said.append(f"cut: along {edges} where more than two triangles meet, or that twist the surface")
        elif self.split:
            split = _count(self.split, "vertex", "vertices")
            said.append(f"split: {split} where triangles touch only at a corner")
        return "; ".join(said) or None


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def repair_mesh(mesh: Mesh) -> tuple[Mesh, Repairs]:
    """The same surface, made of triangles in order; vertices that are not needed are left out."""
    points, faces, labels = np.asarray(mesh.points, dtype=np.float64), np.asarray(mesh.faces), mesh.labels
    if not len(faces):
        raise RegardError("a mesh needs triangles, got none; point clouds are for regard train sets")
    if not np.isfinite(points).all():
        raise RegardError(f"vertex {int(np.flatnonzero(~np.isfinite(points).all(1))[0])} has NaN or infinity")
    points, faces, labels, merged = _merge(points, faces, labels)
    used = np.unique(faces)
    isolated = len(points) - len(used)
    flat = (faces == np.roll(faces, 1, 1)).any(1)
    faces = faces[~flat]
    _, first = np.unique(np.sort(faces, 1), axis=0, return_index=True)
    double = len(faces) - len(first)
    faces = faces[np.sort(first)]
    if not len(faces):
        raise RegardError("all triangles have the same corner twice, so there is no surface")
    faces, joined, turned, cut = _orient(faces)
    origin, faces = _split(faces, joined)
    faces = _outward(points[origin], faces, joined)
    split = len(origin) - len(np.unique(origin))
    if labels is not None:
        labels = labels[origin]
    if not areas(points[origin][faces]).max() > 0:
        raise RegardError("all triangles have an area of 0, so there is no surface")
    done = Repairs(merged, isolated, int(flat.sum()), double, turned, cut, split)
    return Mesh(points[origin], faces, labels), done


def _merge(points: Array, faces: Array, labels: Array | None) -> tuple[Array, Array, Array | None, int]:
    """Vertices at the very same place become one: .stl has three for each triangle, and seams of textures double."""
    _, first, which = np.unique(points + 0.0, axis=0, return_index=True, return_inverse=True)
    merged = len(points) - len(first)
    if not merged:
        return points, faces, labels, 0
    order = np.argsort(first)  # as they came
    place = np.empty(len(first), dtype=np.int64)
    place[order] = np.arange(len(first))
    kept = first[order]
    return points[kept], place[which.reshape(-1)][faces], None if labels is None else labels[kept], merged


def _orient(faces: Array) -> tuple[Array, list[tuple[int, int, int, int]], int, int]:
    """Triangles that agree with their neighbours, and the edges over which they do: (face, face, vertex, vertex)."""
    at_edge: dict[tuple[int, int], list[tuple[int, bool]]] = defaultdict(list)
    for number, (a, b, c) in enumerate(faces.tolist()):
        for i, j in ((a, b), (b, c), (c, a)):
            at_edge[(i, j) if i < j else (j, i)].append((number, i < j))
    beside: list[list[tuple[int, bool]]] = [[] for _ in range(len(faces))]
    for sides in at_edge.values():
        if len(sides) == 2:
            (one, up), (two, also) = sides
            beside[one].append((two, up == also))  # both the same way: one of them is upside down
            beside[two].append((one, up == also))
    turned = np.full(len(faces), -1)
    for start in range(len(faces)):
        if turned[start] >= 0:
            continue
        turned[start] = 0
        waiting, part = deque([start]), [start]
        while waiting:
            here = waiting.popleft()
            for there, differs in beside[here]:
                if turned[there] < 0:
                    turned[there] = turned[here] ^ differs
                    waiting.append(there)
                    part.append(there)
        if 2 * turned[part].sum() > len(part):  # the smaller half is turned over
            turned[part] = 1 - turned[part]
    joined, cut = [], 0
    for (i, j), sides in at_edge.items():
        if len(sides) == 2:
            (one, up), (two, also) = sides
            if (up ^ bool(turned[one])) != (also ^ bool(turned[two])):
                joined.append((one, two, i, j))
                continue
        cut += len(sides) > 1
    flipped = turned == 1
    faces = np.where(flipped[:, None], faces[:, ::-1], faces)
    return faces, joined, int(flipped.sum()), cut


def _split(faces: Array, joined: list[tuple[int, int, int, int]]) -> tuple[Array, Array]:
    """Corners that hang together are one vertex: which vertex each was, and the triangles of the new ones."""
    label = np.arange(faces.size).reshape(faces.shape)  # of each corner
    if joined:
        one, two, i, j = np.array(joined).T
        pairs = []
        for vertex in (i, j):
            here = label[one, (faces[one] == vertex[:, None]).argmax(1)]
            there = label[two, (faces[two] == vertex[:, None]).argmax(1)]
            pairs.append(np.stack((here, there)))
        ends = np.concatenate(pairs, 1)
        root = np.arange(faces.size)
        while True:
            low = np.minimum(root[ends[0]], root[ends[1]])
            if (low == root[ends[0]]).all() and (low == root[ends[1]]).all():
                break
            for side in ends:
                np.minimum.at(root, root[side], low)
            root = root[root]
        label = root.reshape(faces.shape)
    kept, which = np.unique(label, return_inverse=True)
    origin = faces.reshape(-1)[kept]
    order = np.argsort(origin, kind="stable")  # as they were
    place = np.empty(len(kept), dtype=np.int64)
    place[order] = np.arange(len(kept))
    return origin[order], place[which.reshape(faces.shape)]


def _outward(points: Array, faces: Array, joined: list[tuple[int, int, int, int]]) -> Array:
    """A closed surface has its triangles seen from outside: what it holds has a volume above 0."""
    if 2 * len(joined) < 3 * len(faces):  # it has a border
        return faces
    a, b, c = np.moveaxis((points - points.mean(0))[faces], 1, 0)
    volume = (np.cross(a, b) * c).sum()
    found: Array = faces[:, ::-1].copy() if volume < 0 else faces
    return found
