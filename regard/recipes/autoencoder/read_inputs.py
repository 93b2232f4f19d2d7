"""Read inputs: images by the readers of images, rows of tables, point clouds in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.data.array import Array
from regard.data.batch import generator
from regard.data.point_clouds import find_clouds, read_cloud
from regard.data.progress import Note
from regard.data.splits import TEST, TRAIN, VALIDATION, SplitConfig, draw_splits
from regard.data.targets import find_scale
from regard.errors import RegardError
from regard.recipes.autoencoder.dataset import (
    InMemory,
    Inputs,
    InputsConfig,
    InputsInfo,
    check_enough,
    find_form,
)
from regard.recipes.autoencoder.read_rows import number_labels, read_rows
from regard.recipes.images.dataset import Images, ImagesConfig, load_pixels, read_pixels
from regard.recipes.images.unlabelled_images import NO_LABEL, find_any_images

OF_POINTS = 21  # the random numbers by which points of a cloud are chosen


def images_config(config: InputsConfig) -> ImagesConfig:
    """The same settings, for the readers of images."""
    names = ("path", "image", "label", "size", "channels", "fit", "damaged", "decoded")
    splits = ("validation", "test", "folds", "fold", "seed")
    return ImagesConfig(**{name: getattr(config, name) for name in (*names, *splits)})


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
    found = find_any_images(config.path, config.image, config.label)
    check_enough(found.name, found.splits, "images")
    return _of_images(read_pixels(found, images_config(config), seed=seed, cache=cache, note=note))


def _of_images(images: Images) -> Inputs:
    found = images.labelled
    labels = () if found.labels == (NO_LABEL,) else found.labels
    return Inputs(
        name=found.name,
        form="images",
        store=images.store,
        splits=found.splits,
        shape=(images.channels, images.size, images.size),
        labels=labels,
        classes=found.classes,
        mean=images.mean,
        deviation=images.deviation,
        files=found.files,
        notes=found.notes,
        skipped=images.skipped,
    )


def _read_rows(config: InputsConfig, seed: int) -> Inputs:
    path = str(config.path)
    rows = read_rows(config)
    labels, classes = number_labels(rows.labels, len(rows.numbers))
    splits = _complete(rows.splits, config, seed, path, "rows", classes if labels else None, labels)
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
    clouds = []
    for number, file in enumerate(files):
        clouds.append(read_points(file.path, config.points, number))
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
    splits = _complete(
        empty, config, seed, str(config.path), "point clouds", classes if labels else None, labels
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
    )


def read_points(path: str, count: int, number: int = 0) -> Array:
    """So many points of a file, around the origin, the farthest at distance 1; of a cloud that has fewer, some
    come twice.   count d"""
    random = generator(OF_POINTS, number)
    points = read_cloud(path, count, random).points
    if not len(points):
        raise RegardError(f"{path} has no points")
    if len(points) < count:
        points = np.concatenate((points, points[random.integers(len(points), size=count - len(points))]))
    points = points - points.mean(0)
    far = float(np.linalg.norm(points, axis=-1).max())
    return points / (far if far > 0 else 1.0)


def _complete(
    given: Array,
    config: SplitConfig,
    seed: int,
    name: str,
    unit: str,
    classes: Array | None,
    labels: Sequence[str],
) -> Array:
    """The split of each input; of the splits that the data does not have, a share is taken from training."""
    splits, rows = given.copy(), np.flatnonzero(given == TRAIN)
    own = [word for word, number in (("validation", VALIDATION), ("test", TEST)) if (given == number).any()]
    if own and config.folds is not None:
        raise RegardError(
            f"{name} has its own {' and '.join(own)} split, so it cannot be cut into {config.folds} folds; use "
            f"--train.seeds {config.folds}"
        )
    if "test" in own and config.test:
        raise RegardError(f"{name} has its own test split, got --data.test {config.test}; leave it out")
    shares = config
    if "validation" in own:
        shares = replace(shares, validation=0.0)
    if "test" in own:
        shares = replace(shares, test=0.0)
    few = None if classes is None else classes[rows]
    splits[rows] = draw_splits(len(rows), shares, seed, unit=unit, classes=few, names=labels)
    return splits


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
            raise RegardError(
                f"{config.path} has points of {found.shape[1]} numbers, the model reads {info.shape[1]}"
            )
    rows = found.rows(TEST)
    return found, rows if len(rows) else np.arange(len(found))


def _other_images(config: InputsConfig, info: InputsInfo, cache: Path, note: Note | None) -> Inputs:
    found = find_any_images(config.path, config.image, config.label)
    channels, size, _ = info.shape
    found, store, skipped = load_pixels(found, size, channels, images_config(config), cache, note)
    images = Images(found, store, size, channels, info.mean, info.deviation, skipped)
    return _of_images(images)


def _other_rows(config: InputsConfig, info: InputsInfo) -> Inputs:
    columns = None if Path(str(config.path)).suffix.lower() == ".npz" else ",".join(info.columns)
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
