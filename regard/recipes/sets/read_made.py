"""Synthetic sets as examples: validation and test sets are drawn by the seed, training sets at each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from regard.data.array import Array
from regard.data.batch import generator
from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.data.targets import Numbers
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.sets.config import SetsConfig
from regard.recipes.sets.made_sets import MADE, Drawn, Wish
from regard.recipes.target import Target

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
