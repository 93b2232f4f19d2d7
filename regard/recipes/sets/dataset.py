"""Sets: clouds of points, tables in long form or sets that the program makes become batches, whatever their
sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal, get_args

import numpy as np
import torch

from regard.config import check_positive
from regard.data.array import Array
from regard.data.batch import IGNORE, Batch, Epochs, Source, generator
from regard.data.surface import random_turns
from regard.errors import RegardError, nearest
from regard.recipes.sets.made_sets import MADE, Drawn, Turn, Wish
from regard.recipes.sets.solids import fit_in_ball

Made = Literal["max", "sum", "statistics", "clusters", "solids"]


@dataclass(frozen=True, kw_only=True)
class SetsConfig:
    """Which sets, and what of them is read."""

    paths: ClassVar[tuple[str, ...]] = ("path",)

    # a folder of point clouds, one folder a class, or a table in long form; None: sets that are made
    path: str | None = None
    task: Made = "solids"  # what is made and asked when there is no path
    # things of a set that are read at once, drawn anew each time; None: all (of a cloud 1,024)
    points: int | None = None
    # turn clouds at random: any way, upright about z, none; None: solids any way, files not
    turn: Turn | None = None
    # of a made task, how many sets there are to learn from; None: new ones at every step
    sets: int | None = None
    id: str = "set"  # of a table: the column that says which set a line belongs to
    target: str = "target"  # of a table: the column that is to be predicted
    columns: str | None = None  # of a table: the columns with numbers, as a,b,c; None: all others
    # auto: classes if the target is text or a few whole numbers
    asks: Literal["auto", "classes", "numbers"] = "auto"
    validation: float = 0.1  # share of the sets (of each class), drawn by the seed, that training never sees

    def __post_init__(self) -> None:
        check_positive(self, *(name for name in ("points", "sets") if getattr(self, name) is not None))
        if self.task not in get_args(Made):
            near = nearest(self.task, get_args(Made))
            raise RegardError(
                f"task must be one of {', '.join(get_args(Made))}, got {self.task!r}"
                + (f"; did you mean '{near}'?" if near else "")
            )
        if self.turn not in (None, *get_args(Turn)):
            raise RegardError(f"turn must be one of {', '.join(get_args(Turn))}, got {self.turn!r}")
        if self.turn is not None and self.path is None and self.task != "solids":
            raise RegardError(
                f"only clouds of points can be turned, and {self.task} has none; leave turn out"
            )
        if self.sets is not None and self.path is not None:
            raise RegardError(
                f"sets is for made tasks, and those of {self.path} are all there are; leave it out"
            )
        if not 0 <= self.validation < 1:
            raise RegardError(f"validation is a share of the sets, from 0 to below 1, got {self.validation}")
        if self.id == self.target:
            raise RegardError(f"id and target must be two columns, got '{self.id}' for both")


@dataclass(frozen=True, kw_only=True)
class SetsForm:
    """What a set is made of and what is asked of it: with the model, all that a prediction needs."""

    features: tuple[str, ...]  # what the numbers of a thing are called
    centre: tuple[float, ...]  # taken from them,
    scale: tuple[float, ...]  # and what they are divided by after
    fitted: bool = False  # clouds: moved to the origin and shrunk into a ball before
    asks: Literal["classes", "numbers", "clusters"] = "classes"
    answers: tuple[str, ...] = ()  # the classes, or what the numbers are called
    target_centre: tuple[float, ...] = ()  # numbers are asked for as (target − centre) / scale
    target_scale: tuple[float, ...] = ()
    each: bool = False  # asked of every thing, not of the set
    size: int = 1  # the most things that are read at once

    def read(self, points: Array) -> Array:
        """The things of one set as a model takes them.   n features -> n features"""
        if points.shape[1:] != (len(self.features),):
            wanted = f"{len(self.features)} numbers ({', '.join(self.features)})"
            raise RegardError(f"each thing must have {wanted}, got {points.shape[1]}")
        return self.scaled(in_ball(points) if self.fitted else points)

    def scaled(self, points: Array) -> Array:
        """Things of any number of sets, standardised."""
        found: Array = ((points - np.array(self.centre)) / np.array(self.scale)).astype(np.float32)
        return found


@dataclass(frozen=True, kw_only=True)
class SetsInfo:
    """Sets in figures, and their form."""

    path: str | None
    task: str | None  # of made sets; None: they were read
    train: int | None  # sets; None: new ones are made at every step
    validation: int
    smallest: int  # things of a set
    largest: int
    form: SetsForm


@dataclass(frozen=True, eq=False)
class SetsCorpus:
    """Sets with what is asked of them. Set i is points[starts[i]:starts[i + 1]], as a model takes them.

    Classes are places in form.answers, numbers are standardised. Of a made task without an end there are only
    the sets that it is judged by; those to learn from are made when they are asked for.
    """

    config: SetsConfig
    form: SetsForm
    points: Array
    starts: Array
    target: Array  # of each set, or with form.each of each thing
    held: Array  # bool: sets for validation
    names: tuple[str, ...] = ()  # of the sets: their files, or what a table calls them; of made ones none

    @property
    def endless(self) -> bool:
        return self.config.path is None and self.config.sets is None

    @property
    def usual(self) -> int:
        """Things of a set, on average, as many as are read at once."""
        return max(1, round(float(np.minimum(np.diff(self.starts), self.form.size).mean())))

    @property
    def info(self) -> SetsInfo:
        """What it is, in figures, for people and for later commands."""
        sizes = np.diff(self.starts)
        return SetsInfo(
            path=self.config.path,
            task=self.config.task if self.config.path is None else None,
            train=None if self.endless else int((~self.held).sum()),
            validation=int(self.held.sum()),
            smallest=int(sizes.min()),
            largest=int(sizes.max()),
            form=self.form,
        )

    def source(self, batch: int, seed: int) -> Source:
        """Batches of this many sets."""
        return SetsSource(self, batch, seed)

    def held_batches(self, batch: int, seed: int) -> Iterator[Batch]:
        """The sets that are held out, those of like size together."""
        held = np.flatnonzero(self.held)
        held = held[np.argsort(np.minimum(np.diff(self.starts), self.form.size)[held], kind="stable")]
        for start in range(0, len(held), batch):
            yield self.take(held[start : start + batch], generator(seed, 5, start))

    def take(self, rows: Array, random: np.random.Generator) -> Batch:
        """Some sets as a batch. Of large ones some things are drawn, and clouds of files are turned if that
        is asked for."""
        picked = []
        for row in rows:
            places = np.arange(self.starts[row], self.starts[row + 1])
            if len(places) > self.form.size:
                places = np.sort(random.permutation(places)[: self.form.size])
            picked.append(places)
        things = [self.points[places] for places in picked]
        if self.config.path is not None and self.config.turn not in (None, "none"):
            turns = random_turns(len(rows), random, upright=self.config.turn == "upright").astype(np.float32)
            things = [cloud @ turn for cloud, turn in zip(things, turns, strict=True)]
        return padded_sets(
            things, [self.target[places] for places in picked] if self.form.each else self.target[rows]
        )


class SetsSource(Source):
    """Sets in shuffled batches, those of like size together.
    tokens b n features, real b n, target b ... or b n

    The sets of a step, the points drawn of them and how they are turned follow from (seed, step) alone.
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
        return self._corpus.held_batches(self._batch, self._seed)


def padded_sets(things: list[Array], target: Array | list[Array]) -> Batch:
    """Sets of several sizes in one batch. Slots beyond a set hold zeros and are not real; a class there is
    IGNORE."""
    sizes = np.array([len(each) for each in things])
    real = np.arange(max(1, sizes.max(initial=0))) < sizes[:, None]
    tokens = np.zeros((*real.shape, things[0].shape[1]), dtype=np.float32)
    tokens[real] = np.concatenate(things)
    if isinstance(target, list):
        asked = np.full(real.shape, IGNORE if target[0].dtype.kind == "i" else 0, dtype=target[0].dtype)
        asked[real] = np.concatenate(target)
        target = asked
    return Batch(
        torch.from_numpy(tokens), torch.from_numpy(target), None if real.all() else torch.from_numpy(real)
    )


# ── made
#
#
#
# ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def draw(config: SetsConfig, count: int, random: np.random.Generator) -> Drawn:
    """Some sets of a made task."""
    return MADE[config.task].draw(Wish(count, config.points, config.turn or "any"), random)


# ── read
#
#
#
# ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def standardise_target(target: Array, form: SetsForm) -> Array:
    """What a model is to put out: the number of a class, or standardised numbers."""
    if form.asks == "classes":
        return target.astype(np.int64)
    if form.asks == "clusters":
        return target.astype(np.float32)
    found: Array = ((target - np.array(form.target_centre)) / np.array(form.target_scale)).astype(np.float32)
    return found


def in_ball(points: Array) -> Array:
    """A cloud with its places moved to the origin and shrunk into a ball; other numbers stay.   n d -> n d"""
    return np.concatenate((fit_in_ball(points[:, :3]), points[:, 3:]), 1)
