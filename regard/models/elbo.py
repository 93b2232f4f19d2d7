"""The objective of a variational autoencoder: log w = log p(x|z) + β(log p(z) − log q(z|x)) for each sample.

The mean of log w over samples is the ELBO, logsumexp − log k is the importance-weighted bound (the log of the
mean, not the mean of the logs): one function for both, and more samples never lower it. The prior p(z) is a
standard normal; q(z|x) is a normal with a variance for each dimension.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

ACTIVE = 0.01  # variance of the mean of a code over inputs, above which the dimension says something of them
WIDEST = 12.0  # |log σ²| stays below it: without a bound, e^(log σ²) overflows


def bound_log_variance(raw: Tensor) -> Tensor:
    """Near 0 as it is, and never beyond ±12; the gradient never stops."""
    return WIDEST * torch.tanh(raw / WIDEST)


def kl_to_prior(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(q ‖ p) of each dimension: ½(μ² + σ² − log σ² − 1).   b d -> b d"""
    return 0.5 * (mean.square() + torch.expm1(log_variance) - log_variance)


def log_normal(z: Tensor, mean: Tensor | float = 0.0, log_variance: Tensor | float = 0.0) -> Tensor:
    """log N(z; mean, e^log_variance), summed over the last axis.   ... d -> ..."""
    variance = torch.as_tensor(log_variance, dtype=z.dtype, device=z.device)
    each = (z - mean).square() * torch.exp(-variance) + variance + math.log(2 * math.pi)
    return -0.5 * each.sum(-1)


def draw_codes(mean: Tensor, log_variance: Tensor | None, noise: Tensor) -> Tensor:
    """z = μ + σ ε, for each ε of `noise`; without a variance μ itself.   b d, k b d -> k b d"""
    if log_variance is None:
        return mean.expand_as(noise)
    return mean + torch.exp(0.5 * log_variance) * noise


def log_weights(log_likelihood: Tensor, z: Tensor, mean: Tensor, log_variance: Tensor, beta: float = 1.0) -> Tensor:
    """log p(x|z) + β(log p(z) − log q(z|x)).   k b, k b d -> k b"""
    return log_likelihood + beta * (log_normal(z) - log_normal(z, mean, log_variance))


def weighted_bound(weights: Tensor) -> Tensor:
    """log of the mean of w: the ELBO for one sample, and closer to log p(x) with each more.   k b -> b"""
    return torch.logsumexp(weights, 0) - math.log(len(weights))


def rate(kl: Tensor, free_bits: float = 0.0) -> Tensor:
    """The KL that counts, of the mean input: each dimension has `free_bits` nats for nothing.   b d -> scalar"""
    each = kl.mean(0)
    if free_bits:
        each = each.clamp(min=free_bits)
    return each.sum()
