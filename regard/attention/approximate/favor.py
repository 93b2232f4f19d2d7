"""Σ_j φ(q_i)·φ(k_j) v_j, divided by Σ_j φ(q_i)·φ(k_j): over all j, or over j ≤ i by a blocked prefix sum.

Features are made a block at a time and never kept: memory is linear in the length, and the gradient makes them once
more. A column of ones beside the values gives the divisor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

# a feature of a key is at most exp(this): the sum of millions of them, times a value, is still finite in float32
LARGEST_EXPONENT = 40.0
AHEAD = 128  # tokens of a block when tokens see the past only: within it all pairs are computed
LEAST = 1e6  # times the smallest number: a divisor that is less has lost its digits
BOTH = 512  # and when they see all: a block only keeps features few


# ── random features of the softmax: positive and orthogonal, drawn from a seed (FAVOR+)
#
# For independent ω ~ N(0, I) and φ_r(x) = exp(ω_r·x − ‖x‖²/2)/√m the mean of φ(x)·φ(y) is exp(x·y), and its
# variance is exp(x·y)²·(exp(‖x + y‖²) − 1)/m. Rows of ω that are orthogonal to each other keep the mean and lower
# the variance.


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


class Favor(torch.autograd.Function):
    """q, k: b h n c   v: b h n e   seen: bool b n, False for padding   ->   b h n e"""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, features: Features, seen: Tensor | None, causal: bool
    ) -> Tensor:
        blocks = Blocks(q, k, v, features, seen)
        if causal:
            sums, _ = _read(blocks, blocks.nothing())
        else:
            sums = _read_all(blocks)
        out, divisor = _divide(sums)
        ctx.save_for_backward(q, k, v, seen, out, divisor)
        ctx.features, ctx.causal = features, causal
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, seen, out, divisor = ctx.saved_tensors
        # of the sums, with features of queries that are divided already: those times a key's are at most 1
        grad = torch.cat((grad, -(grad * out).sum(-1, keepdim=True)), -1)
        blocks = Blocks(q, k, v, ctx.features, seen, divisor)
        if ctx.causal:
            dq = _grad_of_queries(blocks, grad)
            dk, dv = _grad_of_the_past(blocks, grad)
        else:
            dq, dk, dv = _grad_of_all(blocks, grad)
        return dq, dk, dv, None, None, None


def read_on(
    q: Tensor, k: Tensor, v: Tensor, features: Features, seen: Tensor | None, state: Tensor
) -> tuple[Tensor, Tensor]:
    """The same for tokens after a past of which the sum is known, and the sum with them; no gradient."""
    sums, state = _read(Blocks(q, k, v, features, seen), state)
    return _divide(sums)[0], state


def _divide(sums: Tensor) -> tuple[Tensor, Tensor]:
    """A token that sees nothing gets zeros, and gives no gradient.   b h n e+1 -> b h n e, b h n 1"""
    divisor = sums[..., -1:]
    divisor = divisor.masked_fill(divisor < LEAST * torch.finfo(sums.dtype).tiny, torch.inf)
    return sums[..., :-1] / divisor, divisor


class Blocks:
    """Features and values of one block of tokens after another."""

    def __init__(
        self, q: Tensor, k: Tensor, v: Tensor, features: Features, seen: Tensor | None, divisor: Tensor | None = None
    ) -> None:
        self.q, self.k, self.v, self.features, self.seen, self.divisor = q, k, v, features, seen, divisor

    def parts(self, size: int, *, backwards: bool = False) -> Iterator[slice]:
        n = self.q.shape[2]
        starts = range(0, n, size)
        for start in reversed(starts) if backwards else starts:
            yield slice(start, min(start + size, n))

    def queries(self, part: slice) -> Tensor:
        found = self.features.queries(self.q[:, :, part])
        if self.divisor is None:
            return found
        return found.div_(self.divisor[:, :, part])

    def keys(self, part: slice) -> Tensor:
        found = self.features.keys(self.k[:, :, part])
        if self.seen is None:
            return found
        return found.mul_(self.seen[:, None, part, None])

    def values(self, part: slice) -> Tensor:
        return F.pad(self.v[:, :, part], (0, 1), value=1.0)

    def nothing(self) -> Tensor:
        """The sum over no tokens.   b h m e+1"""
        return self.v.new_zeros(*self.q.shape[:2], len(self.features.shift), self.v.shape[-1] + 1)

    def grad_of_queries(self, grad: Tensor, found: Tensor) -> Tensor:
        """From that of their features, through the exponential. The largest exponent cancels."""
        return grad.mul_(found) @ self.features.omega

    def grad_of_keys(self, part: slice, grad: Tensor, found: Tensor) -> Tensor:
        inner = grad.mul_(found)
        length = inner.sum(-1, keepdim=True).mul_(self.features.scale)
        return (inner @ self.features.omega).addcmul_(self.k[:, :, part], length, value=-1)


def _read_all(blocks: Blocks) -> Tensor:
    state, v = blocks.nothing(), blocks.v
    for part in blocks.parts(BOTH):
        state = state + blocks.keys(part).mT @ blocks.values(part)
    sums = v.new_empty(*v.shape[:3], v.shape[3] + 1)
    for part in blocks.parts(BOTH):
        sums[:, :, part] = blocks.queries(part) @ state
    return sums


def _read(blocks: Blocks, state: Tensor) -> tuple[Tensor, Tensor]:
    """Each block: what it sees of the blocks before, and of itself."""
    v = blocks.v
    sums = v.new_empty(*v.shape[:3], v.shape[3] + 1)
    for part in blocks.parts(AHEAD):
        queries, keys, values = blocks.queries(part), blocks.keys(part), blocks.values(part)
        sums[:, :, part] = (queries @ keys.mT).tril_() @ values + queries @ state
        state = state + keys.mT @ values
    return sums, state


def _grad_of_queries(blocks: Blocks, grad: Tensor) -> Tensor:
    """Once more from the beginning, with the sum over the past."""
    dq, state = torch.empty_like(blocks.q), blocks.nothing()
    for part in blocks.parts(AHEAD):
        keys, values, above = blocks.keys(part), blocks.values(part), grad[:, :, part]
        dfeatures = (above @ values.mT).tril_() @ keys + above @ state.mT
        dq[:, :, part] = blocks.grad_of_queries(dfeatures, blocks.queries(part))
        state = state + keys.mT @ values
    return dq


def _grad_of_the_past(blocks: Blocks, grad: Tensor) -> tuple[Tensor, Tensor]:
    """From the end, with the sum over those who look back."""
    dk, dv, later = torch.empty_like(blocks.k), torch.empty_like(blocks.v), blocks.nothing()
    for part in blocks.parts(AHEAD, backwards=True):
        queries, keys, above = blocks.queries(part), blocks.keys(part), grad[:, :, part]
        values = blocks.values(part)
        dv[:, :, part] = ((keys @ queries.mT).triu_() @ above + keys @ later)[..., :-1]
        dfeatures = (values @ above.mT).triu_() @ queries + values @ later.mT
        dk[:, :, part] = blocks.grad_of_keys(part, dfeatures, keys)
        later = later + queries.mT @ above
    return dk, dv


def _grad_of_all(blocks: Blocks, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    dq, dk, dv = torch.empty_like(blocks.q), torch.empty_like(blocks.k), torch.empty_like(blocks.v)
    state, later = blocks.nothing(), blocks.nothing()
    for part in blocks.parts(BOTH):
        state = state + blocks.keys(part).mT @ blocks.values(part)
    for part in blocks.parts(BOTH):
        queries, above = blocks.queries(part), grad[:, :, part]
        later = later + queries.mT @ above
        dq[:, :, part] = blocks.grad_of_queries(above @ state.mT, queries)
    for part in blocks.parts(BOTH):
        keys = blocks.keys(part)
        dv[:, :, part] = (keys @ later)[..., :-1]
        dk[:, :, part] = blocks.grad_of_keys(part, blocks.values(part) @ later.mT, keys)
    return dq, dk, dv
