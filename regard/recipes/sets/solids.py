"""Twelve solids. Each is a line rotated about an axis: in many steps for a round solid, in three or four for
one with edges.

A cylinder in four steps is a box, a cone in three a tetrahedron, so one description is enough for all of
them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from regard.data.array import Array
from regard.data.surface import Surface, random_turns

ROUND = 48  # steps around the axis that approximate a circle
NOISE = 0.01  # standard deviation of the points from the surface of a solid of size 1
STRETCH = 0.1  # by how much each axis of a solid may be longer or shorter

Line = tuple[tuple[float, float], ...]


class Shape(NamedTuple):
    """A line of (distance from the axis, height), the steps around the axis, and how it is squeezed after."""

    line: Line
    steps: int = ROUND
    squeeze: tuple[float, float, float] = (1.0, 1.0, 1.0)


def _arc(start: float, stop: float, *, radius: float = 1.0, out: float = 0.0, up: float = 0.0) -> Line:
    """A part of a circle, angles in shares of a whole turn from the level."""
    angles = 2 * np.pi * np.linspace(start, stop, 1 + round(ROUND * abs(stop - start)))
    return tuple((out + radius * float(np.cos(a)), up + radius * float(np.sin(a))) for a in angles)


ROOT2 = 2**0.5
SOLIDS: dict[str, Shape] = {
    "sphere": Shape(_arc(-0.25, 0.25)),
    "ellipsoid": Shape(_arc(-0.25, 0.25), squeeze=(1.0, 0.65, 0.4)),
    "dome": Shape(((0, 0), *_arc(0, 0.25))),
    "capsule": Shape((*_arc(-0.25, 0, radius=0.5, up=-0.5), *_arc(0, 0.25, radius=0.5, up=0.5))),
    "torus": Shape(_arc(0, 1, radius=0.35, out=0.8)),
    "cylinder": Shape(((0, -0.7), (0.7, -0.7), (0.7, 0.7), (0, 0.7))),
    "cone": Shape(((0, 0), (0.8, 0), (0, 1.6))),
    "cube": Shape(((0, -0.5), (ROOT2 / 2, -0.5), (ROOT2 / 2, 0.5), (0, 0.5)), steps=4),
    "prism": Shape(((0, -0.7), (0.8, -0.7), (0.8, 0.7), (0, 0.7)), steps=3),
    "pyramid": Shape(((0, 0), (1, 0), (0, 1.2)), steps=4),
    "tetrahedron": Shape(((0, 0), (1, 0), (0, ROOT2)), steps=3),
    "octahedron": Shape(((0, -1), (1, 0), (0, 1)), steps=4),
}


def mesh(name: str) -> tuple[Array, Array]:
    """A solid as vertices v 3 and triangles f 3."""
    line, steps, squeeze = SOLIDS[name]
    out, up = np.array(line).T
    angles = 2 * np.pi * (0.5 + np.arange(steps)) / steps  # (so that the sides of a box are along the axes)
    rings = (out * np.cos(angles)[:, None], out * np.sin(angles)[:, None], np.broadcast_to(up, (steps, len(up))))
    vertices = np.stack(rings, -1) * squeeze  # steps l 3
    here = np.arange(vertices[..., 0].size).reshape(vertices.shape[:2])
    there = np.roll(here, -1, axis=0)  # the next ring; the last is followed by the first
    a, b, c, d = (part.reshape(-1) for part in (here[:, :-1], here[:, 1:], there[:, 1:], there[:, :-1]))
    # (a triangle that ends on the axis has no area, and so no points)
    return vertices.reshape(-1, 3), np.concatenate((np.stack((a, b, c), -1), np.stack((a, c, d), -1)))


@lru_cache(maxsize=len(SOLIDS))
def _surface(name: str) -> Surface:
    return Surface(*mesh(name))


def draw_solids(solids: Array, points: int, random: np.random.Generator, turn: str = "any") -> Array:
    """Point clouds on solids, each stretched a little, rotated, and fitted into a ball.
    solids: b -> b points 3"""
    names = list(SOLIDS)
    clouds = np.stack([_surface(names[solid]).sample(points, random) for solid in solids])
    clouds *= 1 + STRETCH * random.uniform(-1, 1, (len(solids), 1, 3))
    if turn != "none":
        clouds = clouds @ random_turns(len(solids), random, upright=turn == "upright")
    return fit_in_ball(clouds + NOISE * random.normal(size=clouds.shape))


def fit_in_ball(cloud: Array) -> Array:
    """The same point cloud around the origin, its farthest point at distance 1.   ... n d -> ... n d"""
    if cloud.shape[-2] == 0:
        return cloud
    cloud = cloud - cloud.mean(-2, keepdims=True)
    far: Array = np.linalg.norm(cloud, axis=-1).max(-1)[..., None, None]
    return cloud / np.where(far > 0, far, 1)
