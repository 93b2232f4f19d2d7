"""Predictions for sets: classes, numbers or clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.array import Array
from regard.recipes.evidence import evidence_of
from regard.recipes.prediction import Prediction, predict_each
from regard.recipes.sets.dataset import SetsConfig, SetsForm, SetsInfo
from regard.recipes.sets.made_sets import CLUSTERS
from regard.recipes.sets.read_sets import files_of, sets_in
from regard.recipes.sets.task import numbers_of, read_mixture
from regard.runs.load import load_model
from regard.runs.run import Run


@torch.no_grad()
def predict(run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
    """One prediction for each point cloud, or for each set of each table."""
    form = run.section(SetsInfo, "corpus").form
    config, model = run.section(SetsConfig, "data"), load_model(run)
    files = [file for path in inputs for file in files_of(path, config, form)]

    def predict_file(path: str) -> list[Prediction]:
        return [_predict_set(model, form, points, name) for name, points in sets_in(path, config, form)]

    yield from predict_each(files, predict_file)


def _predict_set(model: nn.Module, form: SetsForm, points: Array, name: str) -> Prediction:
    try:
        x = torch.from_numpy(form.read(points))[None]
    except ValueError as error:
        return Prediction(input=name, error=f"{name}: {error}")
    out: Tensor = model(x)[0]
    if form.asks == "clusters":
        return Prediction(input=name, each=tuple(_clusters(out, points.shape[1])))
    if not form.each:
        names = [f"{form.element} {i + 1}" for i in range(len(points))]
        reasons = evidence_of(model, x, names, form.answers, numbers_of(form))
        return replace(_format_output(name, out, form), evidence=reasons)
    return Prediction(
        input=name,
        each=tuple(_format_output(f"{form.element} {i + 1}", row, form) for i, row in enumerate(out)),
    )


def _format_output(name: str, out: Tensor, form: SetsForm) -> Prediction:
    """Probabilities of classes, the highest first, or numbers in the units of the data."""
    if form.asks == "classes":
        return Prediction.of_classes(name, out.softmax(-1), form.answers)
    numbers = out.double().numpy() * np.array(form.target_scale) + np.array(form.target_centre)
    return Prediction(input=name, values=dict(zip(form.answers, numbers.tolist(), strict=True)))


def _clusters(out: Tensor, d: int) -> Iterator[Prediction]:
    found = read_mixture(out[None], CLUSTERS, d)
    for i in found.share[0].argsort(descending=True).tolist():
        places = {f"middle {axis + 1}": found.middle[0, i, axis].item() for axis in range(d)}
        widths = {f"deviation {axis + 1}": found.deviation[0, i, axis].item() for axis in range(d)}
        yield Prediction(
            input=f"cluster {i + 1}", values={"share": found.share[0, i].exp().item(), **places, **widths}
        )
