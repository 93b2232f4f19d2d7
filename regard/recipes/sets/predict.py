"""What a model says of sets: classes, numbers or clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import from_dict
from regard.data.batch import Ids
from regard.recipes.prediction import Answer, as_given, one_by_one
from regard.recipes.sets.dataset import SetsConfig, SetsForm, files_of, sets_in
from regard.recipes.sets.made_sets import CLUSTERS
from regard.recipes.sets.mixture import read_mixture
from regard.runs.load import load_model
from regard.runs.run import Run

inputs = as_given


@torch.no_grad()
def predict(run: Run, given: Sequence[str]) -> Iterator[Answer]:
    """For each cloud, or each set of each table, what the model says of it."""
    form = from_dict(SetsForm, run.config["corpus"]["form"])
    config, model = run.section(SetsConfig, "data"), load_model(run)
    files = [file for path in given for file in files_of(path, config, form)]
    yield from one_by_one(
        files,
        lambda path: [answer(model, form, points, name) for name, points in sets_in(path, config, form)],
    )


def answer(model: nn.Module, form: SetsForm, points: Ids, name: str) -> Answer:
    try:
        x = torch.from_numpy(form.read(points))[None]
    except ValueError as error:
        return Answer(given=name, error=f"{name}: {error}")
    out: Tensor = model(x)[0]
    if form.asks == "clusters":
        return Answer(given=name, each=tuple(clusters(out, points.shape[1])))
    if not form.each:
        return say(name, out, form)
    return Answer(given=name, each=tuple(say(f"thing {i + 1}", row, form) for i, row in enumerate(out)))


def say(name: str, out: Tensor, form: SetsForm) -> Answer:
    """Probabilities of classes, the likeliest first, or numbers in their own units."""
    if form.asks == "classes":
        return Answer.of_classes(name, out.softmax(-1), form.answers)
    numbers = out.double().numpy() * np.array(form.target_scale) + np.array(form.target_centre)
    return Answer(given=name, values=dict(zip(form.answers, numbers.tolist(), strict=True)))


def clusters(out: Tensor, d: int) -> Iterator[Answer]:
    found = read_mixture(out[None], CLUSTERS, d)
    for i in found.share[0].argsort(descending=True).tolist():
        places = {f"middle {axis + 1}": found.middle[0, i, axis].item() for axis in range(d)}
        widths = {f"deviation {axis + 1}": found.deviation[0, i, axis].item() for axis in range(d)}
        yield Answer(
            given=f"cluster {i + 1}", values={"share": found.share[0, i].exp().item(), **places, **widths}
        )
