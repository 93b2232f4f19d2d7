"""Synthetic meshes as examples: validation and test meshes are drawn by the seed, training meshes at each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from regard.data.batch import generator
from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.data.targets import Numbers
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.meshes.config import MeshesConfig
from regard.recipes.meshes.made_meshes import MADE, Drawn, Random, draw_mesh
from regard.recipes.target import Target

JUDGED = 256  # meshes in the validation split, and in the test split
USUAL = 512  # meshes that give the mean and standard deviation of a number


def read_made(config: MeshesConfig) -> Examples:
    """The meshes of a synthetic task. None is there before a seed is known: see `Examples.draw`."""
    return replace(as_examples(config, []), target=_target_of(config), draw=lambda seed: _draw(config, seed))


def draw_meshes(config: MeshesConfig, count: int, random: Random) -> list[Drawn]:
    """Some meshes of a synthetic task, with their targets."""
    return [draw_mesh(config.task, random) for _ in range(count)]


def draw_one(config: MeshesConfig, name: str, seed: int) -> Examples:
    """The mesh of this number, to look at."""
    if not (name.isdecimal() and len(name) < 10 and int(name)):
        raise RegardError(f"there is no file {name!r}; meshes of the synthetic task {config.task} are called 1, 2, 3 …")
    found = as_examples(config, draw_meshes(config, 1, generator(seed, 9, int(name))))
    return replace(found, names=lambda i: name)


def _draw(config: MeshesConfig, seed: int) -> Examples:
    """Each mesh is drawn by its own number, so a larger split begins with the same meshes."""

    def draw_split(stream: int, count: int) -> list[Drawn]:
        return [draw_mesh(config.task, generator(seed, stream, i)) for i in range(count)]

    validation = draw_split(2, JUDGED)
    train = draw_split(1, config.meshes or 0)
    test = [] if config.test == 0 else draw_split(8, JUDGED)
    counts = [len(validation), len(train), len(test)]
    found = replace(
        as_examples(config, [*validation, *train, *test]),
        target=_target_of(config),
        splits=np.repeat(np.array([VALIDATION, TRAIN, TEST], dtype=np.uint8), counts),
    )
    if config.meshes is not None:
        return found
    return replace(found, more=lambda count, random: as_examples(config, draw_meshes(config, count, random)))


def as_examples(config: MeshesConfig, drawn: Sequence[Drawn]) -> Examples:
    """Meshes of a synthetic task, with their families or numbers as targets."""
    task = MADE[config.task]
    cells = np.array([target for _, target in drawn])
    if task.number is None:
        cells = np.array(task.families)[cells.astype(np.int64)]
    return Examples(
        what=config.task,
        count=len(drawn),
        inputs=lambda i: {"mesh": drawn[i][0]},
        names=lambda i: str(i + 1),
        cells=cells if drawn else None,
        target_names=(task.number or "target",),
    )


def _target_of(config: MeshesConfig) -> Target:
    """The scale of a number depends on the task alone."""
    task = MADE[config.task]
    if task.number is None:
        return Target(classes=task.families)
    usual = np.array([target for _, target in draw_meshes(config, USUAL, generator(0, 7))])
    return Target(numbers=(Numbers.measure(task.number, usual),))
