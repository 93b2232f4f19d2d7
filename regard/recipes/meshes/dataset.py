"""Meshes: files or synthetic surfaces, of any sizes, become batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch

from regard.config import Amount, Natural, Size, config
from regard.data.array import Array
from regard.data.batch import Batch, Epochs, Source, generator
from regard.data.mesh_repair import Mesh
from regard.data.slices import slice_graphs
from regard.data.splits import TEST, TRAIN, VALIDATION, SplitConfig, check_splits
from regard.data.targets import Asks, Numbers
from regard.errors import RegardError
from regard.recipes.meshes.made_meshes import draw_mesh

Made = Literal["shapes", "screws", "roundness"]


@config
class MeshesConfig(SplitConfig):
    """Which meshes to read, and how."""

    paths: ClassVar[tuple[str, ...]] = ("path", "targets")

    # a folder of meshes (.ply, .off, .obj, .stl, .glb), one folder per class; None: synthetic surfaces
    path: str | None = None
    task: Made = "shapes"  # the synthetic task, if there is no path
    # synthetic task: number of meshes in the train split; None: new ones at every step
    meshes: Size | None = None
    # a table with a column `file` (as in the folder) and the column to predict; None: folders are classes
    targets: str | None = None
    target: str = "target"  # table: the column to predict
    # what targets are; auto: numbers if some have a fraction, or if they are over ten whole numbers with gaps
    asks: Asks = "auto"

    def __post_init__(self) -> None:
        check_splits(self, "meshes")
        if self.path is not None:
            if self.meshes is not None:
                raise RegardError(
                    f"meshes is for synthetic tasks, and {self.path} has a fixed number of meshes; leave meshes out"
                )
            return
        if self.targets is not None:
            raise RegardError("targets are those of the files of a folder; give it with --data")
        if self.folds is not None:
            raise RegardError(
                f"the task {self.task} is synthetic and its meshes are drawn anew, so there is nothing to cut into "
                f"{self.folds} folds; use --train.seeds {self.folds} instead"
            )


@config
class MeshesForm:
    """What is predicted of a mesh: with the model, all that a prediction needs."""

    asks: Literal["classes", "numbers"] = "classes"
    answers: tuple[str, ...]  # the classes, or the name of the number
    target_centre: float = 0.0  # the model predicts numbers as (target − centre) / scale
    target_scale: Amount = 1.0
    each: bool = False  # does every vertex have a target, not the mesh?

    def __post_init__(self) -> None:
        if not self.answers:
            raise RegardError(f"a model of {self.asks} needs their names, got none")

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The classes of a classification task; None: it predicts a number."""
        if self.asks == "classes":
            return self.answers
        return None

    @property
    def number(self) -> Numbers | None:
        """The number that is predicted, with its scale."""
        if self.asks == "classes":
            return None
        return Numbers(name=self.answers[0], centre=self.target_centre, scale=self.target_scale)

    def standardise(self, target: Array) -> Array:
        """The target of the model: the index of a class, or a standardised number.   n -> n or n 1"""
        if self.asks == "classes":
            return target.astype(np.int64)
        found: Array = ((target - self.target_centre) / self.target_scale).astype(np.float32)[:, None]
        return found


@config
class MeshesInfo:
    """How many meshes there are, their sizes, and what is predicted."""

    path: str | None
    task: str | None  # of synthetic meshes; None: the meshes are from files
    train: Natural | None  # meshes; None: new ones at every step
    validation: Natural
    test: Natural = 0
    smallest: Natural  # vertices of the smallest mesh
    largest: Natural
    form: MeshesForm


@dataclass(frozen=True, eq=False)
class MeshesCorpus:
    """Meshes with their targets, as the model takes them. An endless synthetic task holds only what is not for
    training; it draws the meshes of each training step when they are needed."""

    config: MeshesConfig
    form: MeshesForm
    meshes: Sequence[Mesh]
    target: Sequence[Array]  # of each mesh: () or 1, or with form.each of each vertex
    splits: Array  # TRAIN, VALIDATION or TEST, of each mesh
    names: tuple[str, ...] = ()  # files; synthetic meshes have none
    drawn_test: int = 0  # meshes in the test split of a synthetic task, which are drawn when they are needed
    notes: tuple[str, ...] = ()

    @property
    def endless(self) -> bool:
        return self.config.path is None and self.config.meshes is None

    @property
    def info(self) -> MeshesInfo:
        """A summary in numbers, for people and for later commands."""
        sizes = [len(mesh.points) for mesh in self.meshes]
        return MeshesInfo(
            path=self.config.path,
            task=self.config.task if self.config.path is None else None,
            train=None if self.endless else int((self.splits == TRAIN).sum()),
            validation=int((self.splits == VALIDATION).sum()),
            test=self.drawn_test or int((self.splits == TEST).sum()),
            smallest=min(sizes),
            largest=max(sizes),
            form=self.form,
        )

    def rows_of(self, split: int) -> Array:
        """The numbers of the meshes of a split, in the order of its batches."""
        found: Array = np.flatnonzero(self.splits == split)
        return found

    def batches(self, split: int, batch: int) -> Iterator[Batch]:
        """All of one split."""
        held = self.rows_of(split)
        for start in range(0, len(held), batch):
            yield self.take(held[start : start + batch])

    def take(self, rows: Array) -> Batch:
        """Some meshes as a batch."""
        return join_meshes(
            [self.meshes[row] for row in rows], [self.target[row] for row in rows], self.form.each
        )


class MeshesSource(Source):
    """Meshes in shuffled batches, side by side.   tokens n 3, faces 3 f, of n, target b or n

    The meshes of a step depend on (seed, step) alone.
    """

    def __init__(self, corpus: MeshesCorpus, batch: int, seed: int) -> None:
        if batch < 1:
            raise RegardError(f"batch must be at least 1, got {batch}")
        self._corpus, self._batch, self._seed = corpus, batch, seed
        self._epochs: Epochs | None = None
        if not corpus.endless:
            self._epochs = Epochs(corpus.rows_of(TRAIN), batch, seed)

    def batch(self, step: int) -> Batch:
        corpus = self._corpus
        if self._epochs is not None:
            return corpus.take(self._epochs.rows(step))
        meshes, target = draw_meshes(corpus.config, self._batch, generator(self._seed, 1, step))
        return join_meshes(meshes, list(corpus.form.standardise(target)))

    def validation(self) -> Iterator[Batch]:
        return self._corpus.batches(VALIDATION, self._batch)


def draw_meshes(config: MeshesConfig, count: int, random: np.random.Generator) -> tuple[list[Mesh], Array]:
    """Some meshes of a synthetic task, and their targets."""
    drawn = [draw_mesh(config.task, random) for _ in range(count)]
    return [mesh for mesh, _ in drawn], np.array([target for _, target in drawn])


def join_meshes(meshes: Sequence[Mesh], target: Sequence[Array], each: bool = False) -> Batch:
    """Several meshes as one, side by side."""
    sizes = np.array([len(mesh.points) for mesh in meshes])
    starts = np.concatenate(([0], np.cumsum(sizes[:-1])))
    points = np.concatenate([centre(mesh.points) for mesh in meshes])
    faces = np.concatenate([mesh.faces + start for mesh, start in zip(meshes, starts, strict=True)])
    joined = np.concatenate(target) if each else np.stack(target)
    inputs = {
        "points": torch.from_numpy(points),
        "faces": torch.from_numpy(np.ascontiguousarray(faces.T)),
        "of": torch.from_numpy(np.repeat(np.arange(len(meshes)), sizes)),
    }
    return Batch(inputs, torch.from_numpy(joined), rows=len(meshes), size=len(points), cut=slice_graphs)


def centre(points: Array) -> Array:
    """Points about the origin, in float32: far away from it, digits would be lost.   n 3"""
    found: Array = (points - points.mean(0)).astype(np.float32)
    return found
