"""Images with labels as batches: decoded once, in parallel, kept as bytes of one size, and read from there
in every epoch.

Batches hold bytes, b c s s; the task makes numbers of them, turns and mixes them on the device that learns.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field

from regard.config import Amount, Count, Natural, Share, Size, config
from regard.data import cache as caches
from regard.data.array import Array
from regard.data.batch import Batch
from regard.data.class_names import read_names
from regard.data.cores import cores
from regard.data.image_files import Damaged, Fit, Pixels, fit_square, header, pillow, read
from regard.data.progress import Note
from regard.data.row_source import RowSource
from regard.data.splits import (
    TEST,
    TRAIN,
    VALIDATION,
    SplitConfig,
    check_splits,
    draw_splits,
    note_missing,
    stratified_mask,
)
from regard.data.targets import Asks, Numbers
from regard.errors import RegardError
from regard.recipes.images.augment import AugmentConfig
from regard.recipes.images.labelled_images import LabelledImages, displayable, find_images

LARGEST_SIDE = 64  # that is chosen when nobody says: what two cores learn from in minutes
MULTIPLE = 8  # of which a chosen side is, so that patches fit
LOOKED_AT = 200  # files whose headers decide the size and whether all are grey
WRITTEN = 256  # images decoded between two words about how far it is
MEASURED = 2000  # images, about, whose mean and deviation stand for all
LEAST_DEVIATION = 0.05  # so that images of one colour are not divided by nothing
SHARE_OF_DISK = 0.25  # of what is free that decoded images may take
ONE_OF_EACH = "every class has one training image, so there is no validation split, and nothing tells how good the model is"


@config
class ImagesConfig(SplitConfig):
    """Which images, and how they become pixels of one size."""

    paths: ClassVar[tuple[str, ...]] = ("path",)

    # a folder with one folder a class, idx files, .npz, a .csv of paths and labels; None: digits
    path: str | None = None
    image: str = "file"  # the column of a .csv that holds the path
    label: str = "label"  # the column that holds the label
    # names of the classes of idx files and arrays, in the order of their numbers: cat,dog or a file with one a line
    names: tuple[str, ...] = ()
    # what labels are; auto: numbers if some have a fraction, or if they are over ten whole numbers with gaps
    asks: Asks = "auto"
    # side that images are resized to; None: their shorter side (the median, if they differ), at most 64
    size: Annotated[int, Field(ge=1, le=2**13)] | None = None
    channels: Literal["auto", "grey", "colour"] = "auto"  # auto: grey if all of them are
    fit: Fit = "crop"  # to a square: the middle of it, all of it with black beside, or out of shape
    damaged: Literal["skip", "stop"] = "skip"  # what to do with files that cannot be read; they are named
    decoded: Literal["auto", "never"] = "auto"  # auto: decoded images are kept on the disk when they fit
    balanced: bool = False  # rare classes count as much as frequent ones
    smoothing: Share = 0.0  # share of each label that is given to all classes alike
    # views of an image whose predictions are averaged in evaluation and prediction
    views: Literal["one", "flip", "shifts", "turns"] = "one"
    # how images are changed in training; 0 is not at all
    augment: AugmentConfig = field(default_factory=AugmentConfig)

    def __post_init__(self) -> None:
        check_splits(self, "images")
        if self.names:
            object.__setattr__(self, "names", read_names(self.names))
        if self.image == self.label:
            raise RegardError(f"image and label must be two columns, got '{self.image}' for both")


def prepare(config: ImagesConfig, *, seed: int, cache: Path, note: Note | None = None) -> Images:
    """All images as bytes, with a split."""
    tell: Note = note or (lambda what, share: None)
    tell("looking for images", None)
    found = find_images(config.path, config.image, config.label, config.names, config.asks)
    if config.balanced and found.numbers is not None:
        raise RegardError("balanced is for classes, and the labels are numbers; leave it out")
    return read_pixels(found, config, seed=seed, cache=cache, note=note)


def read_pixels(
    found: LabelledImages, config: ImagesConfig, *, seed: int, cache: Path, note: Note | None = None
) -> Images:
    """Images that were found as bytes of one size, with a split."""
    side, channels = choose_size(found, config)
    found, store, skipped = load_pixels(found, side, channels, config, cache, note)
    splits = complete_splits(found, config, seed)
    notes = found.notes
    if config.validation and not (splits == VALIDATION).any():
        notes = (*notes, ONE_OF_EACH)
    if not (found.splits == TEST).any():
        notes = (*notes, *note_missing(splits, found.classes, found.labels, "image"))
    learned = np.flatnonzero(splits == TRAIN)
    mean, deviation = _mean_and_deviation(store, learned, cache)
    numbers = None
    if found.numbers is not None:
        numbers = Numbers.measure(config.label, found.numbers[learned])
    labelled = replace(found, splits=splits, notes=notes)
    return Images(labelled, store, side, channels, mean, deviation, skipped, numbers)


def complete_splits(found: LabelledImages, config: ImagesConfig, seed: int) -> Array:
    """The split of each image; of the splits that the data does not have, a share of each class is taken from
    training."""
    splits, rows = found.splits.copy(), np.flatnonzero(found.splits == TRAIN)
    given = {
        name for name, number in (("test", TEST), ("validation", VALIDATION)) if (splits == number).any()
    }
    if config.folds is not None and given:
        raise RegardError(
            f"{found.name} has its own {' and '.join(sorted(given))} split, so it cannot be cut into "
            f"{config.folds} folds; use --train.seeds {config.folds}, or give data without splits"
        )
    if config.test and "test" in given:
        raise RegardError(
            f"{found.name} has its own test split of {int((splits == TEST).sum()):,} images, so there is no "
            f"share to cut from the rest, got --data.test {config.test}; leave it out"
        )
    if "test" in given:
        if "validation" not in given and config.validation:
            splits[rows[stratified_mask(found.classes[rows], config.validation, seed)]] = VALIDATION
        return splits
    shares = config
    if "validation" in given:
        shares = replace(config, validation=0.0)
    splits[rows] = draw_splits(
        len(rows), shares, seed, unit="images", classes=found.classes[rows], names=found.labels
    )
    return splits


@config
class ImagesInfo:
    """Images with labels in figures, and how their pixels become numbers."""

    path: str
    pictures: Natural
    train: Natural
    validation: Natural
    test: Natural
    labels: tuple[str, ...]  # the classes; none if labels are numbers
    counts: tuple[Natural, ...]  # images of each label
    size: Size  # the side to which they are brought
    channels: Count
    mean: tuple[float, ...]  # of each channel, where 0 is black and 1 is white
    deviation: tuple[Amount, ...]
    skipped: tuple[str, ...]  # what was wrong with files that were left out
    auto_flip: bool | None = (
        None  # are images mirrored in training because a trial allowed it? None: no trial
    )
    unnamed: tuple[str, ...] | None = None  # what the data calls the labels, where they were given names
    numbers: Numbers | None = None  # what is predicted if it is a number

    def __post_init__(self) -> None:
        if not (self.labels or self.numbers):
            raise RegardError("images need labels, got none")
        if not len(self.mean) == len(self.deviation) == self.channels:
            raise RegardError(
                f"mean and deviation must be {self.channels} numbers each, one for each channel, got {self.mean} and "
                f"{self.deviation}"
            )


def read_other_images(
    config: ImagesConfig, info: ImagesInfo, *, cache: Path, note: Note | None = None
) -> tuple[Images, Array]:
    """Other images as a run reads its own, and which of them are measured: those for testing, or all where
    nothing says so."""
    asks: Asks = "classes" if info.numbers is None else "numbers"
    found = find_images(config.path, config.image, config.label, asks=asks, to_learn=False)
    if found.pixels is not None and info.unnamed is not None:
        found = found.renamed(dict(zip(info.unnamed, info.labels, strict=True)))
    for label in found.labels:
        if label not in info.labels:
            known = ", ".join(info.labels[:5]) + ", ..." * (len(info.labels) > 5)
            raise RegardError(
                f"{config.path} has the class '{label}', and the model knows {known}; take it out, or mend "
                "its name"
            )
    if info.numbers is None:
        place = np.array([info.labels.index(label) for label in found.labels], dtype=np.int64)
        found = replace(found, labels=info.labels, classes=place[found.classes])
    found, store, skipped = load_pixels(found, info.size, info.channels, config, cache, note)
    rows = np.flatnonzero(found.splits == TEST)
    light = (info.mean, info.deviation)
    images = Images(found, store, info.size, info.channels, *light, skipped, info.numbers)
    return images, rows if len(rows) else np.arange(len(found))


@dataclass(frozen=True, eq=False)
class Images:
    """Images of one size, with their classes or numbers, and splits."""

    labelled: LabelledImages
    store: Store
    size: int
    channels: int
    mean: tuple[float, ...]  # of each channel, where 0 is black and 1 is white
    deviation: tuple[float, ...]
    skipped: tuple[str, ...]  # what was wrong with files that were left out
    numbers: Numbers | None = None  # None: classes are asked

    @property
    def info(self) -> ImagesInfo:
        """What they are, in figures, for people and for later commands."""
        return ImagesInfo(
            path=self.labelled.name,
            pictures=len(self.labelled),
            train=len(self.rows(TRAIN)),
            validation=len(self.rows(VALIDATION)),
            test=len(self.rows(TEST)),
            labels=self.labelled.labels,
            counts=tuple(self._counts().tolist()[: len(self.labelled.labels)]),
            size=self.size,
            channels=self.channels,
            mean=self.mean,
            deviation=self.deviation,
            skipped=self.skipped,
            unnamed=self.labelled.unnamed,
            numbers=self.numbers,
        )

    def _counts(self) -> Array:
        """How many images each label has."""
        return np.bincount(self.labelled.classes, minlength=len(self.labelled.labels))

    def source(self, batch: int, seed: int) -> ImageSource:
        return ImageSource(self, batch, seed)

    def batches(self, rows: Array, batch: int) -> Iterator[Batch]:
        """Some of them, in order."""
        for start in range(0, len(rows), batch):
            yield self.take(rows[start : start + batch])

    def take(self, rows: Array) -> Batch:
        """Some of them at once.   tokens uint8 b c s s, target b"""
        if self.numbers is None or self.labelled.numbers is None:
            target = self.labelled.classes[rows]
        else:
            target = self.numbers.standardise(self.labelled.numbers[rows])
        return Batch({"x": torch.from_numpy(self.store.take(rows))}, torch.from_numpy(target))

    def rows(self, split: int) -> Array:
        return np.flatnonzero(self.labelled.splits == split)

    def weights(self) -> list[float]:
        """Of the classes, so that each counts the same in training; 1 on average over the images."""
        counts = np.bincount(self.labelled.classes[self.rows(TRAIN)], minlength=len(self.labelled.labels))
        return (counts.sum() / (len(counts) * np.maximum(counts, 1))).tolist()


class ImageSource(RowSource):
    """Images in shuffled batches.   tokens uint8 b c s s, target b

    The images of a step depend on (seed, step) alone. The next ones are read while a step is computed.
    """

    def __init__(self, images: Images, batch: int, seed: int) -> None:
        super().__init__(images.take, images.rows(TRAIN), batch, seed, slow=isinstance(images.store, Files))
        self._images = images

    def validation(self) -> Iterator[Batch]:
        return self.split(VALIDATION)

    def split(self, number: int) -> Iterator[Batch]:
        """All of one split, in order."""
        return self._images.batches(self._images.rows(number), self.rows)


# ── where pixels are


class Held:
    """Decoded pixels, in memory or mapped from the disk.   n c s s"""

    def __init__(self, pixels: Pixels) -> None:
        self.pixels = pixels

    def take(self, rows: Array) -> Pixels:
        return np.ascontiguousarray(self.pixels[rows])


class Files:
    """Files that are decoded each time they are asked for, several at once."""

    def __init__(self, files: Sequence[str], size: int, channels: int, fit: Fit) -> None:
        self.files, self.how = files, (size, channels, fit)
        self.pool = ThreadPoolExecutor(cores())

    def take(self, rows: Array) -> Pixels:
        return np.stack(list(self.pool.map(lambda row: read(self.files[row], *self.how), rows)))


Store = Held | Files


def load_pixels(
    found: LabelledImages, size: int, channels: int, config: ImagesConfig, cache: Path, note: Note | None
) -> tuple[LabelledImages, Store, tuple[str, ...]]:
    """The images that can be read, their pixels, and what was wrong with the rest."""
    if found.pixels is not None:
        return found, Held(resize_all(found.pixels, size, channels, config.fit)), ()
    tell: Note = note or (lambda what, share: None)
    return _decoded(found, size, channels, config, cache, tell)


def _decoded(
    found: LabelledImages, size: int, channels: int, config: ImagesConfig, cache: Path, tell: Note
) -> tuple[LabelledImages, Store, tuple[str, ...]]:
    """The images that can be read, their pixels, and what was wrong with the rest."""
    needed, free = len(found) * channels * size * size, shutil.disk_usage(cache).free
    name = caches.key(files=_stamps(found.files), size=size, channels=channels, fit=config.fit)
    keep = config.decoded == "auto" and needed < SHARE_OF_DISK * free

    def write(out: IO[bytes] | None = None) -> dict[str, Any]:
        bad: dict[int, str] = {}
        with ThreadPoolExecutor(cores()) as pool:
            for start in range(0, len(found), WRITTEN):
                rows = range(start, min(start + WRITTEN, len(found)))
                done = pool.map(lambda row: try_read(found.files[row], size, channels, config.fit), rows)
                for row, made in zip(rows, done, strict=True):
                    if isinstance(made, str):
                        bad[row] = _noted(displayable(made), config)
                    elif out is not None:
                        out.write(made.tobytes())
                tell("decoding images", rows.stop / len(found))
        good = len(found) - len(bad)
        if not good:
            raise RegardError(
                f"none of the {len(found):,} images of {found.name} can be read; the first: {bad[0]}"
            )
        return {"tokens": good * channels * size * size, "bad": [[row, why] for row, why in bad.items()]}

    mapped: Any = None
    if keep:
        mapped, about = caches.ids(cache, name, np.dtype(np.uint8), write, what="pixels")
    else:
        about = caches.cached_json(cache, name, write, what="pictures")
    bad = {
        row: _noted(why, config) for row, why in about["bad"]
    }  # it may have been decoded when they were to be skipped
    good = np.array([row for row in range(len(found)) if row not in bad], dtype=np.int64)
    _check_classes(found, good, bad)
    left = found.keep(good)
    store: Store = Files(left.files, size, channels, config.fit)
    if keep:
        store = Held(mapped.reshape(-1, channels, size, size))
    return left, store, tuple(bad.values())


def _check_classes(found: LabelledImages, good: Array, bad: Mapping[int, str]) -> None:
    """A ValueError if nothing is left of a class, with what was wrong with the first of it."""
    left = set(found.classes[good[found.splits[good] == TRAIN]].tolist())
    for row, why in bad.items():
        if found.classes[row] not in left and found.splits[row] == TRAIN:
            what = "to train on" if found.numbers is not None else f"of '{found.labels[found.classes[row]]}'"
            raise RegardError(f"{found.name} has no image {what} that can be read; {why}")


def try_read(path: str, size: int, channels: int, fit: Fit) -> Pixels | str:
    """The pixels of a file, or what is wrong with it."""
    try:
        return read(path, size, channels, fit)
    except Damaged as error:
        return str(error)


def _noted(why: str, config: ImagesConfig) -> str:
    """What is wrong with a file, if that is to be noted and not to be the end."""
    if config.damaged == "stop":
        raise RegardError(f"{why}; repair it or take it away, or use --data.damaged skip")
    return why


def _stamps(files: Sequence[str]) -> list[tuple[str, int, int]]:
    """Where each file is, and what changes when it does: its size and its date; zeros of one that is not
    there."""
    found = []
    for path in map(os.path.abspath, files):
        try:
            about = os.stat(path)
            found.append((path, about.st_size, about.st_mtime_ns))
        except OSError:
            found.append((path, 0, 0))
    return found


# ── size, colour, light


def choose_size(found: LabelledImages, config: ImagesConfig) -> tuple[int, int]:
    """The side and the channels: as asked for, or as the images suggest."""
    if found.pixels is not None:
        sides, grey = [found.pixels.shape[1:3]], found.pixels.ndim == 3 or found.pixels.shape[3] == 1
    else:
        seen = _headers(found.files)
        sides, grey = [(width, height) for width, height, _ in seen], all(each for _, _, each in seen)
    channels = {"auto": 1 if grey else 3, "grey": 1, "colour": 3}[config.channels]
    if config.size is not None:
        return config.size, channels
    if sides:
        shorter = int(np.median([min(each) for each in sides]))
    else:
        shorter = LARGEST_SIDE
    if len(set(sides)) == 1 and len(set(sides[0])) == 1 and shorter <= LARGEST_SIDE:
        return shorter, channels
    return min(LARGEST_SIDE, max(MULTIPLE, shorter // MULTIPLE * MULTIPLE)), channels


def _headers(files: Sequence[str]) -> list[tuple[int, int, bool]]:
    """Width, height and greyness of some of the files, evenly chosen; of those that can be opened."""
    seen = []
    for path in files[:: max(1, len(files) // LOOKED_AT)]:
        try:
            seen.append(header(path))
        except Damaged:
            continue
    return seen


def resize_all(pixels: Pixels, size: int, channels: int, fit: Fit) -> Pixels:
    """n h w or n h w c as n c s s."""
    if pixels.shape[1:3] != (size, size):
        pil = pillow()
        with ThreadPoolExecutor(cores()) as pool:
            if pixels.ndim == 4 and pixels.shape[3] == 1:
                flat = pixels[..., 0]
            else:
                flat = pixels
            made = np.stack(list(pool.map(lambda each: fit_square(pil.fromarray(each), size, fit), flat)))
    else:
        if pixels.ndim == 3:
            made = pixels[:, None]
        else:
            made = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    if made.shape[1] == channels:
        return made
    if channels == 3:
        return np.repeat(made, 3, axis=1)
    weights = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # of the eye: what pillow uses
    return np.einsum("ncij,c->nij", made, weights).round().astype(np.uint8)[:, None]


def _mean_and_deviation(
    store: Store, rows: Array, cache: Path
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel over training images; where they would have to be decoded, as
    found before."""
    if isinstance(store, Held):
        return moments(store, rows)
    name = caches.key(files=_stamps(store.files), how=store.how, rows=rows.tolist(), measured=MEASURED)
    known = caches.cached_json(
        cache, name, lambda: dict(zip(("mean", "deviation"), moments(store, rows), strict=True)), "pictures"
    )
    return tuple(known["mean"]), tuple(known["deviation"])


def moments(store: Store, rows: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel over some of the images, where 1 is white."""
    some, sums = rows[:: max(1, len(rows) // MEASURED)], []
    for start in range(0, len(some), WRITTEN):
        for image in store.take(some[start : start + WRITTEN]):
            x = image / 255
            sums.append((x.mean((1, 2)), (x * x).mean((1, 2))))
    mean, square = np.mean(sums, axis=0)
    return tuple(mean.tolist()), tuple(np.sqrt(np.maximum(square - mean**2, LEAST_DEVIATION**2)).tolist())
