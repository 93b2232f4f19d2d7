"""Sets: clouds of points, tables in long form or sets that the program makes become batches, whatever their sizes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch

from regard.config import check_positive, nearest
from regard.data.batch import IGNORE, Batch, Epochs, Ids, Source, generator, held_out
from regard.data.labels import sort_labels
from regard.data.point_clouds import CloudFile, find_clouds, read_cloud
from regard.data.splits import stratified
from regard.data.surface import random_turns
from regard.data.tables import looks_like_table
from regard.recipes.sets.long_tables import read_long
from regard.recipes.sets.made_sets import MADE, Drawn, Turn, Wish
from regard.recipes.sets.solids import fitted

Made = Literal["max", "sum", "statistics", "clusters", "solids"]
Note = Callable[[str, float | None], None]
FEW = 10  # whole numbers with no more different values than this are classes
JUDGED, TOGETHER = 512, 32  # sets that a made task is judged by, and of these as many as are made at once
USUAL = 4096  # sets that say how large the numbers of a made task usually are
CLOUD_POINTS = 1024  # of a cloud from a file that are read at once, if nothing is said
SPARE = (
    4  # times as many points are kept of a large cloud as are read at once, so that each step can draw others
)


@dataclass(frozen=True, kw_only=True)
class SetsConfig:
    """Which sets, and what of them is read."""

    paths: ClassVar[tuple[str, ...]] = ("path",)

    path: str | None = (
        None  # a folder of point clouds, one folder a class, or a table in long form; None: sets that are made
    )
    task: Made = "solids"  # what is made and asked when there is no path
    points: int | None = (
        None  # things of a set that are read at once, drawn anew each time; None: all (of a cloud 1,024)
    )
    turn: Turn | None = (
        None  # turn clouds at random: any way, upright about z, none; None: solids any way, files not
    )
    sets: int | None = (
        None  # of a made task, how many sets there are to learn from; None: new ones at every step
    )
    id: str = "set"  # of a table: the column that says which set a line belongs to
    target: str = "target"  # of a table: the column that is to be predicted
    columns: str | None = None  # of a table: the columns with numbers, as a,b,c; None: all others
    asks: Literal["auto", "classes", "numbers"] = (
        "auto"  # auto: classes if the target is text or a few whole numbers
    )
    validation: float = 0.1  # share of the sets (of each class), drawn by the seed, that training never sees

    def __post_init__(self) -> None:
        check_positive(self, *(name for name in ("points", "sets") if getattr(self, name) is not None))
        if self.task not in get_args(Made):
            near = nearest(self.task, get_args(Made))
            raise ValueError(
                f"task must be one of {', '.join(get_args(Made))}, got {self.task!r}"
                + (f"; did you mean '{near}'?" if near else "")
            )
        if self.turn not in (None, *get_args(Turn)):
            raise ValueError(f"turn must be one of {', '.join(get_args(Turn))}, got {self.turn!r}")
        if self.turn is not None and self.path is None and self.task != "solids":
            raise ValueError(f"only clouds of points can be turned, and {self.task} has none; leave turn out")
        if self.sets is not None and self.path is not None:
            raise ValueError(
                f"sets is for made tasks, and those of {self.path} are all there are; leave it out"
            )
        if not 0 <= self.validation < 1:
            raise ValueError(f"validation is a share of the sets, from 0 to below 1, got {self.validation}")
        if self.id == self.target:
            raise ValueError(f"id and target must be two columns, got '{self.id}' for both")


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

    def read(self, points: Ids) -> Ids:
        """The things of one set as a model takes them.   n features -> n features"""
        if points.shape[1:] != (len(self.features),):
            wanted = f"{len(self.features)} numbers ({', '.join(self.features)})"
            raise ValueError(f"each thing must have {wanted}, got {points.shape[1]}")
        return self.scaled(in_ball(points) if self.fitted else points)

    def scaled(self, points: Ids) -> Ids:
        """Things of any number of sets, standardised."""
        found: Ids = ((points - np.array(self.centre)) / np.array(self.scale)).astype(np.float32)
        return found


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
    raise ValueError(
        f"sets are a folder of point clouds or a table (.csv, .tsv, .parquet), got {config.path}"
    )


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

    Classes are places in form.answers, numbers are standardised. Of a made task without an end there are only the sets that it
    is judged by; those to learn from are made when they are asked for.
    """

    config: SetsConfig
    form: SetsForm
    points: Ids
    starts: Ids
    target: Ids  # of each set, or with form.each of each thing
    held: Ids  # bool: sets for validation
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

    def take(self, rows: Ids, random: np.random.Generator) -> Batch:
        """Some sets as a batch. Of large ones some things are drawn, and clouds of files are turned if that is asked for."""
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
    """Sets in shuffled batches, those of like size together.   tokens b n features, real b n, target b ... or b n

    The sets of a step, the points drawn of them and how they are turned follow from (seed, step) alone.
    """

    def __init__(self, corpus: SetsCorpus, batch: int, seed: int) -> None:
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        self._corpus, self._batch, self._seed = corpus, batch, seed
        sizes = np.minimum(np.diff(corpus.starts), corpus.form.size)
        self._epochs = None if corpus.endless else Epochs(np.flatnonzero(~corpus.held), batch, seed, sizes)

    def batch(self, step: int) -> Batch:
        corpus = self._corpus
        if self._epochs is not None:
            return corpus.take(self._epochs.rows(step), generator(self._seed, 3, step))
        drawn = draw(corpus.config, self._batch, generator(self._seed, 1, step))
        points, target = corpus.form.scaled(drawn.points), as_asked(drawn.target, corpus.form)
        return padded_sets([points[a:b] for a, b in pairwise(drawn.starts)], target)

    def validation(self) -> Iterator[Batch]:
        return self._corpus.held_batches(self._batch, self._seed)


def padded_sets(things: list[Ids], target: Ids | list[Ids]) -> Batch:
    """Sets of several sizes in one batch. Slots beyond a set hold zeros and are not real; a class there is IGNORE."""
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


# ── made ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def draw(config: SetsConfig, count: int, random: np.random.Generator) -> Drawn:
    """Some sets of a made task."""
    return MADE[config.task].draw(Wish(count, config.points, config.turn or "any"), random)


def _made(config: SetsConfig, seed: int) -> SetsCorpus:
    """Sets to judge by, and to learn from if their number is given; each by its own number, so more are the same and more."""
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
        (centre, scale), (middle, wide) = standard(usual.points), standard(usual.target)
    form = SetsForm(
        features=task.features,
        centre=centre,
        scale=scale,
        fitted=config.task == "solids",
        asks="classes" if task.classes else "numbers" if numbers else "clusters",
        answers=task.classes or task.numbers or (),
        target_centre=middle,
        target_scale=wide,
        size=config.points or task.most,
    )
    held = np.arange(len(starts) - 1) < judged
    return SetsCorpus(config, form, form.scaled(points), starts, as_asked(target, form), held)


# ── read ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_clouds(config: SetsConfig, seed: int, note: Note) -> SetsCorpus:
    files = find_clouds(str(config.path))
    limit = config.points or CLOUD_POINTS
    clouds = []
    for number, file in enumerate(files):
        clouds.append(read_cloud(file.path, SPARE * limit, generator(seed, 6, number)))
        width = clouds[0].points.shape[1]
        if clouds[-1].points.shape[1] != width:
            raise ValueError(
                f"{file.path} has {clouds[-1].points.shape[1]} numbers for each point, "
                f"but {files[0].path} has {width}; all must have as many"
            )
        note("reading", (number + 1) / len(files))
    if config.turn not in (None, "none") and clouds[0].points.shape[1] != 3:
        raise ValueError(
            f"only points x y z can be turned, those of {config.path} have {clouds[0].points.shape[1]} numbers"
        )
    starts = np.concatenate(([0], np.cumsum([len(cloud.points) for cloud in clouds])))
    labels = [cloud.labels for cloud in clouds]
    labelled = [each for each in labels if each is not None]
    if labelled and len(labelled) < len(files):
        missing = files[next(i for i, each in enumerate(labels) if each is None)].path
        raise ValueError(
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
        centre, scale = standard(points[_things(starts, ~held)][:, 3:])
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


def sets_in(path: str, config: SetsConfig, form: SetsForm) -> Iterator[tuple[str, Ids]]:
    """The sets of a file and what they are called: those of a table if the model learned from one, else the cloud in it."""
    if not os.path.isfile(path):
        what = f"{path} is a folder" if os.path.isdir(path) else f"there is no file {path}"
        raise FileNotFoundError(f"{what}; give files of sets such as the model learned from")
    if learned_from_tables(config, form):
        table = read_long(path, config.id, None, form.features)
        for number, name in enumerate(table.sets):
            yield f"{path}: {name}", table.points[table.starts[number] : table.starts[number + 1]]
    else:
        yield path, read_cloud(path, form.size if form.fitted else None, generator(0)).points


def class_of(file: CloudFile, folder: str) -> str:
    if file.label is None:
        raise ValueError(
            f"{file.path} is in no folder of a class; put the clouds of each class in a folder of {folder} that "
            "is named after it (or give labels for each point: an .npz with arrays points and labels)"
        )
    return file.label


def _of_table(config: SetsConfig, seed: int) -> SetsCorpus:
    path = str(config.path)
    if config.turn is not None:
        raise ValueError(f"only clouds of points can be turned, and {path} is a table; leave turn out")
    columns = None if config.columns is None else [name.strip() for name in config.columns.split(",")]
    table = read_long(path, config.id, config.target, columns)
    words = table.target or ()
    starts = table.starts
    each = any(len(set(words[a:b])) > 1 for a, b in pairwise(starts))
    asked = list(words) if each else [words[a] for a in starts[:-1]]
    numbers = _as_numbers(asked)
    few = numbers is not None and len(set(asked)) <= FEW and bool((numbers == np.round(numbers)).all())
    if config.asks == "numbers" and numbers is None:
        wrong = next(i for i, word in enumerate(words) if _as_numbers([word]) is None)
        raise ValueError(
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
        target: Ids = np.array([number_of[word] for word in asked])
        held = _split(target, answers, config, seed, each=each, sets=sets)
        shared |= {"asks": "classes", "answers": answers}
    else:
        held = _random_split(config, seed, sets)
        target = numbers if each else numbers[:, None]
        middle, wide = standard(target[_things(starts, ~held) if each else ~held].reshape(-1, 1))
        shared |= {
            "asks": "numbers",
            "answers": (config.target,),
            "target_centre": middle,
            "target_scale": wide,
        }
    centre, scale = standard(table.points[_things(starts, ~held)])
    form = SetsForm(centre=centre, scale=scale, **shared)
    return SetsCorpus(
        config, form, form.scaled(table.points), starts, as_asked(target, form), held, table.sets
    )


def _split(
    target: Ids, answers: tuple[str, ...], config: SetsConfig, seed: int, *, each: bool, sets: int
) -> Ids:
    """Which sets are held out, of each class its share; with a label for each thing, any."""
    if len(answers) < 2:
        raise ValueError(f"{config.path} has only the class '{answers[0]}'; there must be two to tell apart")
    if each:
        return _random_split(config, seed, sets)
    counts = np.bincount(target)
    if config.validation and counts.min() < 2:
        alone = answers[int(counts.argmin())]
        raise ValueError(
            f"{config.path} has one set of class '{alone}', too few to learn from one and be judged by another; "
            "give more of it, leave it out, or use --data.validation 0"
        )
    return stratified(target, config.validation, seed)


def _random_split(config: SetsConfig, seed: int, sets: int) -> Ids:
    held = np.zeros(sets, dtype=bool)
    held[generator(seed, 0).permutation(sets)[: held_out(sets, config.validation)]] = True
    return held


def _things(starts: Ids, sets: Ids) -> Ids:
    """Which things belong to these sets.   bool sets -> bool things"""
    return np.repeat(sets, np.diff(starts))


def _as_numbers(words: list[str]) -> Ids | None:
    try:
        found = np.array(words).astype(np.float64)
    except ValueError:
        return None
    return found if np.isfinite(found).all() else None


def as_asked(target: Ids, form: SetsForm) -> Ids:
    """What a model is to put out: the number of a class, or standardised numbers."""
    if form.asks == "classes":
        return target.astype(np.int64)
    if form.asks == "clusters":
        return target.astype(np.float32)
    found: Ids = ((target - np.array(form.target_centre)) / np.array(form.target_scale)).astype(np.float32)
    return found


def standard(values: Ids) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each column; 1 for one that never changes.   t d"""
    deviation = values.std(0)
    return tuple(values.mean(0).tolist()), tuple(np.where(deviation > 1e-12, deviation, 1.0).tolist())


def in_ball(points: Ids) -> Ids:
    """A cloud with its places moved to the origin and shrunk into a ball; other numbers stay.   n d -> n d"""
    return np.concatenate((fitted(points[:, :3]), points[:, 3:]), 1)
