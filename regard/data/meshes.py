"""Meshes in files: triangles of a surface, and the folders that hold them by class."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from regard.data.class_folders import ClassFile, find_by_class
from regard.data.glb import read_glb
from regard.data.mesh_repair import Mesh, Repairs, repair_mesh
from regard.data.obj import read_obj
from regard.data.off import read_off
from regard.data.ply import read_ply
from regard.data.stl import read_stl
from regard.errors import RegardError
from regard.files import most_unpacked, open_regular, read_bounded, readable_as

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
