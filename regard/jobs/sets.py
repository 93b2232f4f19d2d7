"""Sets: clouds, tables and made tasks in, classifiers, regressions and clusterings out."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard import names
from regard.config import from_dict, to_dict
from regard.data.batch import Ids
from regard.data.clouds import find_clouds
from regard.data.made_sets import CLUSTERS
from regard.data.sets import SetsConfig, SetsCorpus, SetsForm, files_of, prepare_sets, sets_in
from regard.jobs.job import Answer, Job, Reading, as_given, one_by_one
from regard.models.sets import DeepSetsConfig, MLPConfig, SetTransformerConfig
from regard.recipes.sets import KINDS
from regard.run import Run, load_model
from regard.training.mixture import Mixture, read_mixture
from regard.training.task import Classify, Regress, Task


def prepared(recipe: Any, reading: Reading) -> Job:
    """Read the sets, then make model, task and source to their measure."""
    seed, batch = recipe.train.seed, recipe.train.batch
    corpus = prepare_sets(recipe.data, seed=seed, note=reading.note)
    kind = next(name for name, cls in KINDS.items() if cls is type(recipe))
    model = names.find("models", kind)(measured(recipe.model, corpus.form, corpus.usual))
    labels = {"labels": list(corpus.form.answers)} if corpus.form.asks == "classes" else {}
    return Job(
        kind=kind,
        model=model,
        task=task_of(corpus.form),
        source=corpus.source(batch, seed),
        unit="things",
        about=corpus.describe() | labels | {"form": to_dict(corpus.form)},
        notes=notes_on(corpus),
    )


def notes_on(corpus: SetsCorpus) -> tuple[str, ...]:
    """Of sets that were read: those that hold nothing, and numbers that are the same in all to learn from."""
    if not corpus.names:
        return ()
    sizes, found = np.diff(corpus.starts), []
    if len(empty := np.flatnonzero(sizes == 0)):
        which = f"{len(empty):,} of {len(sizes):,} sets hold nothing, such as {corpus.names[empty[0]]}"
        found.append(f"{which}; nothing tells their classes apart")
    learned = corpus.points[np.repeat(~corpus.held, sizes)]
    if still := [
        name
        for name, column in zip(corpus.form.features, learned.T, strict=True)
        if (column == column[:1]).all()
    ]:
        each, it = ("each have the same value", "them") if len(still) > 1 else ("has the same value", "it")
        found.append(f"{', '.join(still)} {each} in all sets to learn from, so nothing is learned from {it}")
    return tuple(found)


def measured(config: Any, form: SetsForm, usual: int) -> Any:
    """A model's config with what the data decides."""
    outputs = {"classes": len(form.answers), "numbers": len(form.answers), "clusters": CLUSTERS * 5}[
        form.asks
    ]
    found: dict[str, Any] = {"features": len(form.features), "outputs": outputs}
    if isinstance(config, MLPConfig):
        if form.each:
            raise ValueError(
                "an mlp answers for a whole set, and here every thing has a target; choose another --model"
            )
        return replace(config, size=form.size, **found)
    if isinstance(config, DeepSetsConfig):
        found["usual"] = usual
    if isinstance(config, SetTransformerConfig):
        if form.asks == "clusters":  # a seed for each of them, which have to agree who takes which
            found |= {"outputs": 5, "seeds": CLUSTERS, "after": max(1, config.after)}
        elif config.seeds > 1 and not form.each:
            raise ValueError(f"a classifier or a regression has one seed, got --model.seeds {config.seeds}")
    return replace(config, each=form.each, **found)


def task_of(form: SetsForm) -> Task:
    if form.asks == "clusters":
        return Mixture(CLUSTERS)
    return Classify() if form.asks == "classes" else Regress(form.target_scale, form.answers)


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────

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


def then(run: Run) -> str:
    """What to type after a training."""
    path = run.section(SetsConfig, "data").path
    if path is None:  # made sets are in no file
        return f"regard look {run.path}"
    if Path(path).expanduser().is_dir():
        path = find_clouds(path)[0].path
    return f"regard predict {run.path} {shlex.quote(path)}"
