"""World models: a cache equals whole sequences, a linear system is learned, and every option does something."""

from dataclasses import replace

import pytest
import torch

from regard.errors import RegardError
from regard.models.recurrent import GRUWorld
from regard.models.world import TransformerWorld, TransformerWorldConfig

BOTH = (TransformerWorld, GRUWorld)


def linear_system(count=400, seed=0):
    """x' = A x + B u, reward c·x, and its steps."""
    draw = torch.Generator().manual_seed(seed)
    a = torch.tensor([[0.9, 0.2, 0.0], [-0.2, 0.9, 0.1], [0.0, -0.1, 0.8]])
    x = torch.randn(count, 3, generator=draw) * torch.tensor([1.0, 10.0, 0.1])
    kinds = torch.eye(2)[torch.randint(2, (count,), generator=draw)]
    following = x @ a.T + kinds @ torch.tensor([[0.5, 0.0, 1.0], [-0.5, 2.0, 0.0]])
    return torch.cat((x, kinds), 1), following, x @ torch.tensor([1.0, 0.1, -2.0]) + 3


@pytest.mark.parametrize("cls", BOTH)
def test_imagination_with_a_cache_equals_whole_sequences(cls):
    model, _ = cls.tiny()
    model.double()
    steps = model.sample_inputs(seed=1, tokens=30)["steps"].double()
    whole = model(steps)
    caches = model.caches()
    with torch.no_grad():
        parts = [model(steps[:, :7], caches=caches)]
        parts += [model(steps[:, i : i + 1], caches=caches) for i in range(7, 30)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("cls", BOTH)
def test_a_linear_system_is_learned(cls):
    model, _ = cls.tiny()
    model.fit_linear(*linear_system())
    steps, following, rewards = linear_system(50, seed=1)
    with torch.no_grad():
        found = model(steps[:, None])[:, 0]
    scale = following.std(0)
    assert ((found[:, :3] - following) / scale).abs().max() < 1e-3
    assert (found[:, 3] - rewards).abs().max() / rewards.std() < 1e-3


def test_what_the_heads_predict_stays_when_their_units_change():
    model, _ = TransformerWorld.tiny()
    model.fit_linear(*linear_system())
    steps, following, rewards = linear_system(60, seed=2)
    bent = following + torch.sin(steps[:, :3])  # which no linear map has
    before = model(steps[None])
    size = model.size.clone()
    model.fit_size(steps, bent, rewards)
    assert not torch.allclose(size, model.size)
    torch.testing.assert_close(model(steps[None]), before, rtol=1e-4, atol=1e-4)


def test_numbers_that_never_change_make_no_nan():
    steps, following, rewards = linear_system()
    steps[:, 1], following[:, 1], rewards = 7.0, 7.0, torch.ones(len(steps))
    model, _ = TransformerWorld.tiny()
    model.fit_linear(steps, following, rewards)
    found = model(steps[None])[0]
    assert found.isfinite().all()
    assert (found[:, 1] - 7).abs().max() < 1e-3 and (found[:, 3] - 1).abs().max() < 1e-3


def test_a_window_reaches_as_far_as_its_layers_and_no_further():
    config = TransformerWorldConfig(observations=3, actions=2, dim=16, depth=2, heads=2, window=3)
    model = TransformerWorld(config).eval()
    steps = model.sample_inputs(tokens=12, rows=1)["steps"]
    other = steps.clone()
    other[:, 0] += 1
    changed = (model(steps) - model(other)).abs().amax(-1)[0] > 1e-7
    assert changed.nonzero().max() == 4  # 2 layers of 2 steps back


@pytest.mark.parametrize("option, value", [("dim", 32), ("depth", 1), ("ensemble", 2), ("hidden", 4), ("frames", 2)])
def test_every_option_changes_the_parameters(option, value):
    plain = TransformerWorld.tiny()[0].config
    sizes = {
        sum(p.numel() for p in TransformerWorld(config).parameters())
        for config in (plain, replace(plain, **{option: value}))
    }
    assert len(sizes) == 2


def test_continuous_actions_have_a_deviation():
    plain = TransformerWorld.tiny()[0].config
    model = TransformerWorld(replace(plain, discrete=False))
    seen = torch.randn(5, 3)
    choices = model.policy.choose(seen)
    assert choices.deviation is not None
    assert (choices.best().abs() <= 1).all()
    there = torch.distributions.Normal(choices.mean, choices.deviation)
    drawn = choices.sample()
    torch.testing.assert_close(choices.log_prob(drawn), there.log_prob(drawn).sum(-1))
    torch.testing.assert_close(choices.entropy(), there.entropy().sum(-1))


def test_kinds_of_actions_are_as_likely_as_their_logits_say():
    model = TransformerWorld.tiny()[0]
    choices = model.policy.choose(torch.randn(5, 3))
    there = torch.distributions.Categorical(logits=choices.mean)
    drawn = choices.sample()
    assert drawn.sum(-1).eq(1).all()
    torch.testing.assert_close(choices.log_prob(drawn), there.log_prob(drawn.argmax(-1)))
    torch.testing.assert_close(choices.entropy(), there.entropy())


@pytest.mark.parametrize(
    "change, words", [({"dim": 30}, "dim.*30"), ({"window": 0}, "window"), ({"heads": 16}, "even")]
)
def test_sizes_that_do_not_fit_are_named(change, words):
    with pytest.raises(RegardError, match=words):
        replace(TransformerWorld.tiny()[0].config, **change)


def test_other_caches_are_refused():
    for cls in BOTH:
        model, inputs = cls.tiny()
        with pytest.raises(RegardError, match="caches"):
            model(**inputs, caches=[1, 2])
