"""What the model imagines from each step of an episode on: with the mean of its heads, and with each head alone,
whose spread is its uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.array import Array
from regard.models.world_model import WorldModel
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.imagination import Choose, Imagined, follow, history_length, imagine

TOGETHER = 1024  # futures that are imagined at once

Start = Callable[[Array], Choose]  # the steps that some futures begin with -> who acts in them


@dataclass(frozen=True, eq=False, kw_only=True)
class Futures:
    """Futures from some steps on. Observations are scaled, as the model has them."""

    mean: Tensor  # s t+1 o, of all heads together
    low: Tensor  # s t+1 o: the lowest of the heads, each imagining on its own
    high: Tensor  # s t+1 o
    actions: Tensor  # s t a
    rewards: Tensor  # s t
    goes_on: Tensor  # s t: the probability that the episode goes on after this step
    values: Tensor  # s t+1: what the critic expects from there on

    def replace(self, rows: Array, others: Futures) -> Futures:
        """The same with others in some rows."""
        found = {name: getattr(self, name).clone() for name in FIELDS}
        for name, each in found.items():
            each[torch.from_numpy(rows)] = getattr(others, name)
        return Futures(**found)


def imagine_from(model: WorldModel, episode: Episodes, starts: Array, horizon: int, start: Start) -> Futures:
    """What comes after the real steps up to each of these, if `start` says who acts."""
    parts = np.array_split(starts, max(1, -(-len(starts) * model.config.ensemble // TOGETHER)))
    found = [_imagine_some(model, episode, part, horizon, start) for part in parts]
    return Futures(**{name: torch.cat([getattr(each, name) for each in found]) for name in FIELDS})


FIELDS = ("mean", "low", "high", "actions", "rewards", "goes_on", "values")


@torch.no_grad()
def _imagine_some(model: WorldModel, episode: Episodes, starts: Array, horizon: int, start: Start) -> Futures:
    together = _imagine(model, episode, starts, horizon, start, None)
    heads = model.config.ensemble
    each = torch.arange(heads, device=model.mean.device).repeat(len(starts))
    apart = _imagine(model, episode, np.repeat(starts, heads), horizon, start, each)
    spread = apart.observations.unflatten(0, (len(starts), heads))  # s e t+1 o
    return Futures(
        mean=together.observations,
        low=spread.amin(1),
        high=spread.amax(1),
        actions=together.actions,
        rewards=together.rewards,
        goes_on=together.goes_on,
        values=model.policy.value(together.seen),
    )


def _imagine(
    model: WorldModel, episode: Episodes, at: Array, horizon: int, start: Start, heads: Tensor | None
) -> Imagined:
    history, real = episode.history(at, history_length(model))
    first = torch.from_numpy(episode.observations[at]).to(model.mean)
    return imagine(model, history.to(first), real.to(first.device), first, horizon, start(at), heads=heads)


def as_taken(model: WorldModel, episode: Episodes, horizon: int, changes: Mapping[int, Array] | None = None) -> Start:
    """The actions of the episode, some of them changed; behind its end, the last one again and again."""
    actions = episode.actions.copy()
    for step, action in (changes or {}).items():
        actions[step] = action

    def begin(at: Array) -> Choose:
        rows = np.minimum(at[:, None] + np.arange(horizon), len(episode) - 1)
        return follow(torch.from_numpy(actions[rows]).to(model.mean))

    return begin


def as_policy(model: WorldModel) -> Start:
    """The likeliest action of the policy, which sees what is imagined."""
    return lambda _: lambda seen, t: model.policy.choose(seen).best()
