"""The policy learns in imagination: λ-returns weighted by *continue*, and proximal policy optimisation (PPO)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.world_model import WorldModel
from regard.recipes.world.imagine import Imagined, imagine
from regard.recipes.world.settings import WorldTrainConfig
from regard.recipes.world.store import EpisodeStore

# share of imagined episodes that begin a few steps before a real end: a policy that hardly ever falls would forget how
# not to
NEAR_ENDS = 0.25
HISTORY = 16  # real steps that an imagined episode of a model without a window goes on from


def dream_batch(model: WorldModel, store: EpisodeStore, config: WorldTrainConfig) -> Imagined:
    """Imagined episodes from real observations, each with one head of the ensemble. Draws from torch's generator,
    which is seeded by (seed, step)."""
    drawn = torch.randint(len(store.train_rows), (config.imagined,))
    at = store.train_rows[drawn.numpy()]
    near = store.rows_near_ends(config.horizon)
    if len(near):
        some = int(NEAR_ENDS * config.imagined)
        at[:some] = near[torch.randint(len(near), (some,)).numpy()]
    history, real = store.all.history(at, history_length(model))
    first = torch.from_numpy(store.all.observations[at].astype(np.float32))
    heads = torch.randint(model.config.ensemble, (config.imagined,))
    device = model.mean.device

    def choose(seen: Tensor, _: int) -> Tensor:
        return model.policy.choose(seen).sample()

    return imagine(
        model, history.to(device), real.to(device), first.to(device), config.horizon, choose, heads=heads.to(device)
    )


def history_length(model: WorldModel) -> int:
    """Real steps to go on from: what a layer sees besides the present step, and what the policy needs."""
    window = getattr(model.config, "window", HISTORY + 1)
    return max(window - 1, model.config.frames - 1)


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
