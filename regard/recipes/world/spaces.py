"""What an observation and an action are: how many numbers, which kinds, in which limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError
from regard.recipes.world.draw_states import check_drawn
from regard.recipes.world.images import Sight, explain_image, is_image

MOST = 4096  # numbers of an observation: more are an image
WIDEST = 256  # numbers, or kinds, of an action
LARGEST = 1e15  # of any number: in float32 the sums of squares of much larger ones are infinite


@dataclass(frozen=True, kw_only=True)
class Spaces:
    """The observations and actions of a world."""

    observations: int  # numbers of an observation, after those that are hidden
    actions: int  # kinds of an action, or numbers of a continuous one
    discrete: bool
    first: int = 0  # the smallest kind, as the environment counts
    low: tuple[float, ...] = ()  # limits of a continuous action
    high: tuple[float, ...] = ()
    observed: tuple[int, ...] | None = None  # which numbers of an observation are seen; None: all
    # h w c of an observation that is an image; what the model sees is its code
    image: tuple[int, ...] | None = None
    drawn: str | None = None  # the environment whose states are drawn as images; None: none are

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what is kept of an observation."""
        return self.image or (self.observations,)

    def see(self, observations: Array) -> Array:
        """What the model sees of observations.   ... whole -> ... o"""
        if self.observed is None:
            return observations
        return observations[..., list(self.observed)]

    def encode(self, actions: Array) -> Array:
        """Actions of the environment as the model takes them: one-hot, or numbers from −1 to 1.   n a"""
        if self.discrete:
            return np.eye(self.actions, dtype=np.float32)[actions.astype(np.int64).reshape(-1) - self.first]
        low, high = np.asarray(self.low), np.asarray(self.high)
        scaled = (actions.reshape(-1, self.actions) - low) / (high - low) * 2 - 1
        return scaled.astype(np.float32)

    def decode(self, actions: Array) -> Array:
        """Actions of the model as the environment takes them; what is out of its limits is clipped.   n a"""
        if self.discrete:
            found: Array = actions.argmax(-1) + self.first
            return found
        low, high = np.asarray(self.low), np.asarray(self.high)
        return (np.clip(actions, -1, 1) + 1) / 2 * (high - low) + low

    def draw(self, random: np.random.Generator, count: int) -> Array:
        """Actions by chance, as the model takes them.   count a"""
        if self.discrete:
            return np.eye(self.actions, dtype=np.float32)[random.integers(self.actions, size=count)]
        return random.uniform(-1, 1, (count, self.actions)).astype(np.float32)


def read_spaces(found: dict[str, Any], name: str, sight: Sight) -> Spaces:
    """The spaces of an environment, or an error that says why it cannot be learned."""
    seen, done = found["observation"], found["action"]
    image = _read_image(seen, name, sight)
    whole = int(np.prod(seen["shape"], dtype=np.int64))
    observed = sight.observed
    _check_observed(observed, whole, name)
    count = whole if observed is None else len(observed)
    if image is not None:
        count = sight.code
    if not 1 <= count <= MOST:
        raise RegardError(f"{name}: an observation must have from 1 to {MOST:,} numbers, got {count:,}")
    if done["kind"] == "discrete":
        _check_width(name, done["count"], "kinds")
        return Spaces(
            observations=count,
            actions=done["count"],
            discrete=True,
            first=done["first"],
            observed=observed,
            image=image,
            drawn=sight.drawn,
        )
    if done["kind"] != "box":
        raise RegardError(
            f"{name}: an action must be a kind (Discrete) or numbers (Box), got the space {done['kind']}; "
            "record episodes of your own and give them as episodes.npz"
        )
    if None in done["low"] or None in done["high"]:
        raise RegardError(
            f"{name}: continuous actions need limits, got none; wrap the environment in "
            "gymnasium.wrappers.RescaleAction"
        )
    _check_width(name, len(done["low"]), "numbers")
    return Spaces(
        observations=count,
        actions=len(done["low"]),
        discrete=False,
        low=tuple(done["low"]),
        high=tuple(done["high"]),
        observed=observed,
        image=image,
        drawn=sight.drawn,
    )


def _read_image(seen: dict[str, Any], name: str, sight: Sight) -> tuple[int, ...] | None:
    """h w c of images, as they are kept; None: observations are vectors."""
    if seen["kind"] != "box":
        raise RegardError(
            f"{name}: an observation must be a vector of numbers or an image, got the space {seen['kind']}; wrap the "
            "environment in gymnasium.wrappers.FlattenObservation, or record vectors as episodes.npz"
        )
    shape = tuple(seen["shape"])
    if sight.drawn is not None:
        check_drawn(sight.drawn)
        return (sight.side, sight.side, 1)
    if len(shape) <= 1:
        return None
    if not is_image(shape):
        raise RegardError(
            f"{name}: an observation must be a vector of numbers or an image, got shape {shape}; {explain_image()}; or "
            "wrap the environment in gymnasium.wrappers.FlattenObservation"
        )
    if None in seen["low"] or None in seen["high"] or not seen["low"][0] < seen["high"][0]:
        raise RegardError(
            f"{name}: images need limits, got a Box from {seen['low'][0]} to {seen['high'][0]}; say in its "
            "observation_space which number is black and which is white"
        )
    if sight.observed is not None:
        raise RegardError(f"--data.observed is of vectors, and {name} gives images; leave it out")
    return (sight.side, sight.side, shape[2] if len(shape) == 3 else 1)


def _check_width(name: str, count: int, what: str) -> None:
    if not 1 <= count <= WIDEST:
        raise RegardError(f"{name}: an action must have from 1 to {WIDEST} {what}, got {count:,}")


def _check_observed(observed: tuple[int, ...] | None, whole: int, name: str) -> None:
    if observed is None:
        return
    wrong = [number for number in observed if not 0 <= number < whole]
    if wrong or not observed or len(set(observed)) < len(observed):
        raise RegardError(
            f"--data.observed must be different numbers from 0 to {whole - 1}, as an observation of {name} has "
            f"{whole}, got {', '.join(map(str, observed)) or 'none'}"
        )
