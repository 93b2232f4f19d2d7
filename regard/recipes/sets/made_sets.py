"""Synthetic sets: tasks whose target, or whose best possible prediction, is known exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from regard.data.array import Array
from regard.data.batch import generator
from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.data.targets import Numbers
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.sets.config import SetsConfig, Turn
from regard.recipes.sets.solids import SOLIDS, draw_solids
from regard.recipes.target import Target

MOST = 10  # numbers of max and sum
SAMPLE = (10, 100)  # numbers of statistics, from and to
CLUSTERS = 4  # Gaussians of the task clusters
SPREAD = 0.3  # their standard deviation
REACH = 4.0  # the largest coordinate of their middles
CLUSTER_POINTS = (100, 500)
SOLID_POINTS = 256  # enough to recognise a solid


class Drawn(NamedTuple):
    """Some sets with their targets. Set i is points[starts[i]:starts[i + 1]]."""

    points: Array  # all elements of all sets, t features
    starts: Array  # sets + 1
    target: Array  # a row for each set


class Wish(NamedTuple):
    """How many sets to draw, and how."""

    sets: int
    points: int | None = None  # elements of a set; None: the default of the task
    turn: Turn = "any"  # how to rotate solids


@dataclass(frozen=True)
class MadeTask:
    """A synthetic task; its target is a class, some numbers, or a mixture of Gaussians."""

    sentence: str
    draw: Callable[[Wish, np.random.Generator], Drawn]
    most: int  # elements of its largest set
    features: tuple[str, ...] = ("value",)
    classes: tuple[str, ...] | None = None
    numbers: tuple[str, ...] | None = None


def _draw_max(wish: Wish, random: np.random.Generator) -> Drawn:
    """The largest of 1 to 10 whole numbers from 1 to 99."""
    values, starts = _whole(wish, random, 1, 100)
    return Drawn(values[:, None], starts, np.maximum.reduceat(values, starts[:-1])[:, None])


def _draw_sum(wish: Wish, random: np.random.Generator) -> Drawn:
    """The sum of 1 to 10 digits."""
    values, starts = _whole(wish, random, 0, 10)
    return Drawn(values[:, None], starts, np.add.reduceat(values, starts[:-1])[:, None])


def _draw_statistics(wish: Wish, random: np.random.Generator) -> Drawn:
    """Mean, variance and entropy (in nats) of 10 to 100 digits, each set with its own probabilities."""
    sizes = _sizes(wish, random, *SAMPLE)
    starts = _starts(sizes)
    chances = np.cumsum(random.dirichlet(np.full(10, 0.5), wish.sets), axis=1)
    own = np.repeat(chances, sizes, axis=0)  # the probabilities of each digit's set
    digits = np.minimum((random.random((len(own), 1)) >= own).sum(1), 9).astype(np.float64)
    mean = np.add.reduceat(digits, starts[:-1]) / sizes
    variance = np.add.reduceat((digits - np.repeat(mean, sizes)) ** 2, starts[:-1]) / sizes
    counts = np.add.reduceat(np.eye(10)[digits.astype(int)], starts[:-1])
    share = counts / sizes[:, None]
    entropy = -(share * np.log(np.where(share > 0, share, 1))).sum(1)
    return Drawn(digits[:, None], starts, np.stack((mean, variance, entropy), -1))


def _draw_clusters(wish: Wish, random: np.random.Generator) -> Drawn:
    """Points of four Gaussians in the plane. The target holds share, middle (2) and deviation (2) of each
    Gaussian.

    As in Lee et al.: 100 to 500 points, the same number in all sets of a batch; middles within 4, deviation
    0.3, shares uniform.
    """
    n = wish.points or int(random.integers(CLUSTER_POINTS[0], CLUSTER_POINTS[1] + 1))
    share = random.dirichlet(np.ones(CLUSTERS), wish.sets)
    middle = random.uniform(-REACH, REACH, (wish.sets, CLUSTERS, 2))
    which = (random.random((wish.sets, n, 1)) >= np.cumsum(share, 1)[:, None]).sum(-1).clip(max=CLUSTERS - 1)
    points = np.take_along_axis(middle, which[..., None], 1) + SPREAD * random.normal(size=(wish.sets, n, 2))
    made = np.concatenate((share[..., None], middle, np.full_like(middle, SPREAD)), -1)
    return Drawn(points.reshape(-1, 2), n * np.arange(wish.sets + 1), made.reshape(wish.sets, -1))


def _draw_solid_clouds(wish: Wish, random: np.random.Generator) -> Drawn:
    """Points on the surface of one of twelve solids."""
    solids, n = random.integers(len(SOLIDS), size=wish.sets), wish.points or SOLID_POINTS
    clouds = draw_solids(solids, n, random, wish.turn)
    return Drawn(clouds.reshape(-1, 3), n * np.arange(wish.sets + 1), solids)


MADE: dict[str, MadeTask] = {
    "max": MadeTask("the largest of up to ten numbers", _draw_max, MOST, numbers=("max",)),
    "sum": MadeTask("the sum of up to ten digits", _draw_sum, MOST, numbers=("sum",)),
    "statistics": MadeTask(
        "mean, variance and entropy of digits", _draw_statistics, SAMPLE[1], numbers=("mean", "variance", "entropy")
    ),
    "clusters": MadeTask("four Gaussians, from their points", _draw_clusters, CLUSTER_POINTS[1], ("x", "y")),
    "solids": MadeTask(
        "twelve shapes, from points on their surface", _draw_solid_clouds, SOLID_POINTS, ("x", "y", "z"), tuple(SOLIDS)
    ),
}


def _whole(wish: Wish, random: np.random.Generator, low: int, high: int) -> tuple[Array, Array]:
    sizes = _sizes(wish, random, 1, MOST)
    return random.integers(low, high, sizes.sum()).astype(np.float64), _starts(sizes)


def _sizes(wish: Wish, random: np.random.Generator, low: int, high: int) -> Array:
    if wish.points:
        return np.full(wish.sets, wish.points)
    return random.integers(low, high + 1, wish.sets)


def _starts(sizes: Array) -> Array:
    return np.concatenate(([0], np.cumsum(sizes)))


# ── as examples: validation and test sets are drawn by the seed, training sets at each step

JUDGED, TOGETHER = 512, 32  # sets of the validation and of the test split, and how many are drawn at once
USUAL = 4096  # sets that give the mean and the standard deviation of a task
MOST_NAMES = 10**9  # sets that have a number each


def read_made(config: SetsConfig) -> Examples:
    """The sets of a synthetic task. None is there before a seed is known: see `Examples.draw`."""
    if config.folds is not None:
        raise RegardError(
            f"the task {config.task} is synthetic and its sets are drawn anew, so there is nothing to cut into "
            f"{config.folds} folds; use --train.seeds {config.folds} instead"
        )
    return replace(_as_examples(config, [], None), target=_target_of(config), draw=lambda seed: _draw(config, seed))


def draw_sets(config: SetsConfig, count: int, random: np.random.Generator) -> Drawn:
    """Some sets of a synthetic task."""
    return MADE[config.task].draw(Wish(count, config.points, config.turn or "any"), random)


def usual_sets(config: SetsConfig) -> Drawn:
    """Sets that say what numbers are like: by the task alone, so that a model of one seed fits sets of another."""
    return draw_sets(config, USUAL, generator(0, 7))


def draw_one(config: SetsConfig, name: str, seed: int) -> Examples:
    """The set of this number, to look at."""
    if not (name.isdecimal() and len(name) < 10 and 0 < int(name) < MOST_NAMES):
        raise RegardError(f"there is no file {name!r}; sets of the synthetic task {config.task} are called 1, 2, 3 …")
    found = _as_examples(config, [draw_sets(config, 1, generator(seed, 9, int(name)))], None)
    return replace(found, names=lambda i: name)


def _draw(config: SetsConfig, seed: int) -> Examples:
    """Each set is drawn by its own number, so a larger split begins with the same sets."""

    def judged(stream: int) -> list[Drawn]:
        return [draw_sets(config, TOGETHER, generator(seed, stream, i)) for i in range(JUDGED // TOGETHER)]

    validation, test = judged(2), [] if config.test == 0 else judged(8)
    train = [draw_sets(config, 1, generator(seed, 1, i)) for i in range(config.sets or 0)]
    counts = [TOGETHER * len(validation), len(train), TOGETHER * len(test)]
    splits = np.repeat(np.array([VALIDATION, TRAIN, TEST], dtype=np.uint8), counts)
    found = replace(_as_examples(config, [*validation, *train, *test], splits), target=_target_of(config))
    if config.sets is not None:
        return found
    return replace(found, more=lambda count, random: _as_examples(config, [draw_sets(config, count, random)], None))


def _as_examples(config: SetsConfig, parts: Sequence[Drawn], splits: Array | None) -> Examples:
    task = MADE[config.task]
    points = np.concatenate([part.points for part in parts]) if parts else np.zeros((0, len(task.features)))
    sizes = [np.diff(part.starts) for part in parts]
    starts = np.concatenate([[0], *sizes]).cumsum().astype(np.int64)
    cells: Array | None = None
    if parts:
        cells = np.concatenate([part.target for part in parts])
        if task.classes:
            cells = np.array(task.classes)[cells]
        elif cells.shape[1] == 1:
            cells = cells[:, 0]
    return Examples(
        what=config.task,
        count=len(starts) - 1,
        inputs=lambda i: {"x": points[starts[i] : starts[i + 1]], "in_ball": True},
        names=lambda i: str(i + 1),
        cells=cells,
        part="point" if config.task in ("solids", "clusters") else "element",
        splits=splits,
        about={"form": "made", "sizes": np.diff(starts)},
    )


def _target_of(config: SetsConfig) -> Target | None:
    """What is predicted; None: clusters."""
    task = MADE[config.task]
    if task.classes:
        return Target(classes=task.classes)
    if task.numbers:
        columns = zip(task.numbers, usual_sets(config).target.T, strict=True)
        return Target(numbers=tuple(Numbers.measure(name, column) for name, column in columns))
    return None
