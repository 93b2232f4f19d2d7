"""PLY files: points, with faces or without, written as text or as bytes in either order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from regard.data.array import Array
from regard.data.surface import fan
from regard.errors import RegardError
from regard.files import most_unpacked, open_regular, read_bounded

TYPES = {
    "char": "i1",
    "uchar": "u1",
    "short": "i2",
    "ushort": "u2",
    "int": "i4",
    "uint": "u4",
    "float": "f4",
    "double": "f8",
    "int8": "i1",
    "uint8": "u1",
    "int16": "i2",
    "uint16": "u2",
    "int32": "i4",
    "uint32": "u4",
    "float32": "f4",
    "float64": "f8",
}
ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


class Column(NamedTuple):
    """A property: a number of a type, or a list of them after its length."""

    name: str
    dtype: str
    length: str | None = None  # the type of the length, of a list


@dataclass
class Element:
    """What a file has many of: vertices, faces."""

    name: str
    count: int
    columns: list[Column] = field(default_factory=list)


class Ply(NamedTuple):
    """The content of a file: vertices v d with the names of their columns, and triangles f 3 (none: points
    only)."""

    names: tuple[str, ...]
    vertices: Array
    faces: Array


def read_ply(path: str) -> Ply:
    """Vertices and faces; all other elements are skipped."""
    with open_regular(path) as file:
        data = read_bounded(file, most_unpacked(), path)
    elements, order, start, line = _header(data, path)
    if not any(element.name == "vertex" for element in elements):
        raise RegardError(f"{path} has no points: its header has no element vertex")
    if order == "":
        reader: _Text | _Bytes = _Text(data[start:], path, line)
    else:
        reader = _Bytes(data[start:], path, order)
    names: tuple[str, ...] = ()
    vertices, faces = np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64)
    for element in elements:
        if element.name == "vertex":
            if any(column.length for column in element.columns):
                raise RegardError(
                    f"{path} has a list among the properties of its vertices; only numbers can be read there"
                )
            names = tuple(column.name for column in element.columns)
            vertices = reader.rows(element)
        elif element.name == "face" and any(
            column.name in ("vertex_indices", "vertex_index") for column in element.columns
        ):
            faces = _triangles(reader.lists(element), path)
        else:
            reader.skip(element)
    if len(faces) and not (faces.min() >= 0 and faces.max() < len(vertices)):
        wrong = int(faces.max() if faces.max() >= len(vertices) else faces.min())
        raise RegardError(
            f"{path} has a face with corner {wrong}, but there are {len(vertices)} vertices, counted from 0"
        )
    return Ply(names, vertices, faces)


def _header(data: bytes, path: str) -> tuple[list[Element], str, int, int]:
    """The elements, the order of bytes ("" for text), and where the header ends: byte and line."""
    end = data.find(b"end_header")
    if not data.startswith(b"ply") or end < 0:
        raise RegardError(f"{path} is not a PLY file: it must begin with 'ply' and have a line 'end_header'")
    lines = data[:end].decode("ascii", "replace").splitlines()
    elements, order = [], None
    for number, line in enumerate(lines, 1):
        words = line.split()
        try:
            if words[:1] == ["format"]:
                order = ORDERS[words[1]]
            elif words[:1] == ["element"]:
                elements.append(Element(words[1], int(words[2])))
            elif words[:2] == ["property", "list"]:
                elements[-1].columns.append(Column(words[4], TYPES[words[3]], TYPES[words[2]]))
            elif words[:1] == ["property"]:
                elements[-1].columns.append(Column(words[2], TYPES[words[1]]))
        except (KeyError, IndexError, ValueError):
            raise RegardError(f"line {number} of {path} is not valid in a PLY header: {line!r}") from None
    wrong = next((each for each in elements if not 0 <= each.count <= len(data)), None)
    if wrong is not None:
        raise RegardError(
            f"the header of {path} promises {str(wrong.count)[:20]} of {wrong.name}, and the file has "
            f"{len(data):,} bytes; it is cut off or damaged"
        )
    if order is None:
        raise RegardError(
            f"the header of {path} has no format: ascii, binary_little_endian or binary_big_endian"
        )
    after = data.find(b"\n", end)
    return elements, order, len(data) if after < 0 else after + 1, len(lines) + 1


def _triangles(polygons: list[Array], path: str) -> Array:
    for polygon in polygons:
        if len(polygon) < 3:
            raise RegardError(f"{path} has a face with {len(polygon)} corners; a face needs at least three")
    if polygons:
        return np.concatenate([fan(polygon) for polygon in polygons])
    return np.zeros((0, 3), dtype=np.int64)


class _Text:
    """Elements one line each."""

    def __init__(self, data: bytes, path: str, line: int) -> None:
        self.lines = [
            (number, words)
            for number, text in enumerate(data.splitlines(), line + 1)
            if (words := text.split())
        ]
        self.path, self.place = path, 0

    def rows(self, element: Element) -> Array:
        rows = []
        for number, words in self._take(element):
            if len(words) != len(element.columns):
                raise RegardError(
                    f"line {number} of {self.path} has {len(words)} numbers, "
                    f"but a {element.name} has {len(element.columns)}"
                )
            rows.append(self._numbers(number, words))
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(element.columns))

    def lists(self, element: Element) -> list[Array]:
        found = []
        for number, words in self._take(element):
            numbers, place = self._numbers(number, words), 0
            for column in element.columns:
                if column.length and place < len(numbers):
                    size = int(numbers[place])
                else:
                    size = 1
                first = place + (column.length is not None)
                place = first + size
                if place > len(numbers) or size < 0:
                    raise RegardError(f"line {number} of {self.path} ends too soon for a {element.name}")
                if column.name in ("vertex_indices", "vertex_index"):
                    found.append(np.array(numbers[first:place], dtype=np.int64))
        return found

    def skip(self, element: Element) -> None:
        self._take(element)

    def _take(self, element: Element) -> list[tuple[int, list[bytes]]]:
        taken = self.lines[self.place : self.place + element.count]
        if len(taken) < element.count:
            raise RegardError(
                f"{self.path} is cut off: it promises {element.count} of {element.name} and has {len(taken)}"
            )
        self.place += element.count
        return taken

    def _numbers(self, number: int, words: list[bytes]) -> list[float]:
        try:
            return [float(word) for word in words]
        except ValueError:
            said = b" ".join(words)[:60].decode("utf-8", "replace")
            raise RegardError(f"line {number} of {self.path} must hold numbers, got {said!r}") from None


class _Bytes:
    """Elements as bytes, one after the other."""

    def __init__(self, data: bytes, path: str, order: str) -> None:
        self.data, self.path, self.order, self.place = data, path, order, 0

    def rows(self, element: Element) -> Array:
        table = self._table(element)
        return np.stack([table[f"{i}"].astype(np.float64) for i in range(len(element.columns))], -1)

    def lists(self, element: Element) -> list[Array]:
        found = []
        for _ in range(element.count):
            for column in element.columns:
                if column.length:
                    size = int(self._numbers(column.length, 1, element)[0])
                else:
                    size = 1
                numbers = self._numbers(column.dtype, size, element)
                if column.name in ("vertex_indices", "vertex_index"):
                    found.append(numbers.astype(np.int64))
        return found

    def skip(self, element: Element) -> None:
        if any(column.length for column in element.columns):
            self.lists(element)
        else:
            self._table(element)

    def _table(self, element: Element) -> Array:
        dtype = np.dtype([(f"{i}", self.order + column.dtype) for i, column in enumerate(element.columns)])
        return self._read(dtype, element.count, element)

    def _numbers(self, dtype: str, count: int, element: Element) -> Array:
        return self._read(np.dtype(self.order + dtype), count, element)

    def _read(self, dtype: np.dtype[np.generic], count: int, element: Element) -> Array:
        if count < 0 or self.place + count * dtype.itemsize > len(self.data):
            raise RegardError(f"{self.path} is cut off: it ends within its {element.count} of {element.name}")
        found = np.frombuffer(self.data, dtype, count, self.place)
        self.place += count * dtype.itemsize
        return found
