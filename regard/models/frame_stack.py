"""A step together with those before it: what a linear map, a network and a policy see of the past at once.

    z_t = [x_t, a_t, (x_t − x_{t−1}) / δ, a_{t−1}, (x_{t−1} − x_{t−2}) / δ, a_{t−2}, ...]

Differences are in units δ of their own: a velocity is a small difference of large numbers. Before the first step of
an episode nothing moved and nothing was done. Steps are found by their places, so their order and padding do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(eq=False)
class WorldCaches:
    """What a world model keeps of the past: that of its body, and the last steps of each row."""

    body: Any
    last: LastSteps | None = None  # None: nothing was read


@dataclass(frozen=True, eq=False)
class LastSteps:
    """The last steps of each row in the order of their places; scaled, as the model has them."""

    steps: Tensor  # b k (o + a)
    places: Tensor  # b k
    real: Tensor  # bool b k
    upcoming: Tensor  # b: the place of the next step, where none is given

    def join(self, other: LastSteps) -> LastSteps:
        """Both, one after the other."""
        return LastSteps(
            torch.cat((self.steps, other.steps), 1),
            torch.cat((self.places, other.places), 1),
            torch.cat((self.real, other.real), 1),
            other.upcoming,
        )

    def keep(self, count: int) -> LastSteps:
        """Only the last `count` real ones of each row."""
        if self.steps.shape[1] <= count:
            return self
        never = -torch.inf
        order = self.places.double().masked_fill(~self.real, never).argsort(dim=1, stable=True)[:, -count:]
        return LastSteps(
            torch.take_along_dim(self.steps, order[..., None], 1),
            torch.take_along_dim(self.places, order, 1),
            torch.take_along_dim(self.real, order, 1),
            self.upcoming,
        )


def number_steps(steps: Tensor, where: Tensor | None, real: Tensor | None, before: LastSteps | None) -> LastSteps:
    """New steps with their places; without any they count on, as a cache of attention does.   b n (o + a)"""
    b, n, _ = steps.shape
    known = torch.ones(b, n, dtype=torch.bool, device=steps.device) if real is None else real
    first = steps.new_zeros(b, dtype=torch.long) if before is None else before.upcoming
    if where is None:
        places = first[:, None] + known.long().cumsum(1) - 1
    else:
        places = where if where.dim() == 2 else where.reshape(-1, n)
        places = places.expand(b, n)
    return LastSteps(steps, places, known, first + known.sum(1))


def stack_steps(new: LastSteps, all_steps: LastSteps, frames: int, pace: Tensor) -> Tensor:
    """Each new step with the `frames` − 1 before it, as the module says. pace: δ of each number of an observation.
    b n (o + a) -> b n frames·(o + a)"""
    o = len(pace)
    found, later = [new.steps], new.steps[..., :o]
    for back in range(1, frames):
        match = (all_steps.places[:, None] == (new.places - back)[..., None]) & all_steps.real[:, None]  # b n m
        there, at = match.max(-1)
        step = torch.take_along_dim(all_steps.steps, at[..., None], 1)
        x = torch.where(there[..., None], step[..., :o], later)
        action = step[..., o:] * there[..., None]
        found += [(later - x) / pace, action]
        later = x
    return torch.cat(found, -1)
