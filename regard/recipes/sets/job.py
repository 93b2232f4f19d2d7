"""Sets: point clouds, tables and synthetic tasks become a task, batches, and a model config that fits
them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from regard.data.splits import SPLITS, TEST, note_missing
from regard.data.targets import Numbers
from regard.errors import RegardError
from regard.models.additive import AdditiveConfig
from regard.models.deep_sets import DeepSetsConfig
from regard.models.mlp import MLPConfig
from regard.models.set_transformer import SetTransformerConfig
from regard.recipes.job import DataContext, Example, Job, Split
from regard.recipes.sets.dataset import SetsConfig, SetsCorpus, SetsForm, SetsInfo
from regard.recipes.sets.defaults import model_kind
from regard.recipes.sets.made_sets import CLUSTERS
from regard.recipes.sets.other_data import read_other_sets
from regard.recipes.sets.read_sets import draw_test_sets, prepare_sets
from regard.recipes.sets.show import show_set
from regard.recipes.sets.task import labels_of, task_of
from regard.recipes.settings import Settings
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.tasks import Task


def prepare_job(settings: Settings, context: DataContext) -> Job:
    """Read the sets, then make the task, the source and a model config that fits them."""
    seed, batch = settings.train.seed, settings.train.batch
    drawn = settings.data.seed_of(seed)
    corpus = prepare_sets(settings.data, seed=drawn, note=context.note)
    form = corpus.form
    test = None
    if corpus.info.test:
        test = Split(
            name="test",
            count=corpus.info.test,
            unit="sets",
            batches=lambda: _holding(corpus, TEST, drawn).batches(TEST, batch, drawn),
        )
    return Job(
        kind=model_kind(settings),
        model=_measured(settings.model, form, corpus.usual),
        task=task_of(form),
        source=corpus.source(batch, seed),
        info=corpus.info,
        unit=f"{form.element}s",
        examples="sets",
        labels=labels_of(form),
        notes=(*corpus.notes, *_notes_on(corpus)),
        validation=corpus.info.validation,
        test=test,
        rows=(lambda split: corpus.rows_of(SPLITS[split])) if corpus.names else None,
        show=lambda split, place: _show(_holding(corpus, SPLITS[split], drawn), SPLITS[split], place),
        number=_number(form),
    )


def _holding(corpus: SetsCorpus, split: int, seed: int) -> SetsCorpus:
    """The sets that hold a split: test sets of a generated task are drawn when they are needed."""
    if split == TEST and corpus.drawn_test:
        return draw_test_sets(corpus, seed)
    return corpus


def _show(corpus: SetsCorpus, split: int, place: int) -> Example:
    return show_set(corpus, int(corpus.rows_of(split)[place]))


def other_split(run: Run, path: str, context: DataContext) -> tuple[Task, Split, tuple[str, ...] | None]:
    """Other sets with targets, read as the run reads its own data."""
    config, form = run.section(SetsConfig, "data"), run.section(SetsInfo, "corpus").form
    corpus = read_other_sets(config, form, path, context.note)
    batch = run.section(TrainConfig, "train").batch
    split = Split(
        name=path,
        count=len(corpus.splits),
        unit="sets",
        batches=lambda: corpus.batches(TEST, batch, seed=0),
        rows=lambda: corpus.rows_of(TEST),
        notes=corpus.notes,
    )
    return task_of(form), split, labels_of(form)


def _number(form: SetsForm) -> Numbers | None:
    """The number that the model predicts; None: it predicts classes, or several numbers."""
    if form.asks != "numbers" or len(form.answers) != 1 or form.each:
        return None
    return Numbers(name=form.answers[0], centre=form.target_centre[0], scale=form.target_scale[0])


def _notes_on(corpus: SetsCorpus) -> tuple[str, ...]:
    """Notes on sets from files: which are empty, which features have one value in the whole train split, and
    which classes a split lacks."""
    if not corpus.names:
        return ()
    sizes = np.diff(corpus.starts)
    found: list[str] = []
    if corpus.form.asks == "classes" and not corpus.form.each:
        found += note_missing(corpus.splits, corpus.target, corpus.form.answers, "set")
    if len(empty := np.flatnonzero(sizes == 0)):
        which = f"{len(empty):,} of {len(sizes):,} sets are empty, such as {corpus.names[empty[0]]}"
        found.append(f"{which}; the model gives all empty sets the same prediction")
    learned = corpus.points[np.repeat(~corpus.held, sizes)]
    if still := [
        name
        for name, column in zip(corpus.form.features, learned.T, strict=True)
        if (column == column[:1]).all()
    ]:
        if len(still) > 1:
            each, it = ("each have the same value", "them")
        else:
            each, it = ("has the same value", "it")
        found.append(
            f"{', '.join(still)} {each} in the whole train split, so the model cannot learn from {it}"
        )
    return tuple(found)


def _measured(config: Any, form: SetsForm, usual: int) -> Any:
    """The model config with the sizes that the data decides."""
    outputs = {"classes": len(form.answers), "numbers": len(form.answers), "clusters": CLUSTERS * 5}[
        form.asks
    ]
    found: dict[str, Any] = {"features": len(form.features), "outputs": outputs}
    if isinstance(config, MLPConfig):
        if form.each:
            raise RegardError(
                "an mlp predicts one target for each set, but here every element has a target; "
                "choose another --model"
            )
        return replace(config, size=form.size, **found)
    if isinstance(config, AdditiveConfig):
        if form.each or form.asks == "clusters":
            raise RegardError(
                "an additive model sums the evidence of all elements for one prediction, but here "
                f"{'every element has a target' if form.each else 'clusters are asked'}; choose another --model"
            )
        return replace(config, usual=usual, contrast=form.asks == "classes", **found)
    if isinstance(config, DeepSetsConfig):
        found["usual"] = usual
    if isinstance(config, SetTransformerConfig):
        if form.asks == "clusters":  # one seed for each cluster; the seeds must agree which takes which
            found |= {"outputs": 5, "seeds": CLUSTERS, "after": max(1, config.after)}
        elif config.seeds > 1 and not form.each:
            raise RegardError(
                f"classification and regression need one seed, got --model.seeds {config.seeds}; leave it out"
            )
    return replace(config, each=form.each, **found)
