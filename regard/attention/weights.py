"""How scores become weights, where it is not softmax: exact sparse alternatives that give most keys no weight.

Both are projections of the scores onto the weights that sum to one: p = argmax pᵀz + H(p), with another entropy H
than softmax has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# The largest score is moved to 0, and then the threshold is at least −1: what is lower has no weight.
LOWEST = -2.0


class Weights:
    """Scores to weights, row by row. Softmax is None: kernels know it by themselves."""

    def normalise(self, scores: Tensor) -> Tensor:
        """Weights of rows that may hold −inf, but not only.   ... m -> ... m"""
        raise NotImplementedError

    def __call__(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        """A row with nothing allowed has zeros, and zero gradients.   allowed: bool, broadcasts to scores"""
        if allowed is None:
            return self.normalise(scores)
        # an empty row keeps its scores, because nothing is the largest of only −inf
        hidden = ~allowed & allowed.any(-1, keepdim=True)
        return self.normalise(scores.masked_fill(hidden, -torch.inf)).masked_fill(~allowed, 0)


@dataclass(frozen=True)
class Sparsemax(Weights):
    """p_j = max(z_j − τ, 0) with Σ p = 1: the nearest weights to the scores (Martins and Astudillo, 2016)."""

    def normalise(self, scores: Tensor) -> Tensor:
        found: Tensor = _Sparsemax.apply(scores)
        return found


@dataclass(frozen=True)
class Entmax(Weights):
    """p_j = max(z_j/2 − τ, 0)² with Σ p = 1: between softmax and sparsemax (1.5-entmax, Peters et al., 2019)."""

    def normalise(self, scores: Tensor) -> Tensor:
        found: Tensor = _Entmax.apply(scores)
        return found


def _below_zero(scores: Tensor) -> Tensor:
    return (scores - scores.amax(-1, keepdim=True)).clamp_(min=LOWEST)


def _counted(x: Tensor) -> Tensor:
    """1 2 … m, in its dtype."""
    return torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        z = _below_zero(scores)
        ordered = z.sort(dim=-1, descending=True).values
        sums = ordered.cumsum(-1) - 1
        count = (_counted(z) * ordered > sums).sum(-1, keepdim=True).clamp_(min=1)  # of those that have weight
        threshold = sums.gather(-1, count - 1) / count
        weights = (z - threshold).clamp_(min=0)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        chosen = (weights > 0).to(grad.dtype)
        mean = (grad * chosen).sum(-1, keepdim=True) / chosen.sum(-1, keepdim=True)
        return (grad - mean) * chosen


class _Entmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        z = (scores - scores.amax(-1, keepdim=True)).div_(2).clamp_(min=LOWEST)
        ordered = z.sort(dim=-1, descending=True).values
        count = _counted(z)
        mean = ordered.cumsum(-1) / count
        spread = ordered.square().cumsum(-1) - count * mean.square()
        thresholds = mean - ((1 - spread) / count).clamp_(min=0).sqrt_()
        chosen = (thresholds <= ordered).sum(-1, keepdim=True).clamp_(min=1)
        weights = (z - thresholds.gather(-1, chosen - 1)).clamp_(min=0).square_()
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        root = weights.sqrt()
        each = grad * root
        return each - root * (each.sum(-1, keepdim=True) / root.sum(-1, keepdim=True))
