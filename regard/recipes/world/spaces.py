"""What an observation and an action are: how many numbers or which image, which kinds, in which limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from regard.config import Size, config, to_dict
from regard.data.array import Array
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.recipes.world.config import WorldDataConfig

MOST = 4096  # numbers of an observation: more are an image
WIDEST = 256  # numbers, or kinds, of an action
LARGEST = 1e15  # of any number: in float32 the sums of squares of much larger ones are infinite
LEAST_SIDE, MOST_SIDE = 8, 256
COLOURS = (1, 3, 4)  # channels of an image: grey, colours, colours and how opaque they are
AN_IMAGE = (
    f"an image is h w or h w c, with sides of at least {LEAST_SIDE} pixels and {', '.join(map(str, COLOURS))} "
    "channels, which come last"
)


@config
class Spaces:
    """The observations and actions of a world: what a run knows of its episodes, `processor` in config.json."""

    observations: Size  # numbers of an observation, after those that are hidden
    actions: Size  # kinds of an action, or numbers of a continuous one
    discrete: bool
    environment: str | None = None  # CartPole-v1; None: recorded episodes
    first: Annotated[int, Field(ge=-(2**31), le=2**31)] = 0  # the smallest kind, as the environment counts
    low: tuple[float, ...] = ()  # limits of a continuous action
    high: tuple[float, ...] = ()
    observed: tuple[Annotated[int, Field(ge=0, le=2**20)], ...] | None = (
        None  # which numbers of an observation are seen; None: all
    )
    # h w c of an observation that is an image; what the model sees is its code
    image: tuple[Size, ...] | None = None
    drawn: bool = False  # are the states of the environment drawn as images?

    def store(self) -> dict[str, Any]:
        """For config.json."""
        return to_dict(self)

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


def is_image(shape: Sequence[int]) -> bool:
    """Is this the shape of an image: h w or h w c?"""
    if len(shape) == 3 and shape[2] not in COLOURS:
        return False
    return len(shape) in (2, 3) and min(shape[:2]) >= LEAST_SIDE


def see_shape(shape: Sequence[int], name: str, data: WorldDataConfig) -> dict[str, Any]:
    """What is seen of observations of this shape: the fields of `Spaces` that say it. name: of an environment or a file"""
    if data.images:
        return {"observations": data.code, "image": (data.side, data.side, 1), "drawn": True}
    if len(shape) > 1:
        if not is_image(shape):
            raise RegardError(
                f"{name}: an observation must be a vector of numbers or an image, got shape {tuple(shape)}; {AN_IMAGE}; "
                "or wrap the environment in gymnasium.wrappers.FlattenObservation"
            )
        if data.observed:
            raise RegardError(f"--data.observed is of vectors, and {name} gives images; leave it out")
        return {"observations": data.code, "image": (data.side, data.side, shape[2] if len(shape) == 3 else 1)}
    whole, observed = math.prod(shape), data.observed
    if observed and (max(observed) >= whole or len(set(observed)) < len(observed)):
        raise RegardError(
            f"--data.observed must be different numbers from 0 to {whole - 1}, as an observation of {name} has {whole}, "
            f"got {', '.join(map(str, observed))}"
        )
    count = len(observed) if observed else whole
    if not 1 <= count <= MOST:
        raise RegardError(f"{name}: an observation must have from 1 to {MOST:,} numbers, got {count:,}")
    return {"observations": count, "observed": observed or None}


def spaces_of_environment(found: dict[str, Any], data: WorldDataConfig) -> Spaces:
    """The spaces that an environment says, or an error that says why it cannot be learned."""
    name, seen, done = str(data.environment), found["observation"], found["action"]
    if seen["kind"] != "box":
        raise RegardError(
            f"{name}: an observation must be a vector of numbers or an image, got the space {seen['kind']}; wrap the "
            "environment in gymnasium.wrappers.FlattenObservation, or record vectors as episodes.npz"
        )
    observations = {"environment": name} | see_shape(seen["shape"], name, data)
    given_images = "image" in observations and not data.images
    if given_images and (None in seen["low"] or None in seen["high"] or not seen["low"][0] < seen["high"][0]):
        raise RegardError(
            f"{name}: images need limits, got a Box from {seen['low'][0]} to {seen['high'][0]}; say in its "
            "observation_space which number is black and which is white"
        )
    if done["kind"] not in ("discrete", "box"):
        raise RegardError(
            f"{name}: an action must be a kind (Discrete) or numbers (Box), got the space {done['kind']}; "
            "record episodes of your own and give them as episodes.npz"
        )
    discrete = done["kind"] == "discrete"
    count = done["count"] if discrete else len(done["low"])
    if not 1 <= count <= WIDEST:
        what = "kinds" if discrete else "numbers"
        raise RegardError(f"{name}: an action must have from 1 to {WIDEST} {what}, got {count:,}")
    if discrete:
        return Spaces(actions=count, discrete=True, first=done["first"], **observations)
    if None in done["low"] or None in done["high"]:
        raise RegardError(
            f"{name}: continuous actions need limits, got none; wrap the environment in "
            "gymnasium.wrappers.RescaleAction"
        )
    return Spaces(actions=count, discrete=False, low=tuple(done["low"]), high=tuple(done["high"]), **observations)
