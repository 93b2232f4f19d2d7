"""Meshes of files as examples: of a folder for each class, with a table of targets, or with labels for their vertices."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.array import Array
from regard.data.class_folders import ClassFile
from regard.data.meshes import find_meshes, read_mesh
from regard.data.surface import Mesh, Repairs
from regard.data.tables import read_table
from regard.errors import RegardError, nearest
from regard.recipes.example import Examples
from regard.recipes.meshes.config import MeshesConfig
from regard.recipes.meshes.made_meshes import MADE

FILE = "file"  # the column of a table of targets that names the mesh


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


def read_unlabelled(path: str) -> Examples:
    """One mesh, or all of a folder, each read when it is asked for."""
    files = [file.path for file in find_meshes(path)] if os.path.isdir(path) else [path]

    def read(i: int) -> dict[str, object]:
        mesh, repairs = read_mesh(files[i])
        return {"mesh": mesh, "repairs": repairs.sentence}

    return Examples(what=path, count=len(files), inputs=read, names=files.__getitem__, files=files.__getitem__)


def read_labelled(files: Sequence[ClassFile], folder: str, config: MeshesConfig, *, each: bool | None) -> Examples:
    """Meshes with what they are, or with what each of their vertices is. each: does the model predict a class for each
    vertex? None: the files say"""
    targets = None if config.targets is None else _targets_of(files, folder, config)
    meshes, repairs = _read_all(files)
    labelled = targets is None and (meshes[0].labels is not None if each is None else each)
    starts: Array | None = None
    if targets is not None:
        cells = np.array(targets)
    elif labelled:
        cells = np.array([str(label) for labels in _labels_of(files, meshes) for label in labels.tolist()])
        starts = np.concatenate([[0], np.cumsum([len(mesh.points) for mesh in meshes])])
    else:
        cells = np.array([class_of(file, folder) for file in files])
    sentence = repairs.sentence
    return Examples(
        what=folder,
        count=len(files),
        inputs=lambda i: {"mesh": meshes[i]},
        names=lambda i: files[i].path,
        files=lambda i: files[i].path,
        cells=cells,
        target_names=(config.target,),
        starts=starts,
        part="vertex",
        notes=(f"repairs: {sentence}",) if sentence else (),
    )


def _read_all(files: Sequence[ClassFile]) -> tuple[list[Mesh], Repairs]:
    meshes, done = [], Repairs()
    for file in files:
        mesh, repairs = read_mesh(file.path)
        meshes.append(mesh)
        done += repairs
    return meshes, done


def _labels_of(files: Sequence[ClassFile], meshes: Sequence[Mesh]) -> list[Array]:
    """The labels of the vertices of each mesh."""
    found = []
    for file, mesh in zip(files, meshes, strict=True):
        if mesh.labels is None:
            raise RegardError(
                f"{file.path} has no labels for its vertices, but other files have, and a model predicts a label for "
                "each vertex or for none; give labels to all files, or to none"
            )
        found.append(np.asarray(mesh.labels))
    return found


def class_of(file: ClassFile, folder: str) -> str:
    """The class of a mesh: the name of its folder."""
    if file.label is None:
        raise RegardError(
            f"{file.path} is not in the folder of a class; put the meshes of each class in one folder of {folder} "
            "that has the name of the class, or give a table with --data.targets"
        )
    return file.label


def _targets_of(files: Sequence[ClassFile], folder: str, config: MeshesConfig) -> list[str]:
    """The target of each file, from the table."""
    table = read_table(str(config.targets), config)
    advice = f"a table of targets has a column '{FILE}' and one to predict, named with --data.target"
    names, cells = table.texts(FILE, advice), table.texts(config.target, advice)
    known = dict(zip(names, cells, strict=True))
    root, found = Path(folder).expanduser(), []
    for file in files:
        name = Path(file.path).relative_to(root).as_posix()
        cell = known.get(name)
        if cell is None:
            raise RegardError(f"{config.targets} has no target for {name}; add a row, or remove the file")
        found.append(cell)
    return found
