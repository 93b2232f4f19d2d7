"""Meshes: folders and synthetic tasks become a task, batches, and a model config that fits them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regard.data.splits import SPLITS, TEST, note_missing
from regard.look.private import without_folders
from regard.recipes.job import DataContext, Job, ShownExample, Split
from regard.recipes.meshes.dataset import MeshesConfig, MeshesCorpus, MeshesForm, MeshesInfo, MeshesSource
from regard.recipes.meshes.defaults import model_kind
from regard.recipes.meshes.read_meshes import draw_test_meshes, prepare_meshes, read_other_meshes
from regard.recipes.settings import Settings
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.tasks import Classify, Regress, Task


def prepare_job(settings: Settings, context: DataContext) -> Job:
    """Read the meshes, then make the task, the source and a model config that fits them."""
    seed, batch = settings.train.seed, settings.train.batch
    drawn = settings.data.seed_of(seed)
    corpus = prepare_meshes(settings.data, seed=drawn, note=context.note)
    form, info = corpus.form, corpus.info
    test = None
    if info.test:
        test = Split(
            name="test",
            count=info.test,
            unit="meshes",
            batches=lambda: _holding(corpus, TEST, drawn).batches(TEST, batch),
        )
    outputs = len(form.answers)
    level = "vertex" if form.each else "mesh"
    return Job(
        kind=model_kind(settings),
        model=replace(settings.model, outputs=outputs, level=level),
        task=task_of(form),
        source=MeshesSource(corpus, batch, seed),
        info=info,
        unit="vertices",
        examples="meshes",
        labels=form.labels,
        notes=(*corpus.notes, *_notes_on(corpus)),
        validation=info.validation,
        test=test,
        rows=(lambda split: corpus.rows_of(SPLITS[split])) if corpus.names and not form.each else None,
        show=None
        if form.each
        else lambda split, place: _show(_holding(corpus, SPLITS[split], drawn), SPLITS[split], place),
        number=None if form.each else form.number,
    )


def task_of(form: MeshesForm) -> Task:
    """Classification, or regression with errors in the units of the data."""
    if form.asks == "classes":
        return Classify()
    return Regress((form.target_scale,), form.answers)


def other_split(run: Run, path: str, context: DataContext) -> tuple[Task, Split, tuple[str, ...] | None]:
    """Other meshes with targets, read as the run reads its own data."""
    config, form = run.section(MeshesConfig, "data"), run.section(MeshesInfo, "corpus").form
    corpus = read_other_meshes(config, form, path, context.note)
    batch = run.section(TrainConfig, "train").batch
    split = Split(
        name=path,
        count=len(corpus.splits),
        unit="meshes",
        batches=lambda: corpus.batches(TEST, batch),
        rows=None if form.each else lambda: corpus.rows_of(TEST),
        notes=corpus.notes,
    )
    return task_of(form), split, form.labels


def _holding(corpus: MeshesCorpus, split: int, seed: int) -> MeshesCorpus:
    """The meshes that hold a split: test meshes of a synthetic task are drawn when they are needed."""
    if split == TEST and corpus.drawn_test:
        return draw_test_meshes(corpus, seed)
    return corpus


def _show(corpus: MeshesCorpus, split: int, place: int) -> ShownExample:
    number = int(corpus.rows_of(split)[place])
    mesh = corpus.meshes[number]
    name = without_folders(corpus.names[number]) if corpus.names else f"mesh {number + 1:,}"
    return ShownExample(name=name, text=f"{len(mesh.points):,} vertices, {len(mesh.faces):,} triangles")


def _notes_on(corpus: MeshesCorpus) -> tuple[str, ...]:
    """Which classes a split lacks."""
    if not corpus.names or corpus.form.asks != "classes" or corpus.form.each:
        return ()
    return tuple(note_missing(corpus.splits, np.array(corpus.target), corpus.form.answers, "mesh"))
