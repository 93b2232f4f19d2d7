"""GLB files: the binary form of glTF 2.0. Only what is in the file itself is read: nothing that it refers to is opened.

Triangles of all meshes of the scene are put where its nodes say. Colours, textures, skins and animations are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.data.surface import Mesh, rotation
from regard.files import most_unpacked

MAGIC, JSON, BINARY = b"glTF", b"JSON", b"BIN\0"
# the kinds of numbers that name vertices, and those of places
WHOLE, REAL = {5121: "<u1", 5123: "<u2", 5125: "<u4"}, {5126: "<f4"}
TRIANGLES, STRIP, FAN = 4, 5, 6
DEEPEST = 64  # nodes inside nodes
MOST_NODES = 100_000  # nodes that are placed, of a scene that shows some several times
EACH = 24  # bytes of a vertex, and of a triangle


def read_glb(data: bytes) -> Mesh:
    """The whole scene as one mesh."""
    scene = _Scene(*_chunks(data))
    points, faces = [np.zeros((0, 3))], [np.zeros((0, 3), dtype=np.int64)]
    count = size = 0
    for mesh, matrix in scene.placed():
        for vertices, triangles in scene.primitives(mesh):
            mirrored = np.linalg.det(matrix[:3, :3]) < 0
            points.append(vertices @ matrix[:3, :3].T + matrix[:3, 3])
            faces.append((triangles[:, ::-1] if mirrored else triangles) + count)
            count += len(vertices)
            size += EACH * (len(vertices) + len(triangles))
            if size > most_unpacked():
                raise ValueError(f"its nodes show {count:,} vertices or more, too many for the memory")
    return Mesh(np.concatenate(points), np.concatenate(faces))


def _chunks(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The description of the scene, and the numbers that it speaks of."""
    if data[:4] != MAGIC or len(data) < 20:
        raise ValueError("it must begin with 'glTF'")
    version, whole = (int.from_bytes(data[at : at + 4], "little") for at in (4, 8))
    if version != 2:
        raise ValueError(f"it is glTF {version}; only version 2 can be read")
    found: dict[bytes, bytes] = {}
    place = 12
    while place + 8 <= whole:
        size, kind = int.from_bytes(data[place : place + 4], "little"), data[place + 4 : place + 8]
        place += 8 + size
        if place > min(whole, len(data)):
            raise ValueError(f"it is cut off: it promises {max(place, whole):,} bytes and has {len(data):,}")
        found.setdefault(kind, data[place - size : place])
    return json.loads(found.get(JSON, b"").rstrip(b"\0 ")), found.get(BINARY, b"")


class _Scene:
    """What the description says. It may name what is not there."""

    def __init__(self, content: dict[str, Any], binary: bytes) -> None:
        self.content, self.binary = content, binary

    def item(self, kind: str, number: Any) -> dict[str, Any]:
        """An entry of one of the lists of the description."""
        entries = self.content.get(kind, [])
        if type(number) is not int or not isinstance(entries, list) or not 0 <= number < len(entries):
            raise ValueError(f"it refers to number {number!r} of its {kind}, which is not there")
        found: dict[str, Any] = entries[number]
        return found

    def placed(self) -> list[tuple[Any, Array]]:
        """The meshes of the scene, each with the matrix that puts it in its place."""
        if "scenes" not in self.content:
            return [(mesh, np.eye(4)) for mesh in range(len(self.content.get("meshes", [])))]
        scene = self.item("scenes", self.content.get("scene", 0))
        waiting = [(number, np.eye(4), 0) for number in scene.get("nodes", [])]
        found = []
        done = 0
        while waiting:
            number, above, depth = waiting.pop()
            done += 1
            if depth > DEEPEST or done + len(waiting) > MOST_NODES:
                raise ValueError("it has nodes inside nodes without end")
            node = self.item("nodes", number)
            matrix = above @ _matrix(node)
            if "mesh" in node:
                found.append((node["mesh"], matrix))
            waiting += [(child, matrix, depth + 1) for child in node.get("children", [])]
        return found

    def primitives(self, mesh: Any) -> Iterator[tuple[Array, Array]]:
        """Vertices and triangles of each part of a mesh; points and lines are left out."""
        for part in self.item("meshes", mesh).get("primitives", []):
            if "KHR_draco_mesh_compression" in part.get("extensions", {}):
                raise ValueError("it is compressed (Draco); save it without compression")
            mode = part.get("mode", TRIANGLES)
            if mode not in (TRIANGLES, STRIP, FAN):
                continue
            vertices = self.accessor(part["attributes"].get("POSITION"), "VEC3").astype(np.float64)
            if "indices" in part:
                order = self.accessor(part["indices"], "SCALAR")[:, 0].astype(np.int64)
            else:
                order = np.arange(len(vertices))
            if len(order) and order.max() >= len(vertices):
                raise ValueError(f"mesh {mesh} names vertex {order.max()}, but there are {len(vertices)}")
            yield vertices, _triangles(order, mode)

    def accessor(self, number: Any, form: str) -> Array:
        """A table of numbers.   count width"""
        entry = self.item("accessors", number)
        kinds, width = (REAL, 3) if form == "VEC3" else (WHOLE, 1)
        if entry["type"] != form or entry["componentType"] not in kinds or "sparse" in entry:
            raise ValueError(f"number {number} of its accessors must be {form} of a usual kind, and not sparse")
        view = self.item("bufferViews", entry.get("bufferView"))
        if "uri" in self.item("buffers", view.get("buffer")):
            raise ValueError("it keeps its numbers in another file; save it as one .glb")
        dtype = np.dtype(kinds[entry["componentType"]])
        row, count = dtype.itemsize * width, entry["count"]
        step = view.get("byteStride", row)
        start = view.get("byteOffset", 0) + entry.get("byteOffset", 0)
        if count == 0:
            return np.zeros((0, width))
        if start < 0 or step < row or start + step * (count - 1) + row > len(self.binary):
            raise ValueError(f"it is cut off: number {number} of its accessors promises {count:,} rows")
        return np.ndarray((count, width), dtype, self.binary, start, (step, dtype.itemsize))


def _matrix(node: dict[str, Any]) -> Array:
    """Where a node is, within the one above it."""
    if "matrix" in node:
        return np.array(node["matrix"], dtype=np.float64).reshape(4, 4).T
    turn = np.reshape(node.get("rotation", (0, 0, 0, 1)), 4)
    x, y, z, w = turn / (np.linalg.norm(turn) or 1.0)
    found = np.eye(4)
    found[:3, :3] = rotation(w, x, y, z) * np.reshape(node.get("scale", (1, 1, 1)), 3)
    found[:3, 3] = np.reshape(node.get("translation", (0, 0, 0)), 3)
    return found


def _triangles(order: Array, mode: int) -> Array:
    """Corners one after the other, as a strip, or around the first.   k -> f 3"""
    if mode == TRIANGLES:
        return order[: len(order) // 3 * 3].reshape(-1, 3)
    if len(order) < 3:
        return np.zeros((0, 3), dtype=np.int64)
    if mode == FAN:
        return np.stack((np.full(len(order) - 2, order[0]), order[1:-1], order[2:]), -1)
    strip = np.stack((order[:-2], order[1:-1], order[2:]), -1)
    strip[1::2] = strip[1::2, [1, 0, 2]]  # every second one runs the other way
    return strip
