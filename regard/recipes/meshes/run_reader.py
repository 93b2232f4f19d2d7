"""How a run reads meshes: as it read its training data. It shows an example of that data."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch

from regard.data.batch import generator
from regard.data.meshes import find_meshes, read_mesh
from regard.errors import RegardError
from regard.look.reader import GONE, Reader, readable
from regard.recipes.meshes.dataset import MeshesConfig, MeshesForm, MeshesInfo, draw_meshes
from regard.recipes.meshes.predict import one_mesh
from regard.recipes.meshes.reader import MeshExample, MeshReader
from regard.runs.number_format import say_percent
from regard.runs.run import Run
from regard.training.config import TrainConfig


def run_reader(run: Run, model: Any) -> Reader:
    """The reader of a run on meshes. If the data of the run is gone, it shows a random mesh."""
    config, form = run.section(MeshesConfig, "data"), run.section(MeshesInfo, "corpus").form
    seed = config.seed_of(run.section(TrainConfig, "train").seed)

    @cache
    def first() -> MeshExample:
        if config.path is None:
            return made(1)
        file = find_meshes(config.path)[0]
        mesh, _ = read_mesh(file.path)
        truth = None if form.each or config.targets is not None else file.label
        return MeshExample(one_mesh(mesh), Path(file.path).name, truth)

    def made(number: int) -> MeshExample:
        meshes, target = draw_meshes(config, 1, generator(seed, 9, number))
        truth = (
            form.answers[int(target[0])] if form.asks == "classes" else f"{form.answers[0]} {target[0]:.6g}"
        )
        return MeshExample(one_mesh(meshes[0]), f"Mesh {number:,} of the synthetic task {config.task}", truth)

    def example(name: str | None) -> MeshExample:
        if name is None:
            return first() if there else MeshExample(model.sample_inputs(), notes=(GONE,))
        if config.path is not None:
            raise RegardError(f"there is no file {name!r}; give the path of a mesh")
        if not (name.isdecimal() and len(name) < 10 and int(name)):
            raise RegardError(
                f"there is no file {name!r}; meshes of the synthetic task {config.task} are called 1, 2, 3 …"
            )
        return made(int(name))

    def introduce(found: MeshExample) -> MeshExample:
        if form.each or found.name is None:
            return found
        said = _introduced(found, model, form)
        return MeshExample(found.inputs, found.name, found.truth, (said, *found.notes))

    there = readable(first)
    return MeshReader(
        model.roles, example, classes=form.labels, number=form.number, each=form.each, introduce=introduce
    )


def _introduced(found: MeshExample, model: Any, form: MeshesForm) -> str:
    """cow.ply: prediction animal (93 %); target animal."""
    with torch.no_grad():
        out = model(**found.inputs)[0]
    if form.number is None:
        share, best = out.softmax(-1).max(-1)
        says = f"{form.answers[int(best)]} ({say_percent(float(share))})"
    else:
        says = f"{form.answers[0]} {form.number.restore(float(out[0])):.6g}"
    return f"{found.name}: prediction {says}{'' if found.truth is None else f'; target {found.truth}'}."
