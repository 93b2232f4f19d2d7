"""Sets from files or made by the program: point clouds, tables in long form, and synthetic tasks, with their
splits."""

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
from regard.errors import RegardError, nearest
from regard.recipes.sets.dataset import SetsConfig, SetsCorpus, SetsForm, draw, in_ball, standardise_target
from regard.recipes.sets.long_tables import read_long
from regard.recipes.sets.made_sets import MADE

FEW = 10  # whole numbers with no more different values than this are classes


JUDGED, TOGETHER = 512, 32  # sets that a made task is judged by, and of these as many as are made at once


USUAL = 4096  # sets that say how large the numbers of a made task usually are


CLOUD_POINTS = 1024  # of a cloud from a file that are read at once, if nothing is said


# times as many points are kept of a large cloud as are read at once, so that each step can draw others
SPARE = 4


def prepare_sets(config: SetsConfig, *, seed: int, note: Note | None = None) -> SetsCorpus:
    """All sets of a config, with a split drawn by the seed."""
    tell: Note = note or (lambda what, share: None)
    if config.path is None:
        return _made(config, seed)
    path = os.path.expanduser(config.path)
    if not os.path.exists(path):
        near = nearest(config.path, MADE)
        hint = f" (is it {near}?)" if near else ""
        raise FileNotFoundError(
            f"there is no {config.path}{hint}; give a folder of point clouds, a table (.csv, .tsv, "
            f".parquet), or a made task: {', '.join(MADE)}"
        )
    if os.path.isdir(path):
        return _of_clouds(config, seed, tell)
    if looks_like_table(path):
        tell("reading", None)
        return _of_table(config, seed)
    raise RegardError(
        f"sets are a folder of point clouds or a table (.csv, .tsv, .parquet), got {config.path}"
    )


def _made(config: SetsConfig, seed: int) -> SetsCorpus:
    """Sets to judge by, and to learn from if their number is given; each by its own number, so more are the
    same and more."""
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
    if numbers:  # by the task, not by the seed: a model of one seed can be judged by the sets of another
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
                f"but {files[0].path} has {width}; all must have as many"
            )
        note("reading", (number + 1) / len(files))
    if config.turn not in (None, "none") and clouds[0].points.shape[1] != 3:
        raise RegardError(
            f"only points x y z can be turned, those of {config.path} have {clouds[0].points.shape[1]} "
            "numbers"
        )
    starts = np.concatenate(([0], np.cumsum([len(cloud.points) for cloud in clouds])))
    labels = [cloud.labels for cloud in clouds]
    labelled = [each for each in labels if each is not None]
    if labelled and len(labelled) < len(files):
        missing = files[next(i for i, each in enumerate(labels) if each is None)].path
        raise RegardError(
            f"{missing} has no labels for its points, and other files have; give all of them labels, or none"
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
    if width > 3:  # what is no place is standardised as columns of a table are
        centre, scale = _standard(points[_things(starts, ~held)][:, 3:])
        form = replace(form, centre=(0.0,) * 3 + centre, scale=(1.0,) * 3 + scale)
    return SetsCorpus(
        config, form, form.scaled(points), starts, target, held, tuple(file.path for file in files)
    )


def learned_from_tables(config: SetsConfig, form: SetsForm) -> bool:
    return config.path is not None and not form.fitted


def files_of(path: str, config: SetsConfig, form: SetsForm) -> list[str]:
    """A folder stands for all clouds in it, anything else for itself."""
    if os.path.isdir(path) and not learned_from_tables(config, form):
        return [file.path for file in find_clouds(path)]
    return [path]


def sets_in(path: str, config: SetsConfig, form: SetsForm) -> Iterator[tuple[str, Array]]:
    """The sets of a file and what they are called: those of a table if the model learned from one, else the
    cloud in it."""
    if not os.path.isfile(path):
        if os.path.isdir(path):
            what = f"{path} is a folder"
        else:
            what = f"there is no file {path}"
        raise FileNotFoundError(f"{what}; give files of sets such as the model learned from")
    if learned_from_tables(config, form):
        table = read_long(path, config.id, None, form.features)
        for number, name in enumerate(table.sets):
            yield f"{path}: {name}", table.points[table.starts[number] : table.starts[number + 1]]
    else:
        yield path, read_cloud(path, form.size if form.fitted else None, generator(0)).points


def class_of(file: CloudFile, folder: str) -> str:
    if file.label is None:
        raise RegardError(
            f"{file.path} is in no folder of a class; put the clouds of each class in a folder of {folder} "
            "that is named after it (or give labels for each point: an .npz with arrays points and labels)"
        )
    return file.label


def _of_table(config: SetsConfig, seed: int) -> SetsCorpus:
    path = str(config.path)
    if config.turn is not None:
        raise RegardError(f"only clouds of points can be turned, and {path} is a table; leave turn out")
    if config.columns is None:
        columns = None
    else:
        columns = [name.strip() for name in config.columns.split(",")]
    table = read_long(path, config.id, config.target, columns)
    words = table.target or ()
    starts = table.starts
    each = any(len(set(words[a:b])) > 1 for a, b in pairwise(starts))
    asked = list(words) if each else [words[a] for a in starts[:-1]]
    numbers = _as_numbers(asked)
    few = numbers is not None and len(set(asked)) <= FEW and bool((numbers == np.round(numbers)).all())
    if config.asks == "numbers" and numbers is None:
        wrong = next(i for i, word in enumerate(words) if _as_numbers([word]) is None)
        raise RegardError(
            f"line {table.lines[wrong]} of {path} has {words[wrong]!r} in column '{config.target}', where a "
            "number should be; with --data.asks classes it may be text"
        )
    sets = len(starts) - 1
    shared: dict[str, Any] = {
        "features": table.names,
        "each": each,
        "size": config.points or int(np.diff(starts).max()),
    }
    if numbers is None or config.asks == "classes" or (config.asks == "auto" and few):
        answers = sort_labels(asked)
        number_of = {label: i for i, label in enumerate(answers)}
        target: Array = np.array([number_of[word] for word in asked])
        held = _split(target, answers, config, seed, each=each, sets=sets)
        shared |= {"asks": "classes", "answers": answers}
    else:
        held = _random_split(config, seed, sets)
        target = numbers if each else numbers[:, None]
        middle, wide = _standard(target[_things(starts, ~held) if each else ~held].reshape(-1, 1))
        shared |= {
            "asks": "numbers",
            "answers": (config.target,),
            "target_centre": middle,
            "target_scale": wide,
        }
    centre, scale = _standard(table.points[_things(starts, ~held)])
    form = SetsForm(centre=centre, scale=scale, **shared)
    return SetsCorpus(
        config, form, form.scaled(table.points), starts, standardise_target(target, form), held, table.sets
    )


def _split(
    target: Array, answers: tuple[str, ...], config: SetsConfig, seed: int, *, each: bool, sets: int
) -> Array:
    """Which sets are held out, of each class its share; with a label for each thing, any."""
    if len(answers) < 2:
        raise RegardError(f"{config.path} has only the class '{answers[0]}'; there must be two to tell apart")
    if each:
        return _random_split(config, seed, sets)
    counts = np.bincount(target)
    if config.validation and counts.min() < 2:
        alone = answers[int(counts.argmin())]
        raise RegardError(
            f"{config.path} has one set of class '{alone}', too few to learn from one and be judged by "
            "another; give more of it, leave it out, or use --data.validation 0"
        )
    return stratified_mask(target, config.validation, seed)


def _random_split(config: SetsConfig, seed: int, sets: int) -> Array:
    held = np.zeros(sets, dtype=bool)
    held[generator(seed, 0).permutation(sets)[: held_out(sets, config.validation)]] = True
    return held


def _things(starts: Array, sets: Array) -> Array:
    """Which things belong to these sets.   bool sets -> bool things"""
    return np.repeat(sets, np.diff(starts))


def _as_numbers(words: list[str]) -> Array | None:
    try:
        found = np.array(words).astype(np.float64)
    except ValueError:
        return None
    if np.isfinite(found).all():
        return found
    return None


def _standard(values: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each column; 1 for one that never changes.   t d"""
    deviation = values.std(0)
    return tuple(values.mean(0).tolist()), tuple(np.where(deviation > 1e-12, deviation, 1.0).tolist())
