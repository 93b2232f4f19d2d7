"""Imagination and the policy that learns in it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.models.recurrent import GRUWorld, GRUWorldConfig
from regard.models.sample_inputs import build_seeded
from regard.models.world import TransformerWorld, TransformerWorldConfig
from regard.recipes.world.config import WorldTrainConfig
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.imagination import imagine, imagine_batch, lambda_returns, learn_policy
from regard.recipes.world.replay_buffer import ReplayBuffer
from regard.recipes.world.spaces import Spaces
from regard.training.rules import AdamW


@pytest.mark.parametrize("cls", [TransformerWorld, GRUWorld])
@pytest.mark.parametrize("head, frames, past", [(None, 1, 4), (1, 1, 12), (1, 3, 4), (None, 3, 12), (None, 2, 0)])
def test_imagination_equals_the_model_on_whole_sequences(cls, head, frames, past):
    """Each imagined step, computed again from the whole sequence without a cache; one row has no past, others a
    shorter or a longer one than the window."""
    config = replace(cls.tiny()[0].config, frames=frames)
    model = build_seeded(cls, config).double()
    model.pace.mul_(0.3)
    model.low.fill_(-1e3)
    model.high.fill_(1e3)
    model.skip.normal_(std=0.003, generator=torch.Generator().manual_seed(0))
    steps = model.sample_inputs(seed=3, tokens=past + 40, rows=4)["steps"].double()
    history, first, actions = steps[:, :past], steps[:, past, :3], steps[:, past:, 3:]
    real = torch.ones(4, past, dtype=torch.bool)
    real[1], real[2, :2] = False, False
    heads = None if head is None else torch.full((4,), head)
    found = imagine(model, history, real, first, 40, lambda seen, t: actions[:, t], heads=heads)
    assert found.observations.shape == (4, 41, 3) and found.rewards.shape == (4, 40)
    fed = torch.cat((model.restore(found.observations[:, :-1]), actions), -1)
    whole = torch.cat((history, fed), 1)
    known = torch.cat((real, torch.ones(4, 40, dtype=torch.bool)), 1)
    with torch.no_grad():
        each = model.outlook(model.scale_steps(whole, known), real=known)[:, past:]
    wanted = each.mean(2) if head is None else each[:, :, head]
    torch.testing.assert_close(found.observations[:, 1:], wanted[..., :-1], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.rewards, wanted[..., -1], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.goes_on, model.goes_on(wanted[..., :-1]).sigmoid(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("cls, config", [(TransformerWorld, TransformerWorldConfig), (GRUWorld, GRUWorldConfig)])
def test_the_policy_sees_the_last_steps(cls, config):
    """The present observation, then each change before it in its own units and what was done then."""
    model = cls(config(observations=3, actions=2, dim=16, depth=1, frames=3)).eval()
    model.pace.copy_(torch.tensor([0.5, 1.0, 2.0]))
    steps = model.sample_inputs(tokens=6, rows=3)["steps"]
    real = torch.ones(3, 5, dtype=torch.bool)
    real[1], real[2, :4] = False, False
    found = imagine(model, steps[:, :5], real, steps[:, 5, :3], 2, lambda seen, t: steps[:, t, 3:])
    x, done = model.normalise(steps[..., :3]), steps[..., 3:]

    def expect_row(now, before, first, a, b):
        return torch.cat((now, (now - before) / model.pace, a, (before - first) / model.pace, b))

    none = torch.zeros(2)
    torch.testing.assert_close(found.seen[0, 0], expect_row(x[0, 5], x[0, 4], x[0, 3], done[0, 4], done[0, 3]))
    # before the first step nothing moved and nothing was done
    torch.testing.assert_close(found.seen[1, 0], expect_row(x[1, 5], x[1, 5], x[1, 5], none, none))
    torch.testing.assert_close(found.seen[2, 0], expect_row(x[2, 5], x[2, 4], x[2, 4], done[2, 4], none))
    after = found.observations[1]
    torch.testing.assert_close(found.seen[1, 2], expect_row(after[2], after[1], after[0], done[1, 1], done[1, 0]))


def test_lambda_returns_are_those_of_the_equation():
    draw = torch.Generator().manual_seed(0)
    rewards, values = torch.randn(2, 3, generator=draw), torch.randn(2, 4, generator=draw)
    goes_on = torch.rand(2, 3, generator=draw)
    found = lambda_returns(rewards, goes_on, values, 0.9, 0.8)
    last = rewards[:, 2] + 0.9 * goes_on[:, 2] * values[:, 3]
    middle = rewards[:, 1] + 0.9 * goes_on[:, 1] * (0.2 * values[:, 2] + 0.8 * last)
    torch.testing.assert_close(found[:, 2], last)
    torch.testing.assert_close(found[:, 1], middle)
    # a dead end is worth its reward alone
    assert torch.equal(lambda_returns(rewards, torch.zeros(2, 3), values, 0.9, 0.8), rewards)


def steer(discrete):
    """x moves by the action, and the reward is −x²: a policy should steer to 0. Returns a model and its store."""
    random = np.random.default_rng(0)
    spaces = Spaces(observations=1, actions=2, discrete=True)
    if not discrete:
        spaces = Spaces(observations=1, actions=1, discrete=False, low=(-1.0,), high=(1.0,))
    x = random.uniform(-2, 2, (300, 1)).astype(np.float32)
    actions = spaces.draw(random, 300)
    moved = (actions[:, :1] - actions[:, 1:2]) if discrete else actions
    after = x + 0.3 * moved
    last = np.arange(300) % 10 == 9
    episodes = Episodes(
        observations=x,
        actions=actions,
        rewards=-np.square(after[:, 0]),
        following=after,
        terminated=np.zeros(300, dtype=bool),
        last=last,
    )
    config = TransformerWorldConfig(
        observations=1, actions=spaces.actions, discrete=discrete, dim=8, depth=1, heads=2, window=2, ensemble=1
    )
    torch.manual_seed(0)
    model = TransformerWorld(config).eval()
    model.fit_linear(*(torch.from_numpy(each) for each in (episodes.steps, episodes.following, episodes.rewards)))
    model.head.weight.data.zero_()
    model.head.bias.data.zero_()
    return model, ReplayBuffer(spaces, 0.0, episodes)


@pytest.mark.parametrize("discrete", [True, False])
def test_a_policy_learns_in_imagination(discrete, monkeypatch):
    model, buffer = steer(discrete)
    truth = model.linear

    def with_true_reward(z):
        found = truth(z)
        reward = -model.restore(found[..., :-1]).square()
        return torch.cat((found[..., :-1], reward), -1)

    monkeypatch.setattr(model, "linear", with_true_reward)
    config = WorldTrainConfig(steps=1, imagined=64, horizon=8, minibatch=256, discount=0.9)
    rule = AdamW(dict(model.policy.named_parameters()), 3e-3, 0.0)

    def move(loss):
        loss.backward()
        rule.step(3e-3)
        for p in model.policy.parameters():
            p.grad = None

    torch.manual_seed(0)
    before = float(imagine_batch(model, buffer, config).rewards[:, -1].mean())
    for _ in range(15):
        learn_policy(model, imagine_batch(model, buffer, config), config, move)
    after = float(imagine_batch(model, buffer, config).rewards[:, -1].mean())
    assert after > 0.5 * before and before < -1.0  # from about −1.6 to less than half of it
