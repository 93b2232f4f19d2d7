"""Read inputs: images by the readers of images, rows of tables, point clouds in a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.data.array import Array
from regard.data.batch import generator
from regard.data.dialect import DEFAULTS, TableConfig
from regard.data.point_clouds import find_clouds, join_notes, read_cloud
from regard.data.progress import Note
from regard.data.splits import TEST, TRAIN, VALIDATION, complete_splits, note_missing
from regard.data.targets import find_scale
from regard.errors import RegardError
from regard.recipes.autoencoder.dataset import (
    Decoded,
    InMemory,
    Inputs,
    InputsConfig,
    InputsInfo,
    check_enough,
    find_form,
)
from regard.recipes.autoencoder.read_rows import number_labels, read_rows
from regard.recipes.autoencoder.unlabelled_images import find_any_images
from regard.recipes.dataset import Encodings
from regard.recipes.example import Examples
from regard.recipes.images.config import ImagesConfig
from regard.recipes.images.processor import ImagesProcessor, choose_size, measure_light

ONE_OF_EACH = (
    "every class has one training image, so there is no validation split, and nothing tells how good the model is"
)
OF_POINTS = 21  # the random numbers by which points of a cloud are chosen


def image_reader(config: InputsConfig) -> ImagesProcessor:
    """What reads images, with the same settings."""
    names = ("path", "image", "label", "size", "channels", "fit", "damaged", "decoded")
    return ImagesProcessor(ImagesConfig(**{name: getattr(config, name) for name in names}, asks="classes"))


def read_inputs(config: InputsConfig, *, seed: int, cache: Path, note: Note | None = None) -> Inputs:
    """All inputs, with a split."""
    form = find_form(config.path, config.image)
    if form == "images":
        found = _read_images(config, seed, cache, note)
    elif form == "rows":
        found = _read_rows(config, seed)
    else:
        found = _read_clouds(config, seed, note)
    check_enough(found.name, found.splits, found.unit)
    return found


def _read_images(config: InputsConfig, seed: int, cache: Path, note: Note | None) -> Inputs:
    tell: Note = note or (lambda what, share: None)
    tell("looking for images", None)
    reader = image_reader(config)
    found = find_any_images(reader.config)
    check_enough(found.what, splits_of(found), "images")
    inputs = _decode(found, reader.sized(*choose_size(found, reader.config)), cache, tell)
    labels = inputs.labels or ("",)
    splits = complete_splits(
        inputs.splits, config, seed, what=found.what, unit="images", classes=inputs.classes, names=labels
    )
    notes = inputs.notes
    if config.validation and not (splits == VALIDATION).any():
        notes = (*notes, ONE_OF_EACH)
    if not (inputs.splits == TEST).any():
        notes = (*notes, *note_missing(splits, inputs.classes, labels, "image"))
    learned = np.flatnonzero(splits == TRAIN)
    mean, deviation = measure_light(lambda rows: [{"x": each} for each in inputs.store.take(rows)], learned)
    return replace(inputs, splits=splits, notes=notes, mean=mean, deviation=deviation)


def splits_of(found: Examples) -> Array:
    """What the data says of the split of each image; of those of which it says nothing, TRAIN."""
    return np.zeros(len(found), dtype=np.uint8) if found.splits is None else found.splits


def _decode(found: Examples, reader: ImagesProcessor, cache: Path, note: Note) -> Inputs:
    """The images that can be read, with the splits that the data says."""
    encodings = Encodings(found, reader, reader.keep(found))
    encodings.prepare(cache, note)
    if encodings.errors:
        reader.leave_out(encodings.errors)
    rows = np.array([row for row in range(len(found)) if row not in encodings.errors])
    words = None if found.cells is None else [found.target_of(row) or "" for row in rows.tolist()]
    labels, classes = number_labels(words, len(rows))
    fitted, file_of = reader.fitted, found.files
    return Inputs(
        name=found.what,
        form="images",
        store=Decoded(encodings, rows),
        splits=splits_of(found)[rows],
        shape=(fitted.channels, fitted.size, fitted.size),
        labels=labels,
        classes=classes,
        files=() if file_of is None else tuple(file_of(row) for row in rows.tolist()),
        notes=found.notes,
        skipped=tuple(encodings.errors.values()),
    )


def _read_rows(config: InputsConfig, seed: int) -> Inputs:
    path = str(config.path)
    rows = read_rows(config)
    labels, classes = number_labels(rows.labels, len(rows.numbers))
    splits = complete_splits(
        rows.splits, config, seed, what=path, unit="rows", classes=classes if labels else None, names=labels
    )
    learned = rows.numbers[splits == TRAIN]
    if _all_binary(rows.numbers):
        centre, scale = np.zeros(len(rows.columns)), np.ones(len(rows.columns))
    else:
        centre, scale = learned.mean(0), find_scale(learned)
    return Inputs(
        name=path,
        form="rows",
        notes=rows.notes,
        store=InMemory((rows.numbers - centre) / scale),
        splits=splits,
        shape=(len(rows.columns),),
        labels=labels,
        classes=classes,
        columns=rows.columns,
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
    )


def _all_binary(numbers: Array) -> bool:
    return bool(np.isin(numbers, (0, 1)).all())


def _read_clouds(config: InputsConfig, seed: int, note: Note | None) -> Inputs:
    tell: Note = note or (lambda what, share: None)
    files = find_clouds(str(config.path))
    clouds, notes = [], []
    for number, file in enumerate(files):
        points, said = read_points(file.path, config.points, number, config)
        clouds.append(points)
        notes.append(said)
        tell("reading point clouds", (number + 1) / len(files))
    widths = {cloud.shape[1] for cloud in clouds}
    if len(widths) > 1:
        odd = next(i for i, cloud in enumerate(clouds) if cloud.shape[1] != clouds[0].shape[1])
        raise RegardError(
            f"{files[odd].path} has points of {clouds[odd].shape[1]} numbers, and {files[0].path} of "
            f"{clouds[0].shape[1]}; give clouds of one kind"
        )
    named = [file.label for file in files]
    words = None if None in named else [str(label) for label in named]
    labels, classes = number_labels(words, len(files))
    empty = np.zeros(len(files), dtype=np.uint8)
    splits = complete_splits(
        empty,
        config,
        seed,
        what=str(config.path),
        unit="point clouds",
        classes=classes if labels else None,
        names=labels,
    )
    return Inputs(
        name=str(config.path),
        form="points",
        store=InMemory(np.stack(clouds)),
        splits=splits,
        shape=(config.points, clouds[0].shape[1]),
        labels=labels,
        classes=classes,
        files=tuple(file.path for file in files),
        notes=join_notes(notes),
    )


def read_points(
    path: str, count: int, number: int = 0, config: TableConfig = DEFAULTS
) -> tuple[Array, tuple[str, ...]]:
    """So many points of a file, around the origin, the farthest at distance 1; of a cloud that has fewer, some
    come twice. And how its table was read.   count d"""
    random = generator(OF_POINTS, number)
    points, _, notes = read_cloud(path, count, random, config=config)
    if not len(points):
        raise RegardError(f"{path} has no points")
    if len(points) < count:
        points = np.concatenate((points, points[random.integers(len(points), size=count - len(points))]))
    points = points - points.mean(0)
    far = float(np.linalg.norm(points, axis=-1).max())
    return points / (far if far > 0 else 1.0), notes


# ── other data


def read_other_inputs(
    config: InputsConfig, info: InputsInfo, *, cache: Path, note: Note | None = None
) -> tuple[Inputs, Array]:
    """Other inputs as a run reads its own, and which of them are measured: those for testing, or all where
    nothing says so."""
    form = find_form(config.path, config.image)
    if form != info.form:
        raise RegardError(f"{config.path} holds {form}, and the run was trained on {info.form}; give these")
    if form == "images":
        found = _other_images(config, info, cache, note)
    elif form == "rows":
        found = _other_rows(config, info)
    else:
        found = _read_clouds(replace(config, validation=0.0, test=0.0, folds=None, fold=None), 0, note)
        if found.shape != info.shape:
            raise RegardError(f"{config.path} has points of {found.shape[1]} numbers, the model reads {info.shape[1]}")
    rows = found.rows(TEST)
    return found, rows if len(rows) else np.arange(len(found))


def _other_images(config: InputsConfig, info: InputsInfo, cache: Path, note: Note | None) -> Inputs:
    reader, (channels, size, _) = image_reader(config), info.shape
    found = find_any_images(reader.config)
    inputs = _decode(found, reader.sized(size, channels), cache, note or (lambda what, share: None))
    return replace(inputs, mean=info.mean, deviation=info.deviation)


def _other_rows(config: InputsConfig, info: InputsInfo) -> Inputs:
    columns = () if Path(str(config.path)).suffix.lower() == ".npz" else info.columns
    rows = read_rows(replace(config, columns=columns))
    if len(rows.columns) != len(info.columns):
        raise RegardError(
            f"{config.path} has {len(rows.columns)} columns of numbers, the model reads {len(info.columns)}"
        )
    labels, classes = number_labels(rows.labels, len(rows.numbers))
    return Inputs(
        name=str(config.path),
        form="rows",
        store=InMemory((rows.numbers - np.array(info.centre)) / np.array(info.scale)),
        splits=rows.splits,
        shape=info.shape,
        labels=labels,
        classes=classes,
        columns=info.columns,
        centre=info.centre,
        scale=info.scale,
    )
