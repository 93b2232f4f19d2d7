"""Imagination: a world model fed with its own predictions, one step at a time with a cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.models.world_model import WorldModel

Choose = Callable[[Tensor, int], Tensor]  # what the policy sees (b inputs) and the step -> actions b a


@dataclass(frozen=True, eq=False, kw_only=True)
class Imagined:
    """Imagined episodes. Observations are scaled, as the model has them."""

    observations: Tensor  # b t+1 o, the first one is real
    seen: Tensor  # b t+1 inputs: what the policy sees: the last steps
    actions: Tensor  # b t a, as they were chosen
    rewards: Tensor  # b t
    goes_on: Tensor  # b t: the probability that the episode goes on after this step


@torch.no_grad()
def imagine(
    model: WorldModel,
    history: Tensor,
    real: Tensor,
    first: Tensor,
    horizon: int,
    choose: Choose,
    *,
    heads: Tensor | None = None,
) -> Imagined:
    """Go on from real steps.

    history  steps before, b n (o + a) in the units of the environment; real: bool b n
    first    the present observation, b o
    heads    the head of the ensemble that each row believes, b; None: the mean of all
    """
    caches, o = model.caches(), model.config.observations
    past = model.look_back(model.scale_steps(history, real), real=real, caches=caches)
    residuals = model.go_on(past, real)
    x = model.normalise(first)
    observations, seen = [x], [model.policy_inputs(x, caches)]
    before = seen[0][:, o:]  # changes and actions of the last steps
    actions, rewards, goes_on = [], [], []
    row = torch.arange(len(x), device=x.device)
    for t in range(horizon):
        action = choose(seen[-1], t)
        taken = action if model.config.discrete else action.clamp(-1, 1)
        z = torch.cat((x, taken, before), -1)
        added = residuals(z)  # b e o+1
        added = added.mean(1) if heads is None else added[row, heads]
        after = torch.addcmul(model.linear(z), model.size, added)
        last, x = x, torch.clamp(after[:, :-1], model.low, model.high)
        if before.shape[1]:
            moved = (x - last) / model.pace
            before = torch.cat((moved, taken, before), -1)[:, : before.shape[1]]
        observations.append(x)
        seen.append(torch.cat((x, before), -1) if before.shape[1] else x)
        actions.append(action)
        rewards.append(after[:, -1])
        goes_on.append(model.goes_on(x).sigmoid())
    return Imagined(
        observations=torch.stack(observations, 1),
        seen=torch.stack(seen, 1),
        actions=torch.stack(actions, 1),
        rewards=torch.stack(rewards, 1),
        goes_on=torch.stack(goes_on, 1),
    )
