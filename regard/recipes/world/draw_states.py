"""States of known environments as small grey images, drawn all at once: a world that is seen, not told in numbers.

A pixel is as bright as it is covered, with soft edges, so that a shape that moves by a fraction of a pixel shows it.
One image does not say how fast anything moves.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError

SIDE = 32  # pixels of the plane that shapes are placed on; other sizes scale it
EDGE = 1.5  # pixels over which an edge fades
WHITE = 255
Place = tuple[Array, Array]  # x and y in pixels, each b 1 1; y grows downwards


class _Plane:
    """Black images that shapes are drawn on, the brighter one in front.   b side side"""

    def __init__(self, count: int, side: int, edge: float) -> None:
        self.edge = edge
        places = (np.arange(side) + 0.5) * SIDE / side
        self.x, self.y = places[None, None, :], places[None, :, None]
        self.image = np.zeros((count, side, side))

    def rod(self, start: Place, end: Place, width: float, light: float = 1.0) -> None:
        """A line with round ends."""
        across, down = end[0] - start[0], end[1] - start[1]
        length = np.maximum(across**2 + down**2, 1e-9)
        x, y = self.x - start[0], self.y - start[1]
        along = np.clip((x * across + y * down) / length, 0, 1)
        self._add(np.hypot(x - along * across, y - along * down) - width / 2, light)

    def box(self, centre: Place, width: float, height: float, light: float) -> None:
        across = np.abs(self.x - centre[0]) - width / 2
        down = np.abs(self.y - centre[1]) - height / 2
        outside = np.hypot(np.maximum(across, 0), np.maximum(down, 0))
        self._add(outside + np.minimum(np.maximum(across, down), 0), light)

    def _add(self, distance: Array, light: float) -> None:
        """distance: of each pixel from the border of a shape, negative inside."""
        self.image = np.maximum(self.image, light * np.clip(0.5 - distance / self.edge, 0, 1))

    def bytes(self) -> Array:
        found: Array = np.round(self.image * WHITE).astype(np.uint8)[..., None]
        return found


def _column(numbers: Array) -> Array:
    found: Array = numbers.astype(np.float64)[:, None, None]
    return found


def _draw_cart_pole(plane: _Plane, states: Array) -> None:
    """position, velocity, angle, angular velocity. The pole is as long as the image lets it be."""
    x, angle = _column(states[:, 0]), _column(states[:, 2])
    middle = (x + 2.6) / 5.2 * SIDE
    top = np.full_like(middle, 25.0)
    plane.box((middle, top + 2.5), 8.0, 4.0, 0.6)
    plane.rod((middle, top), (middle + 20 * np.sin(angle), top - 20 * np.cos(angle)), 2.5)


def _draw_pendulum(plane: _Plane, states: Array) -> None:
    """cosine and sine of the angle from upright, angular velocity"""
    cosine, sine = _column(states[:, 0]), _column(states[:, 1])
    middle = np.full_like(cosine, SIDE / 2)
    plane.rod((middle, middle), (middle - 12 * sine, middle - 12 * cosine), 4.0)
    plane.box((middle, middle), 2.0, 2.0, 0.4)


def _draw_acrobot(plane: _Plane, states: Array) -> None:
    """cosines and sines of both angles, the first one from hanging down, and their velocities"""
    first = np.arctan2(_column(states[:, 1]), _column(states[:, 0]))
    second = first + np.arctan2(_column(states[:, 3]), _column(states[:, 2]))
    middle = np.full_like(first, SIDE / 2)
    elbow = (middle + 7 * np.sin(first), middle + 7 * np.cos(first))
    plane.rod((middle, middle), elbow, 3.0, 0.6)
    plane.rod(elbow, (elbow[0] + 7 * np.sin(second), elbow[1] + 7 * np.cos(second)), 2.5)


def _draw_mountain_car(plane: _Plane, states: Array) -> None:
    """position, velocity: a car on the hill sin 3x"""
    x = _column(states[:, 0])

    def place(x: Array) -> Place:
        return 2 + (x + 1.2) / 1.8 * (SIDE - 4), 18 - 10 * np.sin(3 * x)

    hill = np.linspace(-1.2, 0.6, 13)[:, None, None, None]
    for start, end in pairwise(hill):
        plane.rod(place(start), place(end), 1.0, 0.3)
    car = place(x)
    plane.rod(car, car, 5.0)


# how the states of an environment are drawn, and how many of their numbers that reads
SCENES: dict[str, tuple[Callable[[_Plane, Array], None], int]] = {
    "CartPole-v0": (_draw_cart_pole, 3),
    "CartPole-v1": (_draw_cart_pole, 3),
    "Pendulum-v1": (_draw_pendulum, 2),
    "Acrobot-v1": (_draw_acrobot, 4),
    "MountainCar-v0": (_draw_mountain_car, 1),
    "MountainCarContinuous-v0": (_draw_mountain_car, 1),
}


def check_drawn(environment: str) -> None:
    """Raise for an environment that nobody has drawn."""
    if environment not in SCENES:
        raise RegardError(
            f"--data.images draws {', '.join(SCENES)}, and not {environment}; leave it out: an environment whose "
            "observations are images is seen as images anyway"
        )


def draw_states(environment: str, states: Array, side: int = SIDE, edge: float = EDGE) -> Array:
    """Images of states, as the environment gives them.   b k -> b side side 1, in bytes"""
    check_drawn(environment)
    draw, needs = SCENES[environment]
    if states.ndim != 2 or states.shape[1] < needs:
        raise RegardError(f"a state of {environment} has at least {needs} numbers, got shape {states.shape}")
    plane = _Plane(len(states), side, edge)
    draw(plane, states)
    return plane.bytes()
