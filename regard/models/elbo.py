"""The objective of a variational autoencoder: log w = log p(x|z) + β(log p(z) − log q(z|x)) for each sample.

The mean of log w over samples is the ELBO, logsumexp − log k is the importance-weighted bound (the log of the
mean, not the mean of the logs): one function for both, and more samples never lower it. The prior p(z) is a
standard normal; q(z|x) is a normal with a variance for each dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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


# ── log p(x|z)

Sigma = Literal["shared", "each"]
LEVELS = 256  # of a byte
SMALLEST = 0.01  # σ of a Gaussian: a column that never changes would have a density without end
SMALLEST_SCALE = 0.1 / LEVELS  # of a logistic: a tenth of a level
START = 0.3  # σ of a new Gaussian
START_SCALE = 0.1  # scale of a new logistic


def widen(x: Tensor) -> Tensor:
    """At least float32: sums over many numbers need it."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


class Likelihood(nn.Module):
    """The base of likelihoods of inputs of one shape."""

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        self.shape = tuple(shape)

    def log_prob(self, x: Tensor, out: Tensor, real: Tensor | None = None) -> Tensor:
        """log p(x), summed over the numbers of each input.   ... shape -> ..."""
        each = self.log_prob_each(x, widen(out))
        return each.flatten(-len(self.shape)).sum(-1)

    def log_prob_each(self, x: Tensor, out: Tensor) -> Tensor:
        """log p of each number.   ... shape -> ... shape"""
        raise NotImplementedError(f"{type(self).__name__} must define log_prob_each()")

    def mean(self, out: Tensor) -> Tensor:
        """The expected input.   ... shape -> ... shape"""
        return widen(out)

    def squared_error(self, x: Tensor, mean: Tensor) -> Tensor:
        """The mean squared error of each input, given what was expected of it.   b shape -> b"""
        return (mean - x).square().flatten(1).mean(1)

    def sample(self, out: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A random input.   ... shape -> ... shape"""
        raise NotImplementedError(f"{type(self).__name__} must define sample()")


class Bernoulli(Likelihood):
    """x log p + (1 − x) log(1 − p), p = sigmoid(out), for zeros and ones."""

    def log_prob(self, x: Tensor, out: Tensor, real: Tensor | None = None) -> Tensor:
        out = widen(out)
        if out.shape == x.shape:
            each = F.binary_cross_entropy_with_logits(out, x, reduction="none")
            return -each.flatten(-len(self.shape)).sum(-1)
        # many samples of each input: the products are one matrix product
        axes = -len(self.shape)
        flat, given = out.flatten(axes), x.flatten(axes)
        return torch.einsum("...d,...d->...", flat, given) - F.softplus(flat).sum(-1)

    def log_prob_each(self, x: Tensor, out: Tensor) -> Tensor:
        return x * out - F.softplus(out)

    def mean(self, out: Tensor) -> Tensor:
        return widen(out).sigmoid()

    def sample(self, out: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return torch.bernoulli(self.mean(out), generator=generator)


class Gaussian(Likelihood):
    """−½((x − out)/σ)² − log σ − ½ log 2π, with a learned σ for all numbers, or one for each."""

    def __init__(self, shape: Sequence[int], sigma: Sigma = "shared") -> None:
        super().__init__(shape)
        self.log_sigma = nn.Parameter(_filled(shape, sigma, math.log(START - SMALLEST)))

    @property
    def sigma(self) -> Tensor:
        return widen(self.log_sigma).exp() + SMALLEST

    def log_prob_each(self, x: Tensor, out: Tensor) -> Tensor:
        sigma = self.sigma
        return -0.5 * ((x - out) / sigma).square() - sigma.log() - 0.5 * math.log(2 * math.pi)

    def sample(self, out: Tensor, generator: torch.Generator | None = None) -> Tensor:
        out = widen(out)
        return out + self.sigma * torch.randn(out.shape, generator=generator, dtype=out.dtype)


class Discretised(Likelihood):
    """log of the mass that a logistic around `out` has from half a level below x to half a level above.

    The lowest level has all mass below it, too, and the highest all above, so that the 256 sum to 1. With
    a and b the two ends, σ(a) − σ(b) = σ(a)·σ(−b)·(1 − e^(b − a)), which loses no digits.
    """

    def __init__(self, shape: Sequence[int], sigma: Sigma = "shared") -> None:
        super().__init__(shape)
        self.log_scale = nn.Parameter(_filled(shape, sigma, math.log(START_SCALE - SMALLEST_SCALE)))

    @property
    def scale(self) -> Tensor:
        return widen(self.log_scale).exp() + SMALLEST_SCALE

    def log_prob_each(self, x: Tensor, out: Tensor) -> Tensor:
        half, scale = 0.5 / (LEVELS - 1), self.scale
        above = F.logsigmoid((x + half - out) / scale)
        below = F.logsigmoid((out + half - x) / scale)
        between = torch.log(-torch.expm1(-2 * half / scale))
        inside = above + below + between
        return torch.where(x < half, above, torch.where(x > 1 - half, below, inside))

    def mean(self, out: Tensor) -> Tensor:
        return widen(out).clamp(0, 1)

    def sample(self, out: Tensor, generator: torch.Generator | None = None) -> Tensor:
        out = widen(out)
        u = torch.rand(out.shape, generator=generator, dtype=out.dtype).clamp(1e-6, 1 - 1e-6)
        x = (out + self.scale * torch.logit(u)).clamp(0, 1)
        return (x * (LEVELS - 1)).round() / (LEVELS - 1)


class Points(Likelihood):
    """Points of a set, each drawn from the same mixture: Σ_i log 1/m Σ_j N(x_i; c_j, σ²), c_j = out_j.

    Neither the order of the points nor that of the centres matters, nor need there be as many of both.
    `real`, bool b n, says which points count.
    """

    def __init__(self, shape: Sequence[int], sigma: Sigma = "shared") -> None:
        super().__init__(shape)
        self.log_sigma = nn.Parameter(_filled(shape[-1:], sigma, math.log(START - SMALLEST)))

    @property
    def sigma(self) -> Tensor:
        return widen(self.log_sigma).exp() + SMALLEST

    def log_prob(self, x: Tensor, out: Tensor, real: Tensor | None = None) -> Tensor:
        out, d = widen(out), self.shape[-1]
        sigma = self.sigma.expand(d)
        far = torch.cdist(x / sigma, out / sigma, compute_mode="donot_use_mm_for_euclid_dist").square()
        log_norm = sigma.log().sum() + 0.5 * d * math.log(2 * math.pi) + math.log(out.shape[-2])
        each = torch.logsumexp(-0.5 * far, -1) - log_norm  # ... n
        if real is not None:
            each = each.masked_fill(~real, 0)
        return each.sum(-1)

    def squared_error(self, x: Tensor, mean: Tensor) -> Tensor:
        """The mean squared distance of a point to the nearest centre.   b n d, b m d -> b"""
        return torch.cdist(x, mean).amin(-1).square().mean(1)

    def sample(self, out: Tensor, generator: torch.Generator | None = None) -> Tensor:
        out = widen(out)
        noise = torch.randn(out.shape, generator=generator, dtype=out.dtype)
        return out + self.sigma * noise


def _filled(shape: Sequence[int], sigma: Sigma, value: float) -> Tensor:
    return torch.full(tuple(shape) if sigma == "each" else (), value)


LIKELIHOODS: dict[str, Callable[[Sequence[int], Sigma], Likelihood]] = {
    "bernoulli": lambda shape, sigma: Bernoulli(shape),
    "gaussian": Gaussian,
    "discretised": Discretised,
    "points": Points,
}
