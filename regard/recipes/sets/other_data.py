"""Other sets with targets, read as a run reads its own data, to evaluate the run on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from regard.data.array import Array
from regard.data.batch import generator
from regard.data.point_clouds import find_clouds, read_cloud
from regard.data.progress import Note
from regard.data.splits import TEST
from regard.errors import RegardError
from regard.recipes.sets.dataset import SetsConfig, SetsCorpus, SetsForm, standardise_target
from regard.recipes.sets.long_tables import read_long
from regard.recipes.sets.read_sets import class_of, learned_from_tables, notes_on_missing


def read_other_sets(config: SetsConfig, form: SetsForm, path: str, note: Note | None = None) -> SetsCorpus:
    """All sets of a folder of point clouds, or of a table, as one test split."""
    if learned_from_tables(config, form):
        return _of_table(replace(config, path=path), form)
    if not form.fitted:
        raise RegardError(
            f"the task {config.task} is synthetic, so no file holds its targets; leave --data out"
        )
    return _of_clouds(replace(config, path=path, turn=None), form, note or (lambda what, share: None))


def _of_clouds(config: SetsConfig, form: SetsForm, note: Note) -> SetsCorpus:
    files = find_clouds(str(config.path))
    points, words = [], []
    for number, file in enumerate(files):
        cloud = read_cloud(file.path, form.size, generator(0, 6, number))
        try:
            points.append(form.read(cloud.points))
        except ValueError as error:
            raise RegardError(f"{file.path}: {error}") from error
        if not form.each:
            words.append(class_of(file, str(config.path)))
        elif cloud.labels is None:
            raise RegardError(
                f"{file.path} has no labels for its points, but the model predicts a label for each point; "
                "add labels"
            )
        else:
            words += [str(each) for each in cloud.labels.tolist()]
        note("reading", (number + 1) / len(files))
    starts = np.concatenate(([0], np.cumsum([len(cloud) for cloud in points])))
    target = _numbers_of(words, form, str(config.path))
    splits = np.full(len(files), TEST, dtype=np.uint8)
    return SetsCorpus(
        config, form, np.concatenate(points), starts, target, splits, tuple(file.path for file in files)
    )


def _of_table(config: SetsConfig, form: SetsForm) -> SetsCorpus:
    path = str(config.path)
    table = read_long(path, config.id, config.target, form.features, config.missing, trained=True)
    words = list(table.target or ())
    if not form.each:
        for a, b in pairwise(table.starts):
            if len(set(words[a:b])) > 1:
                raise RegardError(
                    f"line {table.lines[a]} of {path} begins a set with several values in column "
                    f"'{config.target}', but the model predicts one for each set; give each set one value"
                )
        words = [words[a] for a in table.starts[:-1]]
    if form.asks == "classes":
        target = _numbers_of(words, form, path)
    else:
        try:
            target = np.array(words).astype(np.float64)
        except ValueError:
            raise RegardError(
                f"column '{config.target}' of {path} must hold numbers, because the model predicts numbers"
            ) from None
        if not form.each:
            target = target[:, None]
    splits = np.full(len(table.sets), TEST, dtype=np.uint8)
    points = form.scaled(form.filled(table.points))
    asked_of = standardise_target(target, form)
    found = SetsCorpus(config, form, points, table.starts, asked_of, splits, table.sets)
    return replace(found, notes=notes_on_missing(table, form))


def _numbers_of(words: Sequence[str], form: SetsForm, path: str) -> Array:
    """The index of each class among the classes of the model."""
    number = {label: i for i, label in enumerate(form.answers)}
    for word in words:
        if word not in number:
            known = ", ".join(form.answers[:5]) + ", ..." * (len(form.answers) > 5)
            raise RegardError(
                f"{path} has the class '{word}', but the model knows {known}; remove it, or correct its name"
            )
    return np.array([number[word] for word in words])
