"""The parts of the objective equal torch.distributions; one function gives ELBO and the importance-weighted bound."""

import pytest
import torch
from torch import distributions as D

from regard.models.elbo import (
    bound_log_variance,
    draw_codes,
    kl_to_prior,
    log_normal,
    log_weights,
    rate,
    weighted_bound,
)


@pytest.fixture
def posterior():
    draw = torch.Generator().manual_seed(0)
    mean = torch.randn(5, 3, generator=draw, dtype=torch.float64)
    return mean, torch.randn(5, 3, generator=draw, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kl_and_log_normal_equal_torch_distributions(posterior, dtype):
    mean, log_variance = (each.to(dtype) for each in posterior)
    q = D.Normal(mean, torch.exp(0.5 * log_variance))
    p = D.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    close = {"rtol": 1e-6, "atol": 1e-6}
    torch.testing.assert_close(kl_to_prior(mean, log_variance), D.kl_divergence(q, p), **close)
    z = q.mean + 0.3
    torch.testing.assert_close(log_normal(z, mean, log_variance), q.log_prob(z).sum(-1), **close)
    torch.testing.assert_close(log_normal(z), p.log_prob(z).sum(-1), **close)


def test_the_mean_of_log_weights_without_a_likelihood_is_minus_the_kl(posterior):
    mean, log_variance = posterior
    noise = torch.randn(200_000, 5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    z = draw_codes(mean, log_variance, noise)
    weights = log_weights(torch.zeros(len(z), 5), z, mean, log_variance)
    torch.testing.assert_close(weights.mean(0), -kl_to_prior(mean, log_variance).sum(-1), rtol=0.02, atol=0.02)
    half = log_weights(torch.zeros(len(z), 5), z, mean, log_variance, beta=0.5)
    torch.testing.assert_close(half, 0.5 * weights)


def test_the_bound_is_the_log_of_the_mean_and_one_sample_is_the_elbo():
    weights = torch.randn(7, 4, dtype=torch.float64)
    torch.testing.assert_close(weighted_bound(weights), weights.exp().mean(0).log())
    torch.testing.assert_close(weighted_bound(weights[:1]), weights[0])
    assert (weighted_bound(weights) >= weights.mean(0)).all()


def test_free_bits_hold_for_the_mean_of_a_dimension_and_stop_its_gradient():
    kl = torch.tensor([[0.0, 2.0], [0.2, 4.0]], requires_grad=True)
    found = rate(kl, 0.5)
    assert found.item() == pytest.approx(0.5 + 3.0) and rate(kl).item() == pytest.approx(3.1)
    found.backward()
    assert kl.grad is not None and kl.grad[:, 0].abs().max() == 0 and kl.grad[:, 1].min() > 0


def test_a_log_variance_of_any_size_has_a_finite_kl_and_a_gradient():
    raw = torch.tensor([[-1e4, -5.0, 0.0, 5.0, 1e4]], requires_grad=True)
    kl = kl_to_prior(torch.zeros(1, 5), bound_log_variance(raw))
    assert kl.isfinite().all()
    torch.testing.assert_close(bound_log_variance(torch.tensor(0.01)), torch.tensor(0.01), rtol=1e-4, atol=0)


def test_without_a_variance_every_sample_is_the_mean():
    mean, noise = torch.ones(2, 3), torch.randn(4, 2, 3)
    assert (draw_codes(mean, None, noise) == 1).all()
