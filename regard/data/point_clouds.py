"""Point clouds in files: NumPy arrays, tables of numbers, and meshes, whose surface is sampled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data.array import Array
from regard.data.class_folders import ClassFile, find_by_class
from regard.data.dialect import DEFAULTS, TableConfig
from regard.data.meshes import read_unrepaired
from regard.data.surface import Surface
from regard.data.tables import read_table
from regard.errors import RegardError
from regard.files import open_regular, read_array, read_arrays, readable_as

SAMPLED = 1024  # points of the surface of a mesh, unless somebody wants more
TOLD = 3  # files of many whose notes are told


class Cloud(NamedTuple):
    """A point cloud: points n d, a label for each point if there are labels, and how its table was read."""

    points: Array
    labels: Array | None = None
    notes: tuple[str, ...] = ()


def find_clouds(folder: str) -> list[ClassFile]:
    """All point clouds in a folder: one folder per class, or without classes. Hidden files do not count."""
    return find_by_class(folder, READERS, "point clouds")


def join_notes(notes: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What is told of many files: the notes of the first that have some."""
    some = [each for each in notes if each]
    more = f"{len(some) - TOLD:,} more files are told of when they are read alone"
    return (*(note for each in some[:TOLD] for note in each), *((more,) if len(some) > TOLD else ()))


def read_cloud(
    path: str, count: int | None, random: np.random.Generator, *, sampled: int = SAMPLED, config: TableConfig = DEFAULTS
) -> Cloud:
    """The points of one file, at most `count`, drawn by `random`; from a mesh exactly `count` (None: all of a file,
    `sampled` of the surface of a mesh)."""
    suffix = Path(path).suffix.lower()
    if suffix not in READERS:
        raise RegardError(f"{path} is not a point cloud; give one of {', '.join(READERS)}")
    try:
        with readable_as(path, "a point cloud"):
            cloud = READERS[suffix](path, count or sampled, random, config)
    except OSError as error:
        raise RegardError(f"{path} cannot be read: {error.strerror or error}") from error
    if not np.isfinite(cloud.points).all():
        row = int(np.flatnonzero(~np.isfinite(cloud.points).all(1))[0])
        raise RegardError(f"{path} has NaN or infinity in point {row + 1}; remove the point")
    if count is None or len(cloud.points) <= count:
        return cloud
    kept = np.sort(random.permutation(len(cloud.points))[:count])
    return Cloud(cloud.points[kept], None if cloud.labels is None else cloud.labels[kept], cloud.notes)


# ── each kind of file


def _npy(path: str, count: int, random: np.random.Generator, config: TableConfig) -> Cloud:
    with open_regular(path) as file:
        if file.read(2) == b"PK":
            raise RegardError(f"{path} holds several arrays; rename it to end in .npz")
    return Cloud(_points(read_array(path), path))


def _npz(path: str, count: int, random: np.random.Generator, config: TableConfig) -> Cloud:
    """Arrays `points` n d and, for a label of each point, `labels` n. A single array may have any name."""
    with open_regular(path) as file:
        if file.read(6) == b"\x93NUMPY":
            raise RegardError(f"{path} holds one array; rename it to end in .npy")
    held = read_arrays(path)
    name = next(iter(held)) if len(held) == 1 else None
    if "points" in held:
        name = "points"
    if name is None:
        raise RegardError(f"{path} must have an array 'points', it has: {', '.join(held) or 'none'}")
    points, labels = _points(held[name], path), held.get("labels")
    if labels is not None and labels.shape != points.shape[:1]:
        raise RegardError(f"{path} has labels of shape {labels.shape} for {len(points)} points; give one for each")
    return Cloud(points, labels)


def _points(array: Array, path: str) -> Array:
    if array.dtype.kind not in "fiub" or array.ndim not in (1, 2):
        raise RegardError(f"{path} must hold numbers, one row for each point, got {array.dtype} of shape {array.shape}")
    return (array if array.ndim == 2 else array[:, None]).astype(np.float64)


def _csv(path: str, count: int, random: np.random.Generator, config: TableConfig) -> Cloud:
    """One point per line; a header with column names is optional."""
    table = read_table(path, config, least=2)
    numbers = all(name.lstrip("+-").replace(".", "", 1).isdecimal() for name in table.names)
    if numbers and config.header is None:
        table = read_table(path, replace(config, header=False), least=2)
    if not len(table):
        raise RegardError(f"{path} has no points; give one in each line")
    points = table.numbers(table.names, "a point is numbers", "remove the lines")
    return Cloud(points, notes=table.notes)


def _mesh(path: str, count: int, random: np.random.Generator, config: TableConfig) -> Cloud:
    """Points, sampled on the surface if there are faces. Without faces, a property `label` is their label."""
    mesh = read_unrepaired(path, "a point cloud")
    if not len(mesh.faces):
        return Cloud(mesh.points, mesh.labels)
    if not np.isfinite(mesh.points).all():
        raise RegardError(f"{path} has a vertex with NaN or infinity; repair the mesh")
    return Cloud(Surface(mesh.points, mesh.faces).sample(count, random))


READERS: dict[str, Callable[[str, int, np.random.Generator, TableConfig], Cloud]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _csv,
    ".ply": _mesh,
    ".off": _mesh,
}
