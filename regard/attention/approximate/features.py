"""Random features of the softmax: positive and orthogonal, drawn from a seed (FAVOR+).

For independent ω ~ N(0, I) and φ_r(x) = exp(ω_r·x − ‖x‖²/2)/√m the mean of φ(x)·φ(y) is exp(x·y), and its
variance is exp(x·y)²·(exp(‖x + y‖²) − 1)/m. Rows of ω that are orthogonal to each other keep the mean and lower
the variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# a feature of a key is at most exp(this): the sum of millions of them, times a value, is still finite in float32
LARGEST_EXPONENT = 40.0


def draw_features(count: int, channels: int, *seeds: int, orthogonal: bool = True) -> Tensor:
    """ω, the same for the same seeds on every machine but for rounding.   -> m c, float64"""
    random = np.random.default_rng(seeds)
    if not orthogonal:
        return torch.from_numpy(random.standard_normal((count, channels)))
    blocks = []
    for _ in range(-(-count // channels)):
        turned, corner = np.linalg.qr(random.standard_normal((channels, channels)))
        turned = turned * np.sign(np.diag(corner))  # every rotation is as likely as any other
        lengths = np.linalg.norm(random.standard_normal((channels, channels)), axis=1)
        blocks.append(turned.T * lengths[:, None])
    return torch.from_numpy(np.concatenate(blocks)[:count].copy())


@dataclass(frozen=True, eq=False)
class Features:
    """ω for vectors x that are to be multiplied by √scale first. It is folded into ω, so that they need no copy."""

    omega: Tensor  # m c, times √scale
    shift: Tensor  # m
    scale: float

    @classmethod
    def of(cls, omega: Tensor, scale: float = 1.0) -> Features:
        """shift is taken from a key's exponents and given to the queries' (it cancels).

        ω·x − ‖x‖²/2 = ‖ω‖²/2 − ‖x − ω‖²/2 is at most ‖ω‖²/2: so keys need no maximum over all of them, which would
        let a later key change the rounding of an earlier one.
        """
        shift = (omega.square().sum(-1) / 2 - LARGEST_EXPONENT).clamp(min=0)
        return cls(omega * math.sqrt(scale), shift, scale)

    def keys(self, x: Tensor) -> Tensor:
        """√m·φ(x)·exp(−shift).   ... n c -> ... n m"""
        exponents = x @ self.omega.mT
        return exponents.sub_(x.square().sum(-1, keepdim=True) * (self.scale / 2)).sub_(self.shift).exp_()

    def queries(self, x: Tensor) -> Tensor:
        """The same for queries, up to a factor for each, which cancels when weights are normalised."""
        exponents = (x @ self.omega.mT).add_(self.shift)
        return exponents.sub_(exponents.detach().amax(-1, keepdim=True)).exp_()
