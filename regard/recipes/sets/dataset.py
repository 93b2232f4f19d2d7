"""Sets: point clouds, tables in long form or synthetic sets, of any sizes, become batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import torch

from regard.config import Amount, Length, Natural, Size, config
from regard.data.array import Array
from regard.data.batch import IGNORE, Batch, Epochs, Source, generator
from regard.data.splits import TEST, TRAIN, VALIDATION, SplitConfig, check_splits
from regard.data.surface import random_turns
from regard.data.targets import Asks
from regard.errors import RegardError
from regard.recipes.sets.made_sets import MADE, Drawn, Turn, Wish
from regard.recipes.sets.solids import fit_in_ball

Made = Literal["max", "sum", "statistics", "clusters", "solids"]
Missing = Literal["refuse", "drop", "fill"]


@config
class SetsConfig(SplitConfig):
    """Which sets to read, and how."""

    paths: ClassVar[tuple[str, ...]] = ("path",)

    # a folder of point clouds, one folder per class, or a table in long form; None: synthetic sets
    path: str | None = None
    task: Made = "solids"  # the synthetic task, if there is no path
    # elements per set in a batch, drawn anew each time; None: all (1,024 of a point cloud)
    points: Length | None = None
    # rotate point clouds at random: any, upright (about z), none; None: any for solids, none for files
    turn: Turn | None = None
    # synthetic task: number of sets in the train split; None: new sets at every step
    sets: Size | None = None
    id: str = "set"  # table: the column with the id of the set
    target: str = "target"  # table: the column to predict
    columns: str | None = None  # table: the feature columns, as a,b,c; None: all others
    # what targets are; auto: numbers if some have a fraction, or if they are over ten whole numbers with gaps
    asks: Asks = "auto"
    # table: missing cells (empty, NA, N/A, NaN, null, ?) are an error; or drop: their rows are left out; or
    # fill: features get the median of the train split, and rows without a target are left out
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        if self.turn is not None and self.path is None and self.task != "solids":
            raise RegardError(f"turn needs point clouds, and the task {self.task} has none; leave turn out")
        if self.sets is not None and self.path is not None:
            raise RegardError(
                f"sets is for synthetic tasks, and {self.path} has a fixed number of sets; leave sets out"
            )
        check_splits(self, "sets")
        if self.path is None and self.folds is not None:
            raise RegardError(
                f"the task {self.task} is synthetic and its sets are drawn anew, so there is nothing to cut into "
                f"{self.folds} folds; use --train.seeds {self.folds} instead"
            )
        if self.id == self.target:
            raise RegardError(f"id and target must be different columns, got '{self.id}' for both")


@config
class SetsForm:
    """The features of a set and its target: with the model, all that a prediction needs."""

    features: tuple[str, ...]  # names of the numbers of an element
    centre: tuple[float, ...]  # the mean that is subtracted from them
    scale: tuple[Amount, ...]  # the standard deviation that they are then divided by
    fitted: bool = False  # point clouds: first moved to the origin and shrunk into a ball
    asks: Literal["classes", "numbers", "clusters"] = "classes"
    answers: tuple[str, ...] = ()  # the classes, or the names of the numbers to predict
    target_centre: tuple[float, ...] = ()  # the model predicts numbers as (target − centre) / scale
    target_scale: tuple[Amount, ...] = ()
    each: bool = False  # does every element have a target, not the set?
    size: Size = 1  # the most elements of a set in a batch
    fill: tuple[float, ...] | None = (
        None  # what a missing feature becomes; None: missing features are not filled
    )

    def __post_init__(self) -> None:
        if self.fill is not None and len(self.fill) != len(self.features):
            raise RegardError(f"{len(self.features)} features need as many fillings, got {len(self.fill)}")
        if not len(self.features) == len(self.centre) == len(self.scale):
            raise RegardError(
                f"{len(self.features)} features need as many centres and scales, got {len(self.centre)} and "
                f"{len(self.scale)}"
            )
        if self.asks != "clusters" and not self.answers:
            raise RegardError(f"a model of {self.asks} needs their names, got none")

    @property
    def element(self) -> str:
        """What an element is called: a point of a point cloud, an element of any other set."""
        if self.fitted or self.asks == "clusters":
            return "point"
        return "element"

    def read(self, points: Array) -> Array:
        """The elements of one set as the model's input.   n features -> n features"""
        if points.shape[1:] != (len(self.features),):
            wanted = f"{len(self.features)} numbers ({', '.join(self.features)})"
            raise RegardError(f"each {self.element} must have {wanted}, got {points.shape[1]}")
        return self.scaled(in_ball(points) if self.fitted else points)

    def filled(self, points: Array) -> Array:
        """The elements with a number in place of each missing feature, which is NaN."""
        if self.fill is None:
            if np.isnan(points).any():
                raise RegardError(
                    "the run was trained without --data.missing fill, so it knows no values to fill in; use "
                    "--data.missing drop, or fill in the cells"
                )
            return points
        found: Array = np.where(np.isnan(points), np.array(self.fill), points)
        return found

    def scaled(self, points: Array) -> Array:
        """The elements of any number of sets, standardised."""
        found: Array = ((points - np.array(self.centre)) / np.array(self.scale)).astype(np.float32)
        return found


@config
class SetsInfo:
    """How many sets there are, their sizes, and their form."""

    path: str | None
    task: str | None  # of synthetic sets; None: the sets are from files
    train: Natural | None  # sets; None: new sets at every step
    validation: Natural
    test: Natural = 0
    smallest: Natural  # elements of the smallest set
    largest: Natural
    form: SetsForm


@dataclass(frozen=True, eq=False)
class SetsCorpus:
    """Sets with their targets. Set i is points[starts[i]:starts[i + 1]], as the model's input.

    A class is an index into form.answers; numbers are standardised. An endless synthetic task holds only its
    validation split; it draws the sets of each training step when they are needed.
    """

    config: SetsConfig
    form: SetsForm
    points: Array
    starts: Array
    target: Array  # of each set, or with form.each of each element
    splits: Array  # TRAIN, VALIDATION or TEST, of each set
    names: tuple[str, ...] = ()  # of the sets: their files, or their ids in a table; synthetic sets have none
    drawn_test: int = 0  # sets in the test split of a synthetic task, which are drawn when they are needed
    notes: tuple[str, ...] = ()  # on missing cells and on the targets

    @property
    def held(self) -> Array:
        """bool: sets that are not for training."""
        found: Array = self.splits != TRAIN
        return found

    @property
    def endless(self) -> bool:
        return self.config.path is None and self.config.sets is None

    @property
    def usual(self) -> int:
        """Mean number of elements of a set in a batch."""
        return max(1, round(float(np.minimum(np.diff(self.starts), self.form.size).mean())))

    @property
    def info(self) -> SetsInfo:
        """A summary in numbers, for people and for later commands."""
        sizes = np.diff(self.starts)
        return SetsInfo(
            path=self.config.path,
            task=self.config.task if self.config.path is None else None,
            train=None if self.endless else int((~self.held).sum()),
            validation=int((self.splits == VALIDATION).sum()),
            test=self.drawn_test or int((self.splits == TEST).sum()),
            smallest=int(sizes.min()),
            largest=int(sizes.max()),
            form=self.form,
        )

    def source(self, batch: int, seed: int) -> Source:
        """Batches of this many sets."""
        return SetsSource(self, batch, seed)

    def batches(self, split: int, batch: int, seed: int) -> Iterator[Batch]:
        """All of one split, sets of similar size together."""
        held = self.rows_of(split)
        for start in range(0, len(held), batch):
            yield self.take(held[start : start + batch], generator(seed, 5, start))

    def rows_of(self, split: int) -> Array:
        """The numbers of the sets of a split, in the order of its batches."""
        held = np.flatnonzero(self.splits == split)
        sizes = np.minimum(np.diff(self.starts), self.form.size)
        ordered: Array = held[np.argsort(sizes[held], kind="stable")]
        return ordered

    def take(self, rows: Array, random: np.random.Generator) -> Batch:
        """Some sets as a batch: elements of large sets are drawn at random, and point clouds of files are
        rotated if `turn` says so."""
        picked = []
        for row in rows:
            places = np.arange(self.starts[row], self.starts[row + 1])
            if len(places) > self.form.size:
                places = np.sort(random.permutation(places)[: self.form.size])
            picked.append(places)
        sets = [self.points[places] for places in picked]
        if self.config.path is not None and self.config.turn not in (None, "none"):
            turns = random_turns(len(rows), random, upright=self.config.turn == "upright").astype(np.float32)
            sets = [cloud @ turn for cloud, turn in zip(sets, turns, strict=True)]
        return padded_sets(
            sets, [self.target[places] for places in picked] if self.form.each else self.target[rows]
        )


class SetsSource(Source):
    """Sets in shuffled batches, sets of similar size together.
    tokens b n features, real b n, target b ... or b n

    The sets of a step, the elements drawn from them and their rotations depend on (seed, step) alone.
    """

    def __init__(self, corpus: SetsCorpus, batch: int, seed: int) -> None:
        if batch < 1:
            raise RegardError(f"batch must be at least 1, got {batch}")
        self._corpus, self._batch, self._seed = corpus, batch, seed
        sizes = np.minimum(np.diff(corpus.starts), corpus.form.size)
        if corpus.endless:
            self._epochs = None
        else:
            self._epochs = Epochs(np.flatnonzero(~corpus.held), batch, seed, sizes)

    def batch(self, step: int) -> Batch:
        corpus = self._corpus
        if self._epochs is not None:
            return corpus.take(self._epochs.rows(step), generator(self._seed, 3, step))
        drawn = draw(corpus.config, self._batch, generator(self._seed, 1, step))
        points, target = corpus.form.scaled(drawn.points), standardise_target(drawn.target, corpus.form)
        return padded_sets([points[a:b] for a, b in pairwise(drawn.starts)], target)

    def validation(self) -> Iterator[Batch]:
        return self._corpus.batches(VALIDATION, self._batch, self._seed)


def padded_sets(sets: list[Array], target: Array | list[Array]) -> Batch:
    """Sets of several sizes in one batch. Padding holds zeros and is not real; a class there is IGNORE."""
    sizes = np.array([len(each) for each in sets])
    real = np.arange(max(1, sizes.max(initial=0))) < sizes[:, None]
    x = np.zeros((*real.shape, sets[0].shape[1]), dtype=np.float32)
    x[real] = np.concatenate(sets)
    if isinstance(target, list):
        padded = np.full(real.shape, IGNORE if target[0].dtype.kind == "i" else 0, dtype=target[0].dtype)
        padded[real] = np.concatenate(target)
        target = padded
    inputs = {"x": torch.from_numpy(x), "real": None if real.all() else torch.from_numpy(real)}
    return Batch(inputs, torch.from_numpy(target), size=real.size)


# ── synthetic


def draw(config: SetsConfig, count: int, random: np.random.Generator) -> Drawn:
    """Some sets of a synthetic task."""
    return MADE[config.task].draw(Wish(count, config.points, config.turn or "any"), random)


# ── from files


def standardise_target(target: Array, form: SetsForm) -> Array:
    """The target of the model: the index of a class, or standardised numbers."""
    if form.asks == "classes":
        return target.astype(np.int64)
    if form.asks == "clusters":
        return target.astype(np.float32)
    found: Array = ((target - np.array(form.target_centre)) / np.array(form.target_scale)).astype(np.float32)
    return found


def in_ball(points: Array) -> Array:
    """A point cloud moved to the origin and shrunk into a ball; numbers beyond x y z stay.   n d -> n d"""
    return np.concatenate((fit_in_ball(points[:, :3]), points[:, 3:]), 1)
