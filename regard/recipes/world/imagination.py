"""Imagination: a world model fed with its own predictions, one step at a time with a cache, and the policy that learns in
it, by λ-returns weighted by *continue* and proximal policy optimisation (PPO)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.world_model import WorldModel
from regard.recipes.world.config import WorldTrainConfig
from regard.recipes.world.replay_buffer import ReplayBuffer

# share of imagined episodes that begin a few steps before a real end: a policy that hardly ever falls would forget how
# not to
NEAR_ENDS = 0.25
HISTORY = 16  # real steps that an imagined episode of a model without a window goes on from

Choose = Callable[[Tensor, int], Tensor]  # what the policy sees (b inputs) and the step -> actions b a


@dataclass(frozen=True, eq=False, kw_only=True)
class Imagined:
    """Imagined episodes. Observations are scaled, as the model has them."""

    observations: Tensor  # b t+1 o, the first one is real
    seen: Tensor  # b t+1 inputs: what the policy sees: the last steps
    actions: Tensor  # b t a, as they were chosen
    rewards: Tensor  # b t
    goes_on: Tensor  # b t: the probability that the episode goes on after this step


def history_length(model: WorldModel) -> int:
    """Real steps to go on from: what a layer sees besides the present step, and what the policy needs."""
    window = getattr(model.config, "window", HISTORY + 1)
    return max(window - 1, model.config.frames - 1)


def follow(actions: Tensor) -> Choose:
    """Who does what was done.   b t a"""
    return lambda seen, t: actions[:, t]


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


# ── the policy


def imagine_batch(model: WorldModel, buffer: ReplayBuffer, config: WorldTrainConfig) -> Imagined:
    """Imagined episodes from real observations, each with one head of the ensemble. Draws from torch's generator,
    which is seeded by (seed, step)."""
    drawn = torch.randint(len(buffer.train_rows), (config.imagined,))
    at = buffer.train_rows[drawn.numpy()]
    near = buffer.rows_near_ends(config.horizon)
    if len(near):
        some = int(NEAR_ENDS * config.imagined)
        at[:some] = near[torch.randint(len(near), (some,)).numpy()]
    history, real = buffer.all.history(at, history_length(model))
    first = torch.from_numpy(buffer.all.observations[at].astype(np.float32))
    heads = torch.randint(model.config.ensemble, (config.imagined,))
    history, real, first, heads = (each.to(model.mean.device) for each in (history, real, first, heads))

    def choose(seen: Tensor, _: int) -> Tensor:
        return model.policy.choose(seen).sample()

    return imagine(model, history, real, first, config.horizon, choose, heads=heads)


def lambda_returns(rewards: Tensor, goes_on: Tensor, values: Tensor, discount: float, trace: float) -> Tensor:
    """R_t = r_t + γ c_t ((1 − λ) V_{t+1} + λ R_{t+1}), R_T = V_T.   b t, b t, b t+1 -> b t"""
    found: list[Tensor] = []
    later = values[:, -1]
    for t in range(rewards.shape[1] - 1, -1, -1):
        mixed = (1 - trace) * values[:, t + 1] + trace * later
        later = rewards[:, t] + discount * goes_on[:, t] * mixed
        found.append(later)
    return torch.stack(found[::-1], 1)


def learn_policy(
    model: WorldModel, imagined: Imagined, config: WorldTrainConfig, move: Callable[[Tensor], None]
) -> None:
    """Some epochs of PPO on imagined episodes. move: does one gradient step for a loss"""
    policy = model.policy
    seen, actions = imagined.seen, imagined.actions
    with torch.no_grad():
        values = policy.value(seen)
        returns = lambda_returns(imagined.rewards, imagined.goes_on, values, config.discount, config.trace)
        # a step counts as much as it is likely to be reached
        reached = torch.cat((torch.ones_like(returns[:, :1]), imagined.goes_on[:, :-1].cumprod(1)), 1)
        flat_seen, flat_actions = seen[:, :-1].flatten(0, 1), actions.flatten(0, 1)
        before = policy.choose(flat_seen).log_prob(flat_actions)
        gained, weight = (returns - values[:, :-1]).flatten(), reached.flatten()
        mean = (gained * weight).sum() / weight.sum()
        spread = ((gained - mean).square() * weight).sum() / weight.sum()
        gained = (gained - mean) / (spread.sqrt() + 1e-8)
        target = returns.flatten()
    for _ in range(config.epochs):
        for part in torch.randperm(len(before), device=before.device).split(config.minibatch):
            choices = policy.choose(flat_seen[part])
            share = weight[part] / weight[part].sum().clamp(min=1e-8)
            change = (choices.log_prob(flat_actions[part]) - before[part]).exp()
            bounded = change.clamp(1 - config.ratio, 1 + config.ratio)
            better = torch.minimum(change * gained[part], bounded * gained[part])
            missed = F.smooth_l1_loss(
                policy.value(flat_seen[part]) / policy.scale, target[part] / policy.scale, reduction="none"
            )
            move(-(share * (better + config.entropy * choices.entropy())).sum() + (share * missed).sum())
