"""OFF files: a mesh as text, vertices first, then faces."""

from __future__ import annotations

import numpy as np

from regard.data.array import Array
from regard.data.surface import fan
from regard.data.text_files import read_lines
from regard.errors import RegardError

DIGITS = 12  # of a whole number that counts vertices or names one
Line = tuple[int, list[str]]


def read_off(path: str) -> tuple[Array, Array]:
    """Vertices v 3 and triangles f 3; a face with more corners becomes several."""
    lines = [
        (number, words)
        for number, line in enumerate(read_lines(path), 1)
        if (words := line.partition("#")[0].split())
    ]
    if not lines or not lines[0][1][0].upper().startswith("OFF"):
        raise RegardError(f"{path} is not an OFF file: its first line must be OFF")
    number, words = lines[0]
    # some write the counts on the first line, and even without a space between: OFF8 12 0
    rest = [word for word in (words[0][3:], *words[1:]) if word]
    lines = ([(number, rest)] if rest else []) + lines[1:]
    if not lines:
        raise RegardError(f"{path} is cut off: there is nothing after its first line")
    counts = _whole(lines[0], path, 2)[:2]
    if min(counts) < 0:
        raise RegardError(f"line {lines[0][0]} of {path} promises {counts[0]} vertices and {counts[1]} faces")
    vertices, faces = lines[1 : 1 + counts[0]], lines[1 + counts[0] : 1 + sum(counts)]
    if len(vertices) + len(faces) < sum(counts):
        raise RegardError(
            f"{path} is cut off: it promises {counts[0]} vertices and {counts[1]} faces, "
            f"and has {len(lines) - 1} lines for them"
        )
    points = np.array([_place(line, path) for line in vertices]).reshape(-1, 3)
    triangles = [_triangles(line, path, len(points)) for line in faces]
    return points, np.concatenate(triangles) if triangles else np.zeros((0, 3), dtype=np.int64)


def _place(line: Line, path: str) -> list[float]:
    number, words = line
    try:
        place = [float(word) for word in words[:3]]  # what follows are colours
    except ValueError:
        raise RegardError(
            f"line {number} of {path} must hold numbers, got {' '.join(words)[:60]!r}"
        ) from None
    if len(place) < 3:
        raise RegardError(f"line {number} of {path} has {len(place)} numbers, but a vertex has three")
    return place


def _triangles(line: Line, path: str, vertices: int) -> Array:
    count, *corners = _whole(line, path, 1)
    if count < 3 or len(corners) < count:
        raise RegardError(
            f"line {line[0]} of {path} must be a number of corners, at least three, and then as many vertices"
        )
    polygon = np.array(corners[:count])
    if polygon.min() < 0 or polygon.max() >= vertices:
        wrong = int(polygon.max() if polygon.max() >= vertices else polygon.min())
        raise RegardError(
            f"line {line[0]} of {path} names vertex {wrong}, but there are {vertices}, counted from 0"
        )
    return fan(polygon)


def _whole(line: Line, path: str, least: int) -> list[int]:
    """The whole numbers at the beginning of a line, up to the first word that is not one: colours may follow
    a face."""
    found: list[int] = []
    for word in line[1]:
        if not word.removeprefix("-").isdecimal() or len(word) > DIGITS:
            break
        found.append(int(word))
    if len(found) < least:
        raise RegardError(
            f"line {line[0]} of {path} must begin with {least} whole number{'s' * (least > 1)}, "
            f"got {' '.join(line[1])[:60]!r}"
        )
    return found
