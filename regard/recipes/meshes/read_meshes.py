"""Meshes as examples: of a folder for each class, with a table of targets, or with labels for their vertices; of files, of
tables, or in memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.data.class_folders import ClassFile
from regard.data.meshes import find_meshes, read_mesh
from regard.data.surface import Mesh, Repairs, repair_mesh
from regard.data.tables import Table, read_table, table_of
from regard.errors import RegardError, nearest
from regard.recipes.example import Examples
from regard.recipes.meshes.config import MeshesConfig
from regard.recipes.meshes.made_meshes import MADE
from regard.recipes.processor import Want
from regard.recipes.target import Cells, cells_in_memory

FILE = "file"  # the column of a table that names the mesh, or holds it
TAKEN = "a path, a trimesh.Trimesh, a pair of points (n 3) and faces (f 3), a list of them, or a pair (meshes, targets)"


def read_meshes(data: Any, config: MeshesConfig, want: Want, *, each: bool | None) -> Examples:
    """The meshes of a path, of a table in memory, or of objects. each: does the model predict a class for each vertex?
    None: not known yet, the data says it"""
    if isinstance(data, str | os.PathLike):
        path = os.path.expanduser(os.fspath(data))
        if want != "use":
            return read_folder(find_files(path), path, config, each=each)
        files = [file.path for file in find_meshes(path)] if os.path.isdir(path) else [path]
        return _open_later(files, files, what=path)
    table = table_of(data, config)
    if table is not None:
        return _read_table(table, config, want, each)
    return _read_objects(data, config, want, each)


def find_files(path: str) -> list[ClassFile]:
    """The meshes in a folder; an error says what else could have been meant."""
    if os.path.isdir(path):
        return find_meshes(path)
    near = nearest(path, MADE)
    hint = f" (did you mean {near}?)" if near else ""
    what = "is a file" if os.path.exists(path) else "is not there"
    raise FileNotFoundError(
        f"{path} {what}{hint}; give a folder of meshes (.ply, .off, .obj, .stl, .glb), one folder per class, or a "
        f"synthetic task: {', '.join(MADE)}"
    )


def read_folder(files: Sequence[ClassFile], folder: str, config: MeshesConfig, *, each: bool | None) -> Examples:
    """Meshes of files with what they are, or with what each of their vertices is."""
    names = [file.path for file in files]
    targets = None if config.targets is None else np.array(_targets_of(files, folder, config), dtype=object)
    meshes, notes, errors = _open_now(names, names)
    if each is None and targets is None:
        each = next(mesh for mesh in meshes if mesh is not None).labels is not None
    if targets is None and not each:
        targets = np.array([class_of(file, folder) for file in files])
    return _labelled(folder, names, meshes, targets, config, notes=notes, errors=errors, files=names.__getitem__)


# ── in memory


def _read_table(table: Table, config: MeshesConfig, want: Want, each: bool | None) -> Examples:
    """A mesh in each row, or the path of one, which counts from the current folder; and its target."""
    advice = f"a table of meshes has a column '{FILE}' with them, or with their paths"
    table.place(FILE, advice, {config.target})
    sources = table.cells(FILE)
    names = [cell if isinstance(cell, str) else table.where(row) for row, cell in enumerate(sources)]
    if want == "use":
        known = config.target in table.names and not each
        cells = np.array(table.cells(config.target), dtype=object) if known else None
        found: dict[str, Any] = {"source": table.path, "rows": table.data, "cells": cells}
        return _open_later(sources, names, what=table.path, notes=table.notes, **found)
    table.place(config.target, "say which one with --data.target", {FILE})
    meshes, notes, errors = _open_now(sources, names)
    cells = np.array(table.cells(config.target), dtype=object)
    return _labelled(table.path, names, meshes, cells, config, notes=(*table.notes, *notes), errors=errors)


def _read_objects(data: Any, config: MeshesConfig, want: Want, each: bool | None) -> Examples:
    """One mesh, several of them, or several with their targets: one for each mesh, or one for each vertex."""
    targets = None
    if not is_mesh(data) and isinstance(data, tuple) and len(data) == 2:
        data, targets = data
    meshes = [data] if is_mesh(data) else list(data) if isinstance(data, Sequence) else None
    if not meshes or not all(map(is_mesh, meshes)):
        wrong = type(data).__name__ if meshes is None else next((type(m).__name__ for m in meshes), "nothing")
        raise RegardError(f"data must be {TAKEN}, got {wrong}")
    names = [f"mesh {i + 1}" for i in range(len(meshes))]
    if targets is not None and len(targets) != len(meshes):
        raise RegardError(f"there are {len(meshes):,} meshes and {len(targets):,} targets; give one for each mesh")
    of_vertices = targets is not None and not isinstance(targets[0], str) and np.ndim(targets[0]) == 1
    if want == "use":
        cells = None if targets is None or of_vertices else cells_in_memory(targets)
        return _open_later(meshes, names, what="the meshes", cells=cells)
    if targets is None:
        to = "train on" if want == "learn" else "compare with"
        raise RegardError(f"the meshes have no targets to {to}; give a pair (meshes, targets)")
    if of_vertices:
        pairs = zip(meshes, targets, strict=True)
        found, notes, errors = _open_now([_as_mesh(mesh, labels) for mesh, labels in pairs], names)
        return _labelled("the meshes", names, found, None, config, notes=notes, errors=errors)
    found, notes, errors = _open_now(meshes, names)
    return _labelled("the meshes", names, found, cells_in_memory(targets), config, notes=notes, errors=errors)


def is_mesh(given: Any) -> bool:
    """Is it a mesh of trimesh, or a pair of points and faces?"""
    if hasattr(given, "vertices") and hasattr(given, "faces"):
        return True
    pair = isinstance(given, tuple | list) and len(given) == 2
    return pair and all(getattr(each, "ndim", 0) == 2 and each.shape[1] == 3 for each in given)


def _as_mesh(given: Any, labels: Any = None) -> Mesh:
    if isinstance(given, Mesh):
        return given
    points, faces = (given.vertices, given.faces) if hasattr(given, "vertices") else given
    known = None if labels is None else cells_in_memory(labels)
    if known is not None and len(known) != len(points):
        raise RegardError(f"it has {len(points):,} vertices and {len(known):,} labels; give one for each vertex")
    return Mesh(np.asarray(points, dtype=np.float64), np.asarray(faces, dtype=np.int64), known)


# ── meshes as examples


def _open(source: Any, name: str) -> tuple[Mesh, Repairs]:
    """A mesh of a file, or one in memory, repaired."""
    if source is None:
        raise RegardError(f"{name} has no mesh in column '{FILE}'; fill it in")
    if isinstance(source, str):
        return read_mesh(source)
    try:
        return repair_mesh(_as_mesh(source))
    except ValueError as error:
        raise RegardError(f"{name}: {error}") from error


def _open_now(
    sources: Sequence[Any], names: Sequence[str]
) -> tuple[list[Mesh | None], tuple[str, ...], dict[int, str]]:
    """All meshes, a note on what was repaired, and why some cannot be read."""
    meshes: list[Mesh | None] = []
    done, errors = Repairs(), dict[int, str]()
    for i, (source, name) in enumerate(zip(sources, names, strict=True)):
        try:
            mesh, repairs = _open(source, name)
            done += repairs
            meshes.append(mesh)
        except (ValueError, OSError) as error:
            meshes.append(None)
            errors[i] = str(error)
    if len(errors) == len(names):
        raise RegardError(next(iter(errors.values()), "there are no meshes; give some"))
    return meshes, (f"repairs: {done.sentence}",) if done.sentence else (), errors


def _open_later(sources: Sequence[Any], names: Sequence[str], **more: Any) -> Examples:
    """Meshes whose targets nobody need know, each opened when it is asked for."""

    def read(i: int) -> dict[str, object]:
        mesh, repairs = _open(sources[i], names[i])
        return {"mesh": mesh, "repairs": repairs.sentence}

    return Examples(count=len(sources), inputs=read, names=names.__getitem__, **more)


def _labelled(
    what: str,
    names: Sequence[str],
    meshes: Sequence[Mesh | None],
    cells: Cells | None,
    config: MeshesConfig,
    **more: Any,
) -> Examples:
    """Meshes with a target each. cells: None: each vertex has one"""
    starts: Array | None = None
    if cells is None:
        labels = [
            np.zeros(0) if mesh is None else _labels_of(mesh, name) for mesh, name in zip(meshes, names, strict=True)
        ]
        cells = np.concatenate([each for each in labels if len(each)])
        starts = np.concatenate([[0], np.cumsum([len(each) for each in labels])])
    return Examples(
        what=what,
        count=len(meshes),
        inputs=lambda i: {"mesh": meshes[i]},
        names=names.__getitem__,
        cells=cells,
        target_names=(config.target,),
        starts=starts,
        part="vertex",
        **more,
    )


def _labels_of(mesh: Mesh, name: str) -> Array:
    """The labels of the vertices of a mesh."""
    if mesh.labels is None:
        raise RegardError(
            f"{name} has no labels for its vertices, but other files have, and a model predicts a label for each "
            "vertex or for none; give labels to all files, or to none"
        )
    return np.asarray(mesh.labels)


def class_of(file: ClassFile, folder: str) -> str:
    """The class of a mesh: the name of its folder."""
    if file.label is None:
        raise RegardError(
            f"{file.path} is not in the folder of a class; put the meshes of each class in one folder of {folder} "
            "that has the name of the class, or give a table with --data.targets"
        )
    return file.label


def _targets_of(files: Sequence[ClassFile], folder: str, config: MeshesConfig) -> list[str | None]:
    """The target of each file, from the table; None: its cell is missing."""
    table = read_table(str(config.targets), config)
    advice = f"a table of targets has a column '{FILE}' and one to predict, named with --data.target"
    names, cells = table.texts(FILE, advice), table.labels(config.target, advice)
    known = dict(zip(names, cells, strict=True))
    root, found = Path(folder).expanduser(), []
    for file in files:
        name = Path(file.path).relative_to(root).as_posix()
        if name not in known:
            raise RegardError(f"{config.targets} has no target for {name}; add a row, or remove the file")
        found.append(known[name])
    return found
