"""Meshes in files: triangles of a surface, and the folders that hold them by class."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from regard.data.array import Array
from regard.data.glb import read_glb
from regard.data.mesh_repair import Mesh, Repairs, repair_mesh
from regard.data.obj import read_obj
from regard.data.off import read_off
from regard.data.ply import read_ply
from regard.data.point_clouds import CloudFile
from regard.data.stl import read_stl
from regard.errors import RegardError
from regard.files import readable_as


def find_meshes(folder: str) -> list[CloudFile]:
    """All meshes in a folder: one folder per class, or without classes. Hidden files do not count."""
    root = Path(folder).expanduser()
    found = sorted(path for path in root.rglob("*") if path.is_file() and not _hidden(path, root))
    meshes = [path for path in found if path.suffix.lower() in READERS]
    if not meshes:
        others = f"; it has {len(found)} other files, the first is {found[0].name}" if found else ""
        raise RegardError(f"the folder {folder} holds no meshes ({', '.join(READERS)}){others}")
    return [
        CloudFile(str(path), path.relative_to(root).parts[0] if path.parent != root else None)
        for path in meshes
    ]


def read_mesh(path: str) -> tuple[Mesh, Repairs]:
    """The surface of one file, repaired, and what was repaired."""
    suffix = Path(path).suffix.lower()
    if suffix not in READERS:
        raise RegardError(f"{path} is not a mesh; give one of {', '.join(READERS)}")
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with readable_as(path, "a mesh"):
            found = READERS[suffix](path)
    except OSError as error:
        raise RegardError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        return repair_mesh(found)
    except RegardError as error:
        raise RegardError(f"{path}: {error}") from error


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def _ply(path: str) -> Mesh:
    """A property `label` of the vertices is their label."""
    names, vertices, faces = read_ply(path)
    if not {"x", "y", "z"} <= set(names):
        raise RegardError(f"{path} must have vertices with x, y and z, they have: {', '.join(names)}")
    labels: Array | None = None
    if "label" in names:
        given = vertices[:, names.index("label")]
        if not (np.isfinite(given) & (given == np.round(given))).all():
            raise RegardError(
                f"the labels of the vertices of {path} must be whole numbers, one for each class"
            )
        labels = given.astype(np.int64)
    return Mesh(vertices[:, [names.index(axis) for axis in "xyz"]], faces, labels)


def _plain(read: Callable[[str], tuple[Array, Array]]) -> Callable[[str], Mesh]:
    return lambda path: Mesh(*read(path))


READERS: dict[str, Callable[[str], Mesh]] = {
    ".ply": _ply,
    ".off": _plain(read_off),
    ".obj": _plain(read_obj),
    ".stl": _plain(read_stl),
    ".glb": _plain(read_glb),
}
