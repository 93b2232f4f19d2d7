"""Reading meshes: folders, tables of targets and synthetic tasks, with their splits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.data.array import Array
from regard.data.batch import generator
from regard.data.class_folders import ClassFile
from regard.data.labels import sort_labels
from regard.data.mesh_repair import Mesh, Repairs
from regard.data.meshes import find_meshes, read_mesh
from regard.data.missing import is_missing
from regard.data.progress import Note
from regard.data.row_table import read_table
from regard.data.splits import TEST, TRAIN, VALIDATION, draw_splits
from regard.data.targets import explain_asks, find_scale, infer_asks, read_numbers
from regard.errors import RegardError, nearest
from regard.recipes.meshes.dataset import MeshesConfig, MeshesCorpus, MeshesForm, draw_meshes
from regard.recipes.meshes.made_meshes import MADE

JUDGED = 256  # meshes in the validation split of a synthetic task, and in its test split
USUAL = 512  # meshes that give the mean and standard deviation of a synthetic number
FILE = "file"  # the column of a table of targets that names the mesh


def prepare_meshes(config: MeshesConfig, *, seed: int, note: Note | None = None) -> MeshesCorpus:
    """All meshes of a config, with a split drawn by the seed."""
    if config.path is None:
        return _made(config, seed)
    path = os.path.expanduser(config.path)
    if not os.path.isdir(path):
        near = nearest(config.path, MADE)
        hint = f" (did you mean {near}?)" if near else ""
        what = "is a file" if os.path.exists(path) else "is not there"
        raise FileNotFoundError(
            f"{config.path} {what}{hint}; give a folder of meshes (.ply, .off, .obj, .stl, .glb), one folder per "
            f"class, or a synthetic task: {', '.join(MADE)}"
        )
    return _of_folder(config, seed, note or (lambda what, share: None))


# ── synthetic


def _made(config: MeshesConfig, seed: int) -> MeshesCorpus:
    """The validation split, and the train split if `meshes` gives its size. Each mesh is drawn by its own number."""
    task = MADE[config.task]
    form = MeshesForm(answers=task.families)
    if task.number is not None:  # the scale depends on the task alone
        _, usual = draw_meshes(config, USUAL, generator(0, 7))
        form = _number_form(task.number, usual)
    meshes, target = _draw_each(config, JUDGED, seed, 2)
    splits = [VALIDATION] * JUDGED
    if config.meshes is not None:
        more, their = _draw_each(config, config.meshes, seed, 1)
        meshes, target, splits = (
            meshes + more,
            np.concatenate((target, their)),
            splits + [TRAIN] * config.meshes,
        )
    drawn_test = 0 if config.test == 0 else JUDGED
    known = list(form.standardise(target))
    return MeshesCorpus(config, form, meshes, known, np.array(splits, dtype=np.uint8), drawn_test=drawn_test)


def draw_test_meshes(corpus: MeshesCorpus, seed: int) -> MeshesCorpus:
    """The test split of a synthetic task: meshes that are in no other split."""
    meshes, target = _draw_each(corpus.config, corpus.drawn_test, seed, 8)
    splits = np.full(len(meshes), TEST, dtype=np.uint8)
    return replace(corpus, meshes=meshes, target=list(corpus.form.standardise(target)), splits=splits)


def _draw_each(config: MeshesConfig, count: int, seed: int, stream: int) -> tuple[list[Mesh], Array]:
    drawn = [draw_meshes(config, 1, generator(seed, stream, i)) for i in range(count)]
    return [meshes[0] for meshes, _ in drawn], np.concatenate([target for _, target in drawn])


# ── from files


def _of_folder(config: MeshesConfig, seed: int, note: Note) -> MeshesCorpus:
    files = find_meshes(str(config.path))
    words: list[str] | None = None
    if config.targets is not None:
        words = _targets_of(files, config)
    meshes, done = _read_all(files, note)
    each = words is None and meshes[0].labels is not None
    if words is None:
        words = _labels_of(files, meshes, str(config.path), each)
    said: tuple[str, ...] = ()
    if config.targets is not None and infer_asks(words, config.asks) == "numbers":
        numbers = read_numbers(words)
        if numbers is None:
            raise RegardError(
                f"column '{config.target}' of {config.targets} must hold numbers for --data.asks numbers; "
                "use --data.asks classes for text"
            )
        splits = draw_splits(len(files), config, seed, unit="meshes")
        form = _number_form(config.target, numbers[splits == TRAIN])
        target = list(form.standardise(numbers))
        said = explain_asks(words, config.asks, config.target)
    else:
        form, target, splits = _of_classes(words, meshes, config, seed, each)
        if config.targets is not None:
            said = explain_asks(words, config.asks, config.target)
    names = tuple(file.path for file in files)
    repaired = done.sentence
    notes = (*said, f"repairs: {repaired}") if repaired else said
    return MeshesCorpus(config, form, meshes, target, splits, names, notes=notes)


def _read_all(files: Sequence[ClassFile], note: Note) -> tuple[list[Mesh], Repairs]:
    meshes, done = [], Repairs()
    for number, file in enumerate(files):
        mesh, repairs = read_mesh(file.path)
        meshes.append(mesh)
        done += repairs
        note("reading", (number + 1) / len(files))
    labelled = [mesh.labels is not None for mesh in meshes]
    if any(labelled) and not all(labelled):
        raise RegardError(
            f"{files[labelled.index(False)].path} has no labels for its vertices, but other files have; give labels "
            "to all files, or to none"
        )
    return meshes, done


def _labels_of(files: Sequence[ClassFile], meshes: Sequence[Mesh], folder: str, each: bool) -> list[str]:
    """The class of each mesh, or of each vertex of each mesh."""
    if each:
        return [str(label) for mesh in meshes for label in np.asarray(mesh.labels).tolist()]
    return [class_of(file, folder) for file in files]


def class_of(file: ClassFile, folder: str) -> str:
    """The class of a mesh: the name of its folder."""
    if file.label is None:
        raise RegardError(
            f"{file.path} is not in the folder of a class; put the meshes of each class in one folder of {folder} "
            "that has the name of the class, or give a table with --data.targets"
        )
    return file.label


def _of_classes(
    words: list[str], meshes: Sequence[Mesh], config: MeshesConfig, seed: int, each: bool
) -> tuple[MeshesForm, list[Array], Array]:
    answers = sort_labels(words)
    if len(answers) < 2:
        raise RegardError(f"{config.path} has only the class '{answers[0]}'; a classifier needs at least two")
    form = MeshesForm(answers=answers, each=each)
    target = form.standardise(numbers_of(words, answers, str(config.path)))
    if each:
        ends = np.cumsum([len(mesh.points) for mesh in meshes])[:-1]
        return form, np.split(target, ends), draw_splits(len(meshes), config, seed, unit="meshes")
    counts = np.bincount(target)
    if config.validation and counts.min() < 2:
        raise RegardError(
            f"{config.path} has one mesh of class '{answers[int(counts.argmin())]}', but the train and the validation "
            "split need one each; add more meshes, remove the class, or use --data.validation 0"
        )
    splits = draw_splits(len(meshes), config, seed, unit="meshes", classes=target, names=answers)
    return form, list(target), splits


def numbers_of(words: Sequence[str], answers: Sequence[str], path: str) -> Array:
    """The index of each class among those of the model."""
    number = {label: i for i, label in enumerate(answers)}
    for word in words:
        if word not in number:
            known = ", ".join(answers[:5]) + ", ..." * (len(answers) > 5)
            raise RegardError(
                f"{path} has the class '{word}', but the model knows {known}; remove it, or correct its name"
            )
    return np.array([number[word] for word in words])


def _targets_of(files: Sequence[ClassFile], config: MeshesConfig) -> list[str]:
    """The target of each file, from the table."""
    table = read_table(str(config.targets))
    for column in (FILE, config.target):
        if column not in table.names:
            raise RegardError(
                f"{config.targets} has no column '{column}'; it has {', '.join(table.names)}; a table of targets "
                f"has a column '{FILE}' and one to predict, named with --data.target"
            )
    at, asked = table.names.index(FILE), table.names.index(config.target)
    known = {str(row[at]).strip(): row[asked] for row in table.rows}
    root = Path(str(config.path)).expanduser()
    found = []
    for file in files:
        name = str(Path(file.path).relative_to(root))
        if name not in known or is_missing(known[name]):
            raise RegardError(f"{config.targets} has no target for {name}; add a row, or remove the file")
        found.append(str(known[name]).strip())
    return found


def _number_form(name: str, numbers: Array) -> MeshesForm:
    return MeshesForm(
        asks="numbers",
        answers=(name,),
        target_centre=float(numbers.mean()),
        target_scale=float(find_scale(numbers)),
    )


# ── other data


def read_other_meshes(
    config: MeshesConfig, form: MeshesForm, path: str, note: Note | None = None
) -> MeshesCorpus:
    """All meshes of a folder with their targets, as one test split."""
    if config.path is None and form.asks == "numbers":
        raise RegardError(
            f"the task {config.task} is synthetic, so no file holds its targets; leave --data out"
        )
    if not os.path.isdir(os.path.expanduser(path)):
        raise FileNotFoundError(f"{path} is no folder; give a folder of meshes with their classes")
    files = find_meshes(path)
    other = replace(config, path=path, meshes=None)
    words = _targets_of(files, other) if config.targets is not None else None
    meshes, done = _read_all(files, note or (lambda what, share: None))
    if words is None:
        if form.each and meshes[0].labels is None:
            raise RegardError(
                f"{files[0].path} has no labels for its vertices, but the model predicts a label for each vertex"
            )
        words = _labels_of(files, meshes, path, form.each)
    if form.asks == "numbers":
        numbers = read_numbers(words)
        if numbers is None:
            raise RegardError(f"column '{config.target}' of {config.targets} must hold numbers")
        target = list(form.standardise(numbers))
    else:
        indices = form.standardise(numbers_of(words, form.answers, path))
        target = list(indices)
        if form.each:
            target = np.split(indices, np.cumsum([len(mesh.points) for mesh in meshes])[:-1])
    splits = np.full(len(files), TEST, dtype=np.uint8)
    notes = (f"repairs: {done.sentence}",) if done.sentence else ()
    return MeshesCorpus(other, form, meshes, target, splits, tuple(file.path for file in files), notes=notes)
