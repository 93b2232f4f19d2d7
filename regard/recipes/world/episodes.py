"""Episodes in memory: steps one after another, and where each episode begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import files
from regard.data.array import Array
from regard.data.batch import Batch
from regard.recipes.world.spaces import Spaces


@dataclass(frozen=True, eq=False, kw_only=True)
class Episodes:
    """Steps of episodes, one after another. Actions are as the model takes them."""

    observations: Array  # n o, before each step
    actions: Array  # n a: one-hot, or from −1 to 1
    rewards: Array  # n
    following: Array  # n o, after each step
    terminated: Array  # bool n: nothing comes after this step
    last: Array  # bool n: the last step of its episode, terminated or cut off
    # of a world that is seen as images, n h w c in bytes; observations are then their codes
    images: Array | None = None
    next_images: Array | None = None

    def __len__(self) -> int:
        return len(self.rewards)

    @cached_property
    def starts(self) -> Array:
        """The first step of each episode."""
        return np.flatnonzero(np.concatenate(([True], self.last[:-1]))) if len(self) else np.zeros(0, np.int64)

    @cached_property
    def lengths(self) -> Array:
        """The number of steps of each episode."""
        return np.diff(np.append(self.starts, len(self)))

    @cached_property
    def of(self) -> Array:
        """The episode of each step.   n"""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    @cached_property
    def returns(self) -> Array:
        """The sum of the rewards of each episode."""
        return np.add.reduceat(self.rewards.astype(np.float64), self.starts) if len(self) else np.zeros(0)

    @cached_property
    def steps(self) -> Array:
        """Observations and actions side by side, as the model reads them.   n (o + a)"""
        return np.concatenate((self.observations, self.actions), 1).astype(np.float32)

    def episode(self, number: int) -> Episodes:
        """One episode alone."""
        first = int(self.starts[number])
        return self.take(np.arange(first, first + int(self.lengths[number])))

    def take(self, rows: Array) -> Episodes:
        """Some of the steps."""
        found: dict[str, Any] = {name: getattr(self, name) for name in FIELDS}
        taken: dict[str, Any] = {name: None if each is None else each[rows] for name, each in found.items()}
        return Episodes(**taken)

    def chunk(self, first: Array, length: int, before: int = 0) -> Batch:
        """`length` steps from each of these on, and `before` steps ahead of them; what is not of the same episode is
        padding.   -> steps b n (o + a), target b n (o + 2): the next observation, the reward, 1 where it terminated"""
        rows = first[:, None] + np.arange(-before, length)
        begins = self.starts[self.of[first]][:, None]
        real = (rows >= begins) & (rows < begins + self.lengths[self.of[first]][:, None])
        rows = np.clip(rows, 0, len(self) - 1)
        outcome = np.concatenate((self.following, self.rewards[:, None], self.terminated[:, None]), 1)
        inputs = {"steps": torch.from_numpy(self.steps[rows]), "real": torch.from_numpy(real)}
        return Batch(inputs, torch.from_numpy(outcome.astype(np.float32)[rows]), size=rows.size)

    def history(self, at: Array, length: int) -> tuple[Tensor, Tensor]:
        """The `length` steps before each of these steps; what is before the beginning of an episode is not real.
        -> steps b n (o + a), real b n"""
        rows = at[:, None] + np.arange(-length, 0)
        real = rows >= self.starts[self.of[at]][:, None]
        return torch.from_numpy(self.steps[np.maximum(rows, 0)]), torch.from_numpy(real)


FIELDS = ("observations", "actions", "rewards", "following", "terminated", "last", "images", "next_images")


def join(parts: Sequence[Episodes]) -> Episodes:
    """All episodes, one after another."""
    found: dict[str, Any] = {}
    for name in FIELDS:
        arrays = [getattr(part, name) for part in parts]
        found[name] = None if arrays[0] is None else np.concatenate(arrays)
    return Episodes(**found)


def write_episodes(path: files.PathLike, episodes: Episodes, spaces: Spaces) -> None:
    """Write an .npz file as `read_episodes` reads it, whole or not at all. Where only a part of an observation is
    seen, only that part is written, and `observed` says which."""
    whole = episodes.images is None
    found: dict[str, Any] = {
        "observations": episodes.observations if whole else episodes.images,
        "actions": spaces.decode(episodes.actions),
        "rewards": episodes.rewards,
        "next_observations": episodes.following if whole else episodes.next_images,
        "terminated": episodes.terminated,
        "truncated": episodes.last & ~episodes.terminated,
    }
    if spaces.observed is not None:
        found["observed"] = np.repeat(np.array([spaces.observed]), len(episodes), 0)
    files.write_arrays(path, found)
