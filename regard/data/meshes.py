"""Meshes in files: triangles of a surface, in .ply, .off, .obj, .stl and .glb, and the folders that hold them by class."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.data.array import Array
from regard.data.class_folders import ClassFile, find_by_class
from regard.data.glb import read_glb
from regard.data.surface import Mesh, Repairs, fan, repair_mesh
from regard.data.text_files import split_lines
from regard.errors import RegardError
from regard.files import most_unpacked, open_regular, read_bounded, readable_as

# ── OBJ: text; materials and textures, which are other files, are not opened


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


# ── OFF: text, vertices first, then faces


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


# ── STL: triangles by the places of their corners, as text or as bytes

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


# ── PLY: points, with faces or without, as text or as bytes in either order

CODES = ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8")
NAMES = ("char uchar short ushort int uint float double", "int8 uint8 int16 uint16 int32 uint32 float32 float64")
TYPES = {name: code for names in NAMES for name, code in zip(names.split(), CODES, strict=True)}
ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
CORNERS = ("vertex_indices", "vertex_index")  # both are common


class _Column(NamedTuple):
    """A property: a number of a type, or a list of them after its length."""

    name: str
    dtype: str
    length: str | None = None  # the type of the length, of a list


@dataclass(frozen=True)
class _Element:
    """What a file has many of: vertices, faces."""

    name: str
    count: int
    columns: list[_Column]

    @property
    def has_lists(self) -> bool:
        return any(column.length for column in self.columns)


def read_ply(data: bytes) -> Mesh:
    """Vertices with a label if there is one, and faces; all else is skipped."""
    head, end, body = data.partition(b"end_header")
    if not head.startswith(b"ply") or not end:
        raise ValueError("it must begin with 'ply' and have a line 'end_header'")
    elements, order = _header(head.decode("ascii", "replace"))
    wrong = next((each for each in elements if not 0 <= each.count <= len(data)), None)
    if wrong is not None:
        raise ValueError(f"it promises {wrong.count:,} of {wrong.name}, and has {len(data):,} bytes")
    numbers = _Numbers(body.partition(b"\n")[2], order)
    names: list[str] = []
    vertices, polygons = np.zeros((0, 0)), []
    for element in elements:
        if element.name == "vertex":
            if element.has_lists:
                raise ValueError("it has a list among the properties of its vertices")
            names, vertices = [column.name for column in element.columns], numbers.table(element)
        elif element.name == "face" and element.has_lists:
            polygons = numbers.polygons(element)
        elif element.has_lists:
            numbers.polygons(element)
        else:
            numbers.table(element)
    if order == "" and numbers.place < len(numbers.data):
        raise ValueError("it has more numbers than its header promises")
    if not {"x", "y", "z"} <= set(names):
        raise ValueError(f"its vertices must have x, y and z, they have: {', '.join(names) or 'nothing'}")
    points = vertices[:, [names.index(axis) for axis in "xyz"]]
    labels: Array | None = None
    if "label" in names:
        given = vertices[:, names.index("label")]
        unknown = np.isnan(given)
        if np.isinf(given).any() or (given != np.round(given))[~unknown].any():
            raise ValueError(
                "the labels of its vertices must be whole numbers, one for each class, or NaN where unknown"
            )
        labels = given if unknown.any() else given.astype(np.int64)
    return Mesh(points, fan(polygons, len(points)), labels)


def _header(text: str) -> tuple[list[_Element], str]:
    """The elements, and the order of bytes ("" for text)."""
    elements: list[_Element] = []
    order = None
    for line in text.splitlines():
        words = line.split()
        try:
            if words[:1] == ["format"]:
                order = ORDERS[words[1]]
            elif words[:1] == ["element"]:
                elements.append(_Element(words[1], int(words[2]), []))
            elif words[:2] == ["property", "list"]:
                elements[-1].columns.append(_Column(words[4], TYPES[words[3]], TYPES[words[2]]))
            elif words[:1] == ["property"]:
                elements[-1].columns.append(_Column(words[2], TYPES[words[1]]))
        except (KeyError, IndexError, ValueError):
            raise ValueError(f"its header has the line {line!r}, which is not valid") from None
    if order is None:
        raise ValueError(f"its header has no format: {', '.join(ORDERS)}")
    return elements, order


class _Numbers:
    """The numbers of a file, one after the other: as words, or as bytes in an order."""

    def __init__(self, body: bytes, order: str) -> None:
        self.data: Any = body if order else body.split()
        self.order, self.place = order, 0

    def take(self, dtype: Any, count: int) -> Array:
        """The next numbers of a type, or rows of several types."""
        end = self.place + count * (np.dtype(dtype).itemsize if self.order else 1)
        if not self.place <= end <= len(self.data):
            raise ValueError("it is cut off: it ends before all that its header promises")
        part = self.data[self.place : end]
        self.place = end
        if self.order:
            return np.frombuffer(part, np.dtype(dtype).newbyteorder(self.order), count)
        return np.array(part, dtype=np.float64)

    def table(self, element: _Element) -> Array:
        """Rows of numbers.   count columns"""
        width = len(element.columns)
        if not self.order:
            return self.take("f8", element.count * width).reshape(element.count, width)
        rows = self.take([(str(i), column.dtype) for i, column in enumerate(element.columns)], element.count)
        columns = [rows[str(i)].astype(np.float64) for i in range(width)]
        return np.array(columns).reshape(width, element.count).T

    def polygons(self, element: _Element) -> list[list[int]]:
        """The corners of each row."""
        found = []
        for _ in range(element.count):
            for name, dtype, length in element.columns:
                numbers = self.take(dtype, 1 if length is None else int(self.take(length, 1)[0]))
                if name in CORNERS:
                    found.append([int(number) for number in numbers.tolist()])
        return found


# ── files and folders

READERS: dict[str, Callable[[bytes], Mesh]] = {
    ".ply": read_ply,
    ".off": read_off,
    ".obj": read_obj,
    ".stl": read_stl,
    ".glb": read_glb,
}


def find_meshes(folder: str) -> list[ClassFile]:
    """All meshes in a folder: one folder per class, or without classes. Hidden files do not count."""
    return find_by_class(folder, READERS, "meshes")


def read_mesh(path: str) -> tuple[Mesh, Repairs]:
    """The surface of one file, repaired, and what was repaired."""
    if Path(path).suffix.lower() not in READERS:
        raise RegardError(f"{path} is not a mesh; give one of {', '.join(READERS)}")
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no file {path}")
    found = read_unrepaired(path, "a mesh")
    try:
        return repair_mesh(found)
    except RegardError as error:
        raise RegardError(f"{path}: {error}") from error


def read_unrepaired(path: str, what: str) -> Mesh:
    """The vertices and triangles of one file as they are. Each reader is given the bytes of one file, and opens
    nothing else."""
    try:
        with open_regular(path) as file:
            data = read_bounded(file, most_unpacked(), path)
    except OSError as error:
        raise RegardError(f"{path} cannot be read: {error.strerror or error}") from error
    with readable_as(path, what):
        return READERS[Path(path).suffix.lower()](data.removeprefix(b"\xef\xbb\xbf"))
