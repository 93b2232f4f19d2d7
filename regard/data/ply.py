"""PLY files: points, with faces or without, written as text or as bytes in either order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from regard.data.array import Array
from regard.data.mesh_repair import Mesh
from regard.data.surface import fan

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
        if not (np.isfinite(given) & (given == np.round(given))).all():
            raise ValueError("the labels of its vertices must be whole numbers, one for each class")
        labels = given.astype(np.int64)
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
