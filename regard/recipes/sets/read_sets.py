"""Reading sets: point clouds, tables in long form, and synthetic tasks, with their splits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from regard.data.array import Array
from regard.data.batch import generator, held_out
from regard.data.labels import sort_labels
from regard.data.point_clouds import CloudFile, find_clouds, read_cloud
from regard.data.progress import Note
from regard.data.splits import stratified_mask
from regard.data.tables import looks_like_table
from regard.data.targets import explain_asks, first_without_number, infer_asks, read_numbers
from regard.errors import RegardError, nearest
from regard.recipes.sets.dataset import SetsConfig, SetsCorpus, SetsForm, draw, in_ball, standardise_target
from regard.recipes.sets.long_tables import read_long
from regard.recipes.sets.made_sets import MADE

JUDGED, TOGETHER = 512, 32  # sets in the validation split of a synthetic task, and how many are drawn at once


USUAL = 4096  # sets that give the mean and standard deviation of a synthetic task


CLOUD_POINTS = 1024  # points of a point cloud from a file in a batch, by default


# a large point cloud keeps so many times the points of a batch, so that each step can draw others
SPARE = 4


def prepare_sets(config: SetsConfig, *, seed: int, note: Note | None = None) -> SetsCorpus:
    """All sets of a config, with a split drawn by the seed."""
    tell: Note = note or (lambda what, share: None)
    if config.path is None:
        return _made(config, seed)
    path = os.path.expanduser(config.path)
    if not os.path.exists(path):
        near = nearest(config.path, MADE)
        hint = f" (did you mean {near}?)" if near else ""
        raise FileNotFoundError(
            f"there is no {config.path}{hint}; give a folder of point clouds, a table (.csv, .tsv, "
            f".parquet), or a synthetic task: {', '.join(MADE)}"
        )
    if os.path.isdir(path):
        return _of_clouds(config, seed, tell)
    if looks_like_table(path):
        tell("reading", None)
        return _of_table(config, seed)
    raise RegardError(
        f"sets must be a folder of point clouds or a table (.csv, .tsv, .parquet), got {config.path}"
    )


def _made(config: SetsConfig, seed: int) -> SetsCorpus:
    """The validation split, and the train split if `sets` gives its size. Each set is drawn by its own
    number, so a larger split begins with the same sets."""
    task = MADE[config.task]
    parts = [draw(config, TOGETHER, generator(seed, 2, i)) for i in range(JUDGED // TOGETHER)]
    judged = len(parts) * TOGETHER
    if config.sets is not None:
        parts += [draw(config, 1, generator(seed, 1, i)) for i in range(config.sets)]
    points, target = (
        np.concatenate([part.points for part in parts]),
        np.concatenate([part.target for part in parts]),
    )
    starts = np.concatenate(([0], np.cumsum(np.concatenate([np.diff(part.starts) for part in parts]))))
    numbers = task.numbers is not None
    centre, scale = (0.0,) * points.shape[1], (1.0,) * points.shape[1]
    middle: tuple[float, ...] = ()
    wide: tuple[float, ...] = ()
    if (
        numbers
    ):  # the scale depends on the task alone: a model of one seed can be evaluated on sets of another
        usual = draw(config, USUAL, generator(0, 7))
        (centre, scale), (middle, wide) = _standard(usual.points), _standard(usual.target)
    asks: Literal["classes", "numbers", "clusters"] = "numbers" if numbers else "clusters"
    if task.classes:
        asks = "classes"
    form = SetsForm(
        features=task.features,
        centre=centre,
        scale=scale,
        fitted=config.task == "solids",
        asks=asks,
        answers=task.classes or task.numbers or (),
        target_centre=middle,
        target_scale=wide,
        size=config.points or task.most,
    )
    held = np.arange(len(starts) - 1) < judged
    return SetsCorpus(config, form, form.scaled(points), starts, standardise_target(target, form), held)


def _of_clouds(config: SetsConfig, seed: int, note: Note) -> SetsCorpus:
    files = find_clouds(str(config.path))
    limit = config.points or CLOUD_POINTS
    clouds = []
    for number, file in enumerate(files):
        clouds.append(read_cloud(file.path, SPARE * limit, generator(seed, 6, number)))
        width = clouds[0].points.shape[1]
        if clouds[-1].points.shape[1] != width:
            raise RegardError(
                f"{file.path} has {clouds[-1].points.shape[1]} numbers for each point, "
                f"but {files[0].path} has {width}; give all files the same number of columns"
            )
        note("reading", (number + 1) / len(files))
    if config.turn not in (None, "none") and clouds[0].points.shape[1] != 3:
        raise RegardError(
            f"turn needs points with 3 numbers (x, y, z), but those of {config.path} have "
            f"{clouds[0].points.shape[1]}; leave turn out"
        )
    starts = np.concatenate(([0], np.cumsum([len(cloud.points) for cloud in clouds])))
    labels = [cloud.labels for cloud in clouds]
    labelled = [each for each in labels if each is not None]
    if labelled and len(labelled) < len(files):
        missing = files[next(i for i, each in enumerate(labels) if each is None)].path
        raise RegardError(
            f"{missing} has no labels for its points, but other files have; give labels to all files, or "
            "to none"
        )
    if labelled:
        words = [str(each) for each in np.concatenate(labelled).tolist()]
    else:
        words = [class_of(file, str(config.path)) for file in files]
    answers = sort_labels(words)
    number_of = {label: i for i, label in enumerate(answers)}
    target = np.array([number_of[word] for word in words])
    held = _split(target, answers, config, seed, each=bool(labelled), sets=len(files))
    width = clouds[0].points.shape[1]
    names = (*"xyz", *(f"number {i + 1}" for i in range(3, width)))[:width]
    form = SetsForm(
        features=names,
        centre=(0.0,) * width,
        scale=(1.0,) * width,
        fitted=True,
        answers=answers,
        each=bool(labelled),
        size=limit,
    )
    points = np.concatenate([in_ball(cloud.points) for cloud in clouds])
    if width > 3:  # numbers beyond x y z are standardised like columns of a table
        centre, scale = _standard(points[_elements_of(starts, ~held)][:, 3:])
        form = replace(form, centre=(0.0,) * 3 + centre, scale=(1.0,) * 3 + scale)
    return SetsCorpus(
        config, form, form.scaled(points), starts, target, held, tuple(file.path for file in files)
    )


def learned_from_tables(config: SetsConfig, form: SetsForm) -> bool:
    return config.path is not None and not form.fitted


def files_of(path: str, config: SetsConfig, form: SetsForm) -> list[str]:
    """All point clouds of a folder; any other path is returned as it is."""
    if os.path.isdir(path) and not learned_from_tables(config, form):
        return [file.path for file in find_clouds(path)]
    return [path]


def sets_in(path: str, config: SetsConfig, form: SetsForm) -> Iterator[tuple[str, Array]]:
    """The sets of a file with their names: the sets of a table if the model was trained on a table, else one
    point cloud."""
    if not os.path.isfile(path):
        if os.path.isdir(path):
            what = f"{path} is a folder"
        else:
            what = f"there is no file {path}"
        raise FileNotFoundError(f"{what}; give files in the format of the training data")
    if learned_from_tables(config, form):
        table = read_long(path, config.id, None, form.features)
        for number, name in enumerate(table.sets):
            yield f"{path}: {name}", table.points[table.starts[number] : table.starts[number + 1]]
    else:
        yield path, read_cloud(path, form.size if form.fitted else None, generator(0)).points


def class_of(file: CloudFile, folder: str) -> str:
    if file.label is None:
        raise RegardError(
            f"{file.path} is not in the folder of a class; put the point clouds of each class in one "
            "folder of "
            f"{folder} that has the name of the class (or label each point: an .npz with arrays points and "
            "labels)"
        )
    return file.label


def _of_table(config: SetsConfig, seed: int) -> SetsCorpus:
    path = str(config.path)
    if config.turn is not None:
        raise RegardError(f"turn needs point clouds, and {path} is a table; leave turn out")
    if config.columns is None:
        columns = None
    else:
        columns = [name.strip() for name in config.columns.split(",")]
    table = read_long(path, config.id, config.target, columns)
    words = table.target or ()
    starts = table.starts
    each = any(len(set(words[a:b])) > 1 for a, b in pairwise(starts))
    if each:
        asked = list(words)
    else:
        asked = [words[a] for a in starts[:-1]]
    numbers = read_numbers(asked)
    wrong = first_without_number(words) if config.asks == "numbers" else None
    if wrong is not None:
        raise RegardError(
            f"line {table.lines[wrong]} of {path} has {words[wrong]!r} in column '{config.target}', "
            "expected a "
            "number; use --data.asks classes for targets that are text"
        )
    sets = len(starts) - 1
    shared: dict[str, Any] = {
        "features": table.names,
        "each": each,
        "size": config.points or int(np.diff(starts).max()),
    }
    if numbers is None or infer_asks(asked, config.asks) == "classes":
        answers = sort_labels(asked)
        number_of = {label: i for i, label in enumerate(answers)}
        target: Array = np.array([number_of[word] for word in asked])
        held = _split(target, answers, config, seed, each=each, sets=sets)
        shared |= {"asks": "classes", "answers": answers}
    else:
        held = _random_split(config, seed, sets)
        target = numbers if each else numbers[:, None]
        middle, wide = _standard(target[_elements_of(starts, ~held) if each else ~held].reshape(-1, 1))
        shared |= {
            "asks": "numbers",
            "answers": (config.target,),
            "target_centre": middle,
            "target_scale": wide,
        }
    centre, scale = _standard(table.points[_elements_of(starts, ~held)])
    form = SetsForm(centre=centre, scale=scale, **shared)
    return SetsCorpus(
        config,
        form,
        form.scaled(table.points),
        starts,
        standardise_target(target, form),
        held,
        table.sets,
        explain_asks(asked, config.asks, config.target),
    )


def _split(
    target: Array, answers: tuple[str, ...], config: SetsConfig, seed: int, *, each: bool, sets: int
) -> Array:
    """The sets of the validation split: the same share of each class, or any sets if each element has a
    label."""
    if len(answers) < 2:
        raise RegardError(f"{config.path} has only the class '{answers[0]}'; a classifier needs at least two")
    if each:
        return _random_split(config, seed, sets)
    counts = np.bincount(target)
    if config.validation and counts.min() < 2:
        alone = answers[int(counts.argmin())]
        raise RegardError(
            f"{config.path} has one set of class '{alone}', but the train and the validation split need "
            "one each; "
            "add more sets, remove the class, or use --data.validation 0"
        )
    return stratified_mask(target, config.validation, seed)


def _random_split(config: SetsConfig, seed: int, sets: int) -> Array:
    held = np.zeros(sets, dtype=bool)
    held[generator(seed, 0).permutation(sets)[: held_out(sets, config.validation)]] = True
    return held


def _elements_of(starts: Array, sets: Array) -> Array:
    """Which elements belong to these sets.   bool sets -> bool elements"""
    return np.repeat(sets, np.diff(starts))


def _standard(values: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each column; 1 for one that never changes.   t d"""
    deviation = values.std(0)
    return tuple(values.mean(0).tolist()), tuple(np.where(deviation > 1e-12, deviation, 1.0).tolist())
