"""Likelihoods equal torch.distributions, sum over the numbers of an input, and give mass or density 1 in all."""

import pytest
import torch
from torch import distributions as D

from regard.models.elbo import LEVELS, LIKELIHOODS, Bernoulli, Discretised, Gaussian, Points

SHAPE = (2, 3, 3)


def logistic(out, scale):
    base = D.Uniform(torch.zeros_like(out), torch.ones_like(out))
    return D.TransformedDistribution(
        base, [D.SigmoidTransform().inv, D.AffineTransform(out, scale)], validate_args=False
    )


def oracle(name, made, x, out):
    if name == "bernoulli":
        each = D.Bernoulli(logits=out).log_prob(x)
    elif name == "gaussian":
        each = D.Normal(out, made.sigma).log_prob(x)
    else:
        around, half = logistic(out, made.scale.expand_as(out)), 0.5 / (LEVELS - 1)
        above = torch.where(x > 1 - half, torch.ones_like(x), around.cdf(x + half))
        below = torch.where(x < half, torch.zeros_like(x), around.cdf(x - half))
        each = (above - below).log()
    return each.flatten(1).sum(1)


def inputs(name, dtype, b=4):
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(b, *SHAPE, generator=draw, dtype=dtype)
    if name == "bernoulli":
        x = (x > 0.5).to(dtype)
    if name == "discretised":
        x = (x * (LEVELS - 1)).round() / (LEVELS - 1)
        x[0], x[1] = 0.0, 1.0
    return x, torch.rand(b, *SHAPE, generator=draw, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sigma", ["shared", "each"])
@pytest.mark.parametrize("name", ["bernoulli", "gaussian", "discretised"])
def test_log_prob_equals_torch_distributions(name, sigma, dtype):
    made = LIKELIHOODS[name](SHAPE, sigma).to(dtype)
    for p in made.parameters():
        torch.nn.init.uniform_(p, -2, -1)
    x, out = inputs(name, dtype)
    close = {"rtol": 1e-6, "atol": 1e-6} if dtype == torch.float64 else {"rtol": 2e-5, "atol": 1e-4}
    torch.testing.assert_close(made.log_prob(x, out), oracle(name, made, x, out), **close)
    several = torch.stack([out, out + 0.1])
    each = torch.stack([made.log_prob(x, some) for some in several])
    torch.testing.assert_close(made.log_prob(x, several), each, **close)


def test_the_levels_of_a_discretised_logistic_sum_to_one_however_narrow_it_is():
    made = Discretised((1,)).double()
    levels = torch.arange(LEVELS, dtype=torch.float64)[:, None] / (LEVELS - 1)
    for log_scale in (-9.0, -5.0, -1.0, 3.0):
        torch.nn.init.constant_(made.log_scale, log_scale)
        for middle in (-0.3, 0.0, 0.4217, 1.0):
            total = made.log_prob(levels, torch.full_like(levels, middle)).exp().sum()
            torch.testing.assert_close(total, torch.ones_like(total))


def test_points_are_a_mixture_in_any_order_and_padding_does_not_count():
    made = Points((5, 3)).double()
    draw = torch.Generator().manual_seed(0)
    x, centres = torch.randn(2, 7, 3, generator=draw).double(), torch.randn(2, 5, 3, generator=draw).double()
    parts = D.Independent(D.Normal(centres[:, None], made.sigma), 1)
    mixture = D.MixtureSameFamily(D.Categorical(torch.ones(2, 1, 5).double()), parts)
    torch.testing.assert_close(made.log_prob(x, centres), mixture.log_prob(x).sum(1))
    torch.testing.assert_close(made.log_prob(x[:, torch.randperm(7)], centres), made.log_prob(x, centres))
    real = torch.arange(7) < torch.tensor([[7], [4]])
    noise = torch.where(real[..., None], x, 100.0)
    torch.testing.assert_close(made.log_prob(noise, centres, real)[1], made.log_prob(x[1:, :4], centres[1:])[0])
    assert made.squared_error(centres, centres).max() < 1e-12


@torch.no_grad()
def test_samples_have_the_mean_and_the_width_that_they_should():
    draw = torch.Generator().manual_seed(0)
    many = torch.full((20_000, 1), 0.4)
    gaussian, bernoulli, levels = Gaussian((1,)), Bernoulli((1,)), Discretised((1,))
    found = gaussian.sample(many, draw)
    assert abs(float(found.mean()) - 0.4) < 0.02 and abs(float(found.std() / gaussian.sigma) - 1) < 0.03
    assert abs(float(bernoulli.sample(many, draw).mean()) - float(torch.sigmoid(many[0]))) < 0.02
    bytes_ = levels.sample(many, draw) * (LEVELS - 1)
    torch.testing.assert_close(bytes_, bytes_.round(), atol=1e-3, rtol=0)
    assert bytes_.min() >= 0 and bytes_.max() <= LEVELS - 1


def test_a_column_that_never_changes_has_no_density_without_end():
    made = Gaussian((1,), "each")
    torch.nn.init.constant_(made.log_sigma, -200.0)
    assert made.log_prob(torch.zeros(1, 1), torch.zeros(1, 1)).isfinite().all()
