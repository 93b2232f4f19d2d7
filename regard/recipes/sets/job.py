"""Sets: clouds, tables and made tasks in, classifiers, regressions and clusterings out."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard import registry
from regard.config import to_dict
from regard.data.point_clouds import find_clouds
from regard.models.deep_sets import DeepSetsConfig
from regard.models.mlp import MLPConfig
from regard.models.set_transformer import SetTransformerConfig
from regard.recipes.job import Job, Reading
from regard.recipes.sets.dataset import SetsConfig, SetsCorpus, SetsForm, prepare_sets
from regard.recipes.sets.defaults import KINDS
from regard.recipes.sets.made_sets import CLUSTERS
from regard.recipes.sets.mixture import Mixture
from regard.runs.run import Run
from regard.training.tasks import Classify, Regress, Task


def prepared(recipe: Any, reading: Reading) -> Job:
    """Read the sets, then make model, task and source to their measure."""
    seed, batch = recipe.train.seed, recipe.train.batch
    corpus = prepare_sets(recipe.data, seed=seed, note=reading.note)
    kind = next(name for name, cls in KINDS.items() if cls is type(recipe))
    model = registry.find("models", kind)(measured(recipe.model, corpus.form, corpus.usual))
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


def then(run: Run) -> str:
    """What to type after a training."""
    path = run.section(SetsConfig, "data").path
    if path is None:  # made sets are in no file
        return f"regard look {run.path}"
    if Path(path).expanduser().is_dir():
        path = find_clouds(path)[0].path
    return f"regard predict {run.path} {shlex.quote(path)}"
