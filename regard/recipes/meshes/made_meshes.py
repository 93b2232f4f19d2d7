"""Synthetic surfaces, of several resolutions, noisy, scaled and turned at random: no file is needed.

A screw and its mirror image have the same triangles, lengths and curvatures. Only what knows a direction at each vertex,
and left from right, can tell them apart: a network whose filters look the same in all directions fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import TypeAlias

import numpy as np

from regard.data.array import Array
from regard.data.batch import generator
from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.data.surface import Mesh, random_turns
from regard.data.targets import Numbers
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.meshes.config import MeshesConfig
from regard.recipes.target import Target

FINENESS = (4, 6)  # an edge of the icosahedron is cut into so many parts: 162 to 362 vertices
NOISE = 0.05  # of a vertex, in units of the mean length of an edge
Random = np.random.Generator


@dataclass(frozen=True)
class MadeTask:
    """A synthetic task: surfaces of some families, and their family, or a number, as the target."""

    sentence: str
    families: tuple[str, ...]
    number: str | None = None  # the name of the number; None: the family is the target


Drawn: TypeAlias = tuple[Mesh, float]  # a surface, and its target: the number of its family, or a number


def draw_mesh(task: str, random: Random) -> Drawn:
    """One surface, and its target."""
    made = MADE[task]
    which = int(random.integers(len(made.families)))
    points, faces = FAMILIES[made.families[which]](random)
    if made.number is not None:
        return Mesh(_disturb(points, faces, random), faces), measure_roundness(points, faces)
    return Mesh(_disturb(points, faces, random), faces), float(which)


def measure_roundness(points: Array, faces: Array) -> float:
    """36π V² / A³: 1 for a sphere, less for all else."""
    a, b, c = np.moveaxis(points[faces], 1, 0)
    volume = (np.cross(a, b) * c).sum() / 6
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
    return float(36 * np.pi * volume**2 / area**3)


def _disturb(points: Array, faces: Array, random: Random) -> Array:
    """Noise, then any size, any turn and any place."""
    a, b, _ = np.moveaxis(points[faces], 1, 0)
    edge = np.linalg.norm(b - a, axis=1).mean()
    noisy = points + NOISE * edge * random.normal(size=points.shape)
    turn = random_turns(1, random)[0]
    found: Array = np.exp(random.uniform(-1, 1)) * noisy @ turn.T + random.normal(size=3)
    return found


# ── spheres, and what becomes of them


@cache
def _icosphere(cuts: int) -> tuple[Array, Array]:
    """A sphere of 10·cuts² + 2 vertices: the faces of an icosahedron cut into cuts² triangles each."""
    phi = (1 + 5**0.5) / 2
    flat = np.array([[0, i, j * phi] for i in (-1, 1) for j in (-1, 1)])
    corners = np.concatenate([np.roll(flat, k, 1) for k in range(3)])
    near = np.linalg.norm(corners[:, None] - corners, axis=-1) < 2.1
    points: list[Array] = []
    known: dict[tuple[int, ...], int] = {}
    faces: list[tuple[int, int, int]] = []

    def place(face: tuple[int, int, int], i: int, j: int) -> int:
        """The vertex i steps along the second side of a face and j along the third."""
        point = np.array([cuts - i - j, i, j]) @ corners[list(face)]
        key = tuple(np.round(point * 1e6).astype(int).tolist())
        if key not in known:
            known[key] = len(points)
            points.append(point / np.linalg.norm(point))
        return known[key]

    for a, b, c in combinations(range(12), 3):
        if not (near[a, b] and near[b, c] and near[a, c]):
            continue
        face = (a, b, c) if np.linalg.det(corners[[a, b, c]]) > 0 else (b, a, c)
        for i in range(cuts):
            for j in range(cuts - i):
                faces.append((place(face, i, j), place(face, i + 1, j), place(face, i, j + 1)))
                if i + j < cuts - 1:
                    faces.append((place(face, i + 1, j), place(face, i + 1, j + 1), place(face, i, j + 1)))
    return np.array(points), np.array(faces)


def _sphere(random: Random) -> tuple[Array, Array]:
    """One of the spheres, turned, with vertices that are not quite where they were."""
    points, faces = _icosphere(int(random.integers(FINENESS[0], FINENESS[1] + 1)))
    points = points @ random_turns(1, random)[0].T
    points = points + 0.2 / np.sqrt(len(points)) * random.normal(size=points.shape)
    return points / np.linalg.norm(points, axis=1, keepdims=True), faces


def _ellipsoid(random: Random) -> tuple[Array, Array]:
    points, faces = _sphere(random)
    return points * random.uniform(0.6, 1.4, 3), faces


def _box(random: Random) -> tuple[Array, Array]:
    """|x|^p + |y|^p + |z|^p = 1: flat sides, round edges."""
    points, faces = _sphere(random)
    power = random.uniform(5, 9)
    size = (np.abs(points) ** power).sum(1, keepdims=True) ** (1 / power)
    return points / size * random.uniform(0.7, 1.3, 3), faces


def _peanut(random: Random) -> tuple[Array, Array]:
    """Two ends and a waist."""
    points, faces = _sphere(random)
    waist = 1 - random.uniform(0.35, 0.55) * np.exp(-((points[:, 2:] / 0.45) ** 2))
    return points * np.concatenate((waist, waist, np.full_like(waist, random.uniform(1.2, 1.6))), 1), faces


def _star(random: Random) -> tuple[Array, Array]:
    """Five arms in a plane."""
    points, faces = _sphere(random)
    angle = np.arctan2(points[:, 1], points[:, 0])
    flat = 1 - points[:, 2] ** 2
    radius = 1 + random.uniform(0.25, 0.4) * np.cos(5 * angle) * flat**2
    return points * radius[:, None] * np.array([1, 1, random.uniform(0.6, 0.9)]), faces


def _torus(random: Random) -> tuple[Array, Array]:
    """A ring."""
    around = int(random.integers(18, 27))
    across = max(6, around // 2 - int(random.integers(0, 3)))
    i, j = np.meshgrid(np.arange(around), np.arange(across), indexing="ij")
    u = 2 * np.pi * (i + 0.1 * random.normal(size=i.shape)) / around
    v = 2 * np.pi * (j + 0.1 * random.normal(size=i.shape)) / across
    thick = random.uniform(0.3, 0.5)
    ring = 1 + thick * np.cos(v)
    points = np.stack((ring * np.cos(u), ring * np.sin(u), thick * np.sin(v)), -1).reshape(-1, 3)
    number = lambda a, b: (a % around) * across + b % across  # noqa: E731
    a, b, c, d = (number(i + di, j + dj).ravel() for di, dj in ((0, 0), (1, 0), (1, 1), (0, 1)))
    other = random.random(len(a)) < 0.5  # which diagonal cuts a field in two
    one = np.where(other[:, None], np.stack((a, b, d), -1), np.stack((a, b, c), -1))
    two = np.where(other[:, None], np.stack((b, c, d), -1), np.stack((a, c, d), -1))
    return points, np.concatenate((one, two))


def _screw(side: int) -> Callable[[Random], tuple[Array, Array]]:
    """A rod with three ridges that wind around it: to the left, or to the right."""

    def draw(random: Random) -> tuple[Array, Array]:
        points, faces = _sphere(random)
        angle = np.arctan2(points[:, 1], points[:, 0])
        tall = random.uniform(1.5, 1.9)
        wind = side * random.uniform(0.9, 1.3) * tall * points[:, 2]
        ridge = 1 + random.uniform(0.2, 0.3) * np.cos(3 * (angle - wind)) * (1 - points[:, 2] ** 2)
        return points * np.stack((ridge, ridge, np.full_like(ridge, tall)), -1), faces

    return draw


FAMILIES: dict[str, Callable[[Random], tuple[Array, Array]]] = {
    "ellipsoid": _ellipsoid,
    "box": _box,
    "peanut": _peanut,
    "star": _star,
    "torus": _torus,
    "left screw": _screw(-1),
    "right screw": _screw(1),
}
MADE: dict[str, MadeTask] = {
    "shapes": MadeTask("seven families of closed surfaces, two of them mirror images", tuple(FAMILIES)),
    "screws": MadeTask("a screw, or its mirror image", ("left screw", "right screw")),
    "roundness": MadeTask("36π V² / A³ of a surface: 1 for a sphere", tuple(FAMILIES), "roundness"),
}


# ── as examples: validation and test meshes are drawn by the seed, training meshes at each step

JUDGED = 256  # meshes in the validation split, and in the test split
USUAL = 512  # meshes that give the mean and standard deviation of a number


def read_made(config: MeshesConfig) -> Examples:
    """The meshes of a synthetic task. None is there before a seed is known: see `Examples.draw`."""
    if config.folds is not None:
        raise RegardError(
            f"the task {config.task} is synthetic and its meshes are drawn anew, so there is nothing to cut into "
            f"{config.folds} folds; use --train.seeds {config.folds} instead"
        )
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
        about={"made": True},
    )


def _target_of(config: MeshesConfig) -> Target:
    """The scale of a number depends on the task alone."""
    task = MADE[config.task]
    if task.number is None:
        return Target(classes=task.families)
    usual = np.array([target for _, target in draw_meshes(config, USUAL, generator(0, 7))])
    return Target(numbers=(Numbers.measure(task.number, usual),))
