"""Reading sets: point clouds, tables in long form, and synthetic tasks, with their splits."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from regard.data.array import Array
from regard.data.batch import generator
from regard.data.class_folders import ClassFile
from regard.data.labels import sort_labels
from regard.data.point_clouds import find_clouds, read_cloud
from regard.data.progress import Note
from regard.data.splits import TEST, TRAIN, VALIDATION, draw_splits
from regard.data.table_rows import looks_like_table
from regard.data.targets import explain_asks, find_scale, first_without_number, infer_asks, read_numbers
from regard.errors import RegardError, nearest
from regard.recipes.sets.dataset import SetsConfig, SetsCorpus, SetsForm, draw, in_ball, standardise_target
from regard.recipes.sets.long_tables import LongTable, read_long
from regard.recipes.sets.made_sets import MADE

# sets in the validation split of a synthetic task, and in its test split, and how many are drawn at once
JUDGED, TOGETHER = 512, 32
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
            f".parquet, .jsonl), or a synthetic task: {', '.join(MADE)}"
        )
    if os.path.isdir(path):
        return _of_clouds(config, seed, tell)
    if looks_like_table(path):
        tell("reading", None)
        return _of_table(config, seed)
    raise RegardError(
        f"sets must be a folder of point clouds or a table (.csv, .tsv, .parquet, .jsonl), got {config.path}"
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
    splits = np.where(np.arange(len(starts) - 1) < judged, VALIDATION, TRAIN).astype(np.uint8)
    target = standardise_target(target, form)
    drawn_test = 0 if config.test == 0 else JUDGED
    return SetsCorpus(config, form, form.scaled(points), starts, target, splits, drawn_test=drawn_test)


def draw_test_sets(corpus: SetsCorpus, seed: int) -> SetsCorpus:
    """The test split of a synthetic task: sets that are in no other split."""
    parts = [
        draw(corpus.config, TOGETHER, generator(seed, 8, i)) for i in range(corpus.drawn_test // TOGETHER)
    ]
    points = corpus.form.scaled(np.concatenate([part.points for part in parts]))
    target = standardise_target(np.concatenate([part.target for part in parts]), corpus.form)
    starts = np.concatenate(([0], np.cumsum(np.concatenate([np.diff(part.starts) for part in parts]))))
    splits = np.full(len(starts) - 1, TEST, dtype=np.uint8)
    return replace(corpus, points=points, starts=starts, target=target, splits=splits)


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
    splits = _split(target, answers, config, seed, each=bool(labelled), sets=len(files))
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
        centre, scale = _standard(points[_elements_of(starts, splits == TRAIN)][:, 3:])
        form = replace(form, centre=(0.0,) * 3 + centre, scale=(1.0,) * 3 + scale)
    return SetsCorpus(
        config, form, form.scaled(points), starts, target, splits, tuple(file.path for file in files)
    )


def learned_from_tables(config: SetsConfig, form: SetsForm) -> bool:
    return config.path is not None and not form.fitted


def files_of(path: str, config: SetsConfig, form: SetsForm) -> list[str]:
    """All point clouds of a folder; any other path is returned as it is."""
    if os.path.isdir(path) and not learned_from_tables(config, form):
        return [file.path for file in find_clouds(path)]
    return [path]


def check_file(path: str) -> None:
    """Raise unless there is a file of this name."""
    if not os.path.isfile(path):
        if os.path.isdir(path):
            what = f"{path} is a folder"
        else:
            what = f"there is no file {path}"
        raise FileNotFoundError(f"{what}; give files in the format of the training data")


def sets_in(path: str, config: SetsConfig, form: SetsForm) -> Iterator[tuple[str, Array]]:
    """The sets of a file with their names: the sets of a table if the model was trained on a table, else one
    point cloud."""
    check_file(path)
    if learned_from_tables(config, form):
        table = read_long(path, config.id, None, form.features, config.missing, never=config.target)
        for number, name in enumerate(table.sets):
            points = form.filled(table.points[table.starts[number] : table.starts[number + 1]])
            yield f"{path}: {name}", points
    else:
        yield path, read_cloud(path, form.size if form.fitted else None, generator(0)).points


def class_of(file: ClassFile, folder: str) -> str:
    if file.label is None:
        raise RegardError(
            f"{file.path} is not in the folder of a class; put the point clouds of each class in one folder "
            f"of {folder} that has the name of the class (or label each point: an .npz with arrays points "
            "and labels)"
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
    table = read_long(path, config.id, config.target, columns, config.missing)
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
            f"line {table.lines[wrong]} of {path} has {words[wrong]!r} in column '{config.target}', expected "
            "a number; use --data.asks classes for targets that are text"
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
        splits = _split(target, answers, config, seed, each=each, sets=sets)
        shared |= {"asks": "classes", "answers": answers}
    else:
        splits = draw_splits(sets, config, seed, unit="sets")
        target = numbers if each else numbers[:, None]
        learned = splits == TRAIN
        middle, wide = _standard(target[_elements_of(starts, learned) if each else learned].reshape(-1, 1))
        shared |= {
            "asks": "numbers",
            "answers": (config.target,),
            "target_centre": middle,
            "target_scale": wide,
        }
    learned = table.points[_elements_of(starts, splits == TRAIN)]
    fill = _medians(learned, table.names, path) if config.missing == "fill" else None
    centre, scale = _standard(learned if fill is None else np.where(np.isnan(learned), fill, learned))
    form = SetsForm(centre=centre, scale=scale, fill=fill, **shared)
    points, asked_of = form.scaled(form.filled(table.points)), standardise_target(target, form)
    corpus = SetsCorpus(config, form, points, starts, asked_of, splits, table.sets)
    said = explain_asks(asked, config.asks, config.target)
    return replace(corpus, notes=(*said, *notes_on_missing(table, form)))


def _medians(points: Array, names: Sequence[str], path: str) -> tuple[float, ...]:
    """The median of each column without its missing cells, which are NaN."""
    for name, column in zip(names, points.T, strict=True):
        if np.isnan(column).all():
            raise RegardError(
                f"every cell of column '{name}' of {path} is missing in the train split, so there is no median "
                "to fill in; name the other columns with --data.columns"
            )
    return tuple(np.nanmedian(points, 0).tolist())


def notes_on_missing(table: LongTable, form: SetsForm) -> tuple[str, ...]:
    """How many rows were left out, and which cells were filled with what."""
    found = []
    if table.dropped:
        rows = f"{table.dropped:,} row{'s' if table.dropped > 1 else ''}"
        found.append(f"left out {rows} of {table.table.path} with a missing cell")
    if table.holes and form.fill is not None:
        medians = dict(zip(form.features, form.fill, strict=True))
        each = ", ".join(f"{name} {count:,} × {medians[name]:.6g}" for name, count in table.holes.items())
        count = sum(table.holes.values())
        cells = f"{count:,} missing cell{'s' if count > 1 else ''}"
        found.append(f"filled {cells} with the median of the train split: {each}")
    return tuple(found)


def _split(
    target: Array, answers: tuple[str, ...], config: SetsConfig, seed: int, *, each: bool, sets: int
) -> Array:
    """The split of each set: the same share of each class, or any sets if each element has a label."""
    if len(answers) < 2:
        raise RegardError(f"{config.path} has only the class '{answers[0]}'; a classifier needs at least two")
    if each:
        return draw_splits(sets, config, seed, unit="sets")
    counts = np.bincount(target)
    if config.validation and counts.min() < 2:
        alone = answers[int(counts.argmin())]
        raise RegardError(
            f"{config.path} has one set of class '{alone}', but the train and the validation split need one "
            "each; add more sets, remove the class, or use --data.validation 0"
        )
    return draw_splits(sets, config, seed, unit="sets", classes=target, names=answers)


def _elements_of(starts: Array, sets: Array) -> Array:
    """Which elements belong to these sets.   bool sets -> bool elements"""
    return np.repeat(sets, np.diff(starts))


def _standard(values: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each column; 1 for one that never changes.   t d"""
    return tuple(values.mean(0).tolist()), tuple(find_scale(values).tolist())
