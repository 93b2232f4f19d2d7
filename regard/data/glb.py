"""GLB files: the binary form of glTF 2.0. Only what is in the file itself is read: nothing that it refers to is opened.

Triangles of all meshes of the scene are put where its nodes say. Colours, textures, skins and animations are left out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError
from regard.files import most_unpacked, open_regular, parse_json, read_bounded

MAGIC, JSON, BINARY = b"glTF", b"JSON", b"BIN\0"
NUMBERS: dict[Any, str] = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WHOLE, REAL = (5121, 5123, 5125), (5126,)  # kinds of numbers that name vertices, and of places
TRIANGLES, STRIP, FAN = 4, 5, 6
DEEPEST = 64  # nodes inside nodes
MOST_NODES = 100_000  # nodes that are placed, of a scene that shows some several times


def read_glb(path: str) -> tuple[Array, Array]:
    """Vertices v 3 and triangles f 3, of the whole scene."""
    with open_regular(path) as file:
        data = read_bounded(file, most_unpacked(), path)
    content, binary = _chunks(data, path)
    scene = _Scene(content, binary, path)
    points: list[Array] = [np.zeros((0, 3))]
    faces: list[Array] = [np.zeros((0, 3), dtype=np.int64)]
    count = 0
    for mesh, matrix in scene.placed():
        for vertices, triangles in scene.primitives(mesh):
            moved = vertices @ matrix[:3, :3].T + matrix[:3, 3]
            mirrored = np.linalg.det(matrix[:3, :3]) < 0
            points.append(moved)
            faces.append((triangles[:, ::-1] if mirrored else triangles) + count)
            count += len(vertices)
    return np.concatenate(points), np.concatenate(faces)


def _chunks(data: bytes, path: str) -> tuple[dict[str, Any], bytes]:
    """The description of the scene, and the numbers that it speaks of."""
    if data[:4] != MAGIC or len(data) < 20:
        raise RegardError(f"{path} is not a GLB file: it must begin with 'glTF'")
    version, whole = (int.from_bytes(data[at : at + 4], "little") for at in (4, 8))
    if version != 2:
        raise RegardError(f"{path} is glTF {version}; only version 2 can be read")
    if whole > len(data):
        raise RegardError(f"{path} is cut off: it promises {whole:,} bytes and has {len(data):,}")
    found: dict[bytes, bytes] = {}
    place = 12
    while place + 8 <= whole:
        size, kind = int.from_bytes(data[place : place + 4], "little"), data[place + 4 : place + 8]
        if place + 8 + size > whole:
            raise RegardError(
                f"{path} is damaged: a part of {size:,} bytes at byte {place} goes on after its end"
            )
        found.setdefault(kind, data[place + 8 : place + 8 + size])
        place += 8 + size
    content = parse_json(found.get(JSON, b"").rstrip(b"\0 "), path)
    if not isinstance(content, dict):
        raise RegardError(f"{path} has no description of a scene")
    return content, found.get(BINARY, b"")


class _Scene:
    """What the description says. Whatever it says is looked up with care: it may name what is not there."""

    def __init__(self, content: dict[str, Any], binary: bytes, path: str) -> None:
        self.content, self.binary, self.path = content, binary, path

    def item(self, kind: str, number: Any) -> dict[str, Any]:
        """An entry of one of the lists of the description."""
        entries = self.content.get(kind, [])
        if type(number) is not int or not isinstance(entries, list) or not 0 <= number < len(entries):
            raise RegardError(f"{self.path} refers to number {number!r} of its {kind}, which is not there")
        if not isinstance(entries[number], dict):
            raise RegardError(f"number {number} of the {kind} of {self.path} is no object")
        return entries[number]

    def placed(self) -> list[tuple[Any, Array]]:
        """The meshes of the scene, each with the matrix that puts it in its place."""
        if "scenes" not in self.content:
            return [(mesh, np.eye(4)) for mesh in range(len(self.content.get("meshes", [])))]
        scene = self.item("scenes", self.content.get("scene", 0))
        waiting = [(node, np.eye(4), 0) for node in self.whole_numbers(scene, "nodes")]
        found = []
        done = 0
        while waiting:
            number, above, depth = waiting.pop()
            done += 1
            if depth > DEEPEST or done > MOST_NODES:
                raise RegardError(f"{self.path} has nodes inside nodes without end")
            node = self.item("nodes", number)
            matrix = above @ self.matrix(node)
            if "mesh" in node:
                found.append((node["mesh"], matrix))
            waiting += [(child, matrix, depth + 1) for child in self.whole_numbers(node, "children")]
        return found

    def matrix(self, node: dict[str, Any]) -> Array:
        if "matrix" in node:
            return self.numbers(node, "matrix", 16, None).reshape(4, 4).T
        x, y, z, w = self.numbers(node, "rotation", 4, (0, 0, 0, 1))
        size = math.sqrt(x * x + y * y + z * z + w * w) or 1.0
        x, y, z, w = x / size, y / size, z / size, w / size
        turn = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
        )
        found = np.eye(4)
        found[:3, :3] = turn * self.numbers(node, "scale", 3, (1, 1, 1))
        found[:3, 3] = self.numbers(node, "translation", 3, (0, 0, 0))
        return found

    def numbers(self, node: dict[str, Any], name: str, count: int, usual: Any) -> Array:
        given = node.get(name, usual)
        real = isinstance(given, list | tuple) and all(type(each) in (int, float) for each in given)
        if not real or len(given) != count:
            raise RegardError(f"a node of {self.path} must have {count} numbers as its {name}")
        return np.array(given, dtype=np.float64)

    def whole_numbers(self, entry: dict[str, Any], name: str) -> list[int]:
        given = entry.get(name, [])
        if not isinstance(given, list):
            raise RegardError(f"{name} in {self.path} must be a list of whole numbers")
        return given

    def primitives(self, mesh: Any) -> list[tuple[Array, Array]]:
        """Vertices and triangles of each part of a mesh; points and lines are left out."""
        found: list[tuple[Array, Array]] = []
        for part in self.whole_numbers(self.item("meshes", mesh), "primitives"):
            if not isinstance(part, dict) or not isinstance(part.get("attributes"), dict):
                raise RegardError(f"mesh {mesh} of {self.path} has a part without attributes")
            if "KHR_draco_mesh_compression" in part.get("extensions", {}):
                raise RegardError(f"{self.path} is compressed (Draco); save it without compression")
            mode = part.get("mode", TRIANGLES)
            if mode not in (TRIANGLES, STRIP, FAN):
                continue
            vertices = self.accessor(part["attributes"].get("POSITION"), 3).astype(np.float64)
            if "indices" in part:
                order = self.accessor(part["indices"], 1)[:, 0].astype(np.int64)
            else:
                order = np.arange(len(vertices))
            if len(order) and order.max() >= len(vertices):
                raise RegardError(
                    f"mesh {mesh} of {self.path} names vertex {order.max()}, but there are {len(vertices)}"
                )
            found.append((vertices, _triangles(order, mode)))
        return found

    def accessor(self, number: Any, width: int) -> Array:
        """A table of numbers.   count width"""
        entry = self.item("accessors", number)
        wanted = {1: "SCALAR", 3: "VEC3"}[width]
        if entry.get("type") != wanted or "sparse" in entry:
            raise RegardError(
                f"number {number} of the accessors of {self.path} must be {wanted}, and not sparse"
            )
        kind, count = entry.get("componentType"), entry.get("count")
        wanted_kinds = WHOLE if width == 1 else REAL
        if kind not in wanted_kinds or type(count) is not int or count < 0:
            raise RegardError(
                f"number {number} of the accessors of {self.path} has numbers of an unknown kind"
            )
        view = self.item("bufferViews", entry.get("bufferView"))
        if "uri" in self.item("buffers", view.get("buffer")):
            raise RegardError(f"{self.path} keeps its numbers in another file; save it as one .glb")
        dtype = np.dtype(NUMBERS[kind])
        row = dtype.itemsize * width
        step = view.get("byteStride", row)
        starts = (view.get("byteOffset", 0), entry.get("byteOffset", 0), step)
        if any(type(each) is not int or each < 0 for each in starts) or step < row:
            raise RegardError(f"number {number} of the accessors of {self.path} lies at no possible place")
        start = starts[0] + starts[1]
        if count and start + step * (count - 1) + row > len(self.binary):
            raise RegardError(
                f"{self.path} is cut off: number {number} of its accessors promises {count:,} rows, which are not there"
            )
        if not count:
            return np.zeros((0, width))
        return np.ndarray((count, width), dtype, self.binary, start, (step, dtype.itemsize))


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
