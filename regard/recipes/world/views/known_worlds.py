"""Worlds that have words and a drawing: what each number of an observation and each action is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.recipes.world.spaces import Spaces


@dataclass(frozen=True)
class KnownWorld:
    """An environment that people know."""

    numbers: tuple[str, ...]  # what each number of an observation is
    actions: tuple[str, ...]  # the kinds of an action, or its numbers
    drawing: str  # the name of its drawing on a page
    needs: tuple[int, ...]  # the numbers that are drawn


CART_POLE = KnownWorld(
    ("position", "velocity", "angle", "angular velocity"), ("push left", "push right"), "cart-pole", (0, 2)
)
PENDULUM = KnownWorld(("cosine of the angle", "sine of the angle", "angular velocity"), ("torque",), "pendulum", (0, 1))
KNOWN = {"CartPole-v0": CART_POLE, "CartPole-v1": CART_POLE, "Pendulum-v1": PENDULUM}


def number_names(spaces: Spaces) -> list[str]:
    """What each number of an observation is called; people count from 1."""
    if spaces.image is not None:
        half = spaces.observations // 2
        return [f"{way} {each + 1}" for way in ("across", "down") for each in range(half)]
    seen = spaces.observed or tuple(range(spaces.observations))
    known = KNOWN.get(spaces.environment or "")
    if known is None or max(seen) >= len(known.numbers):
        return [f"number {each + 1}" for each in seen]
    return [known.numbers[each] for each in seen]


def action_names(spaces: Spaces) -> list[str]:
    """What each kind of an action, or each number of it, is called."""
    known = KNOWN.get(spaces.environment or "")
    if known is not None and len(known.actions) == spaces.actions:
        return list(known.actions)
    if spaces.discrete:
        return [f"action {spaces.first + each}" for each in range(spaces.actions)]
    if spaces.actions == 1:
        return ["action"]
    return [f"action {each + 1}" for each in range(spaces.actions)]


def drawing_of(spaces: Spaces) -> dict[str, Any] | None:
    """The drawing, and the places of its numbers in an observation; None: nobody has drawn this world, or what
    is drawn is not seen."""
    known = None if spaces.image is not None else KNOWN.get(spaces.environment or "")
    seen = spaces.observed or tuple(range(spaces.observations))
    if known is None or not set(known.needs) <= set(seen):
        return None
    return {"name": known.drawing, "at": [seen.index(each) for each in known.needs]}
