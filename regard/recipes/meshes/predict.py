"""Predictions for meshes: a class or a number for each mesh, or a class for each of its vertices."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from regard.data.mesh_repair import Mesh
from regard.data.meshes import find_meshes, read_mesh
from regard.recipes.meshes.dataset import MeshesForm, MeshesInfo, join_meshes
from regard.recipes.prediction import Prediction, predict_each
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.training.tasks import call


@torch.no_grad()
def predict(run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
    """One prediction for each file."""
    form, model = run.section(MeshesInfo, "corpus").form, load_model(run)

    def predict_file(path: str) -> list[Prediction]:
        mesh, repairs = read_mesh(path)
        out = call(model, join_meshes([mesh], [np.zeros(())]))
        found = format_mesh(path, out, form)
        notes = (f"{path}: {repairs.sentence}",) if repairs.sentence else ()
        return [replace(found, notes=notes)]

    yield from predict_each(expand_inputs(inputs), predict_file)


def expand_inputs(given: Sequence[str]) -> list[str]:
    """All files: a folder stands for the meshes in it."""
    found: list[str] = []
    for path in given:
        found += [file.path for file in find_meshes(path)] if os.path.isdir(path) else [path]
    return found


def format_mesh(name: str, out: Tensor, form: MeshesForm) -> Prediction:
    """The output for one mesh, or for each of its vertices.   1 outputs, or n outputs"""
    if not form.each:
        return _format_output(name, out[0], form)
    parts = (_format_output(f"vertex {i + 1}", row, form) for i, row in enumerate(out))
    return Prediction(input=name, each=tuple(parts))


def _format_output(name: str, out: Tensor, form: MeshesForm) -> Prediction:
    """Probabilities of classes, the highest first, or a number in the units of the data."""
    if form.asks == "classes":
        return Prediction.of_classes(name, out.softmax(-1), form.answers)
    number = float(out[0].double()) * form.target_scale + form.target_centre
    return Prediction(input=name, values={form.answers[0]: number})


def one_mesh(mesh: Mesh) -> dict[str, Tensor]:
    """A mesh as the inputs of a model.   n 3, 3 f"""
    batch = join_meshes([mesh], [np.zeros(())])
    return {name: batch[name] for name in ("points", "faces")}
