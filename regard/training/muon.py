"""Muon: momentum, then each matrix of the update becomes nearly orthogonal. So all directions of a matrix are
learned at the same speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.attention.kernels.precision import CPU_MULTIPLIES
from regard.training.rules import Rule

# Coefficients of odd polynomials a·σ + b·σ³ + c·σ⁵, applied one after another to the singular values σ.
# Together they bring every σ in [0.01, 1] to 1 ± 0.3. Each is the best approximation of 1 on the interval that
# the one before leaves. A smaller error needs more polynomials and learns no faster.
# Outside its interval a polynomial diverges, and rounding may lead there. So each but the first is stretched
# by 1 %.
POLYNOMIALS = ((8.093369, -23.620430, 17.446152), (3.600580, -2.641876, 0.510505), (2.634950, -1.919007, 0.430649))
MARGIN = 1.01


def orthogonalise(x: Tensor) -> Tensor:
    """Approximates U Vᵀ for each x = U S Vᵀ. Singular values become 1 ± 0.3; those below 1 % of the largest
    only grow 75-fold.   k m n

    Polynomials in x xᵀ need matrix products only. x is first divided by ‖x xᵀ‖^½ ≥ S₁, a closer bound than
    ‖x‖.
    """
    if x.shape[-2] > x.shape[-1]:
        return orthogonalise(x.mT).mT
    # the largest element becomes 1, so that squares do not underflow
    x = x / x.abs().amax((-2, -1), keepdim=True).clamp(min=1e-30)
    gram = x @ x.mT  # k m m
    scale = MARGIN * torch.linalg.matrix_norm(gram, keepdim=True).clamp(min=1.0).sqrt()
    x, gram = x / scale, gram / scale.square()
    if x.dtype == torch.float32 and x.shape[-1] >= 2 * x.shape[-2]:
        return _of_gram(gram) @ x
    for i, (a, b, c) in enumerate(POLYNOMIALS):
        if i:
            gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def _of_gram(gram: Tensor) -> Tensor:
    """The factor of x, computed from x xᵀ alone: cheaper for a wide x, and exact enough in float32."""
    out = gram
    for i, (a, b, c) in enumerate(POLYNOMIALS):
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        factor.diagonal(dim1=-2, dim2=-1).add_(a)
        out = factor @ out if i else factor
        if i < len(POLYNOMIALS) - 1:
            gram = factor @ gram @ factor
    return out


class Muon(Rule):
    """m ← βm + (1 − β)g;  W ← (1 − lr·decay)·W − lr·√max(1, m/n)·orthogonalise(βm + (1 − β)g) for each W, m
    n.

    Matrices of the same shape are updated together. The kernel of a convolution is read as a matrix
    out × (in · places). `stacked` says of parameters that stack several matrices how many they stack: the
    projections of nn.MultiheadAttention, or the weights of experts.
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        lr: float = 0.02,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        stacked: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(parameters, lr, weight_decay, ("momentum",))
        self.momentum = momentum
        self.stacked = {id(self.parameters[name]): parts for name, parts in (stacked or {}).items()}

    def move(
        self, parameters: list[Tensor], gradients: list[Tensor], state: dict[str, list[Tensor]], lr: float
    ) -> None:
        torch._foreach_lerp_(state["momentum"], gradients, 1 - self.momentum)
        updates = torch._foreach_lerp(gradients, state["momentum"], self.momentum)
        torch._foreach_mul_(parameters, 1 - lr * self.weight_decay)
        self.add_orthogonal(self._group(parameters, updates), lr)

    def add_orthogonal(self, groups: list[Group], lr: float) -> None:
        """Orthogonalise the updates and add them to their parameters."""
        for group in groups:
            group.add(orthogonalise(group.stack()), lr)

    def _group(self, parameters: list[Tensor], updates: Sequence[Tensor]) -> list[Group]:
        """Parameters and their updates by the shape of their matrices."""
        groups: dict[tuple[Any, ...], Group] = {}
        for parameter, update in zip(parameters, updates, strict=True):
            parts = self.stacked.get(id(parameter), 1)
            m, n = matrix_shape(parameter, parts)
            group = groups.setdefault((m, n, parameter.dtype, parameter.device), Group(m, n))
            group.parameters.append(parameter)
            group.updates.append(update.reshape(parts, m, n))
        return list(groups.values())


@dataclass
class Group:
    """Parameters whose matrices have the same shape, and their updates."""

    m: int
    n: int
    parameters: list[Tensor] = field(default_factory=list)
    updates: list[Tensor] = field(default_factory=list)  # parts m n each

    @property
    def dtype(self) -> torch.dtype:
        """In which they are multiplied."""
        return working_dtype(self.parameters[0].dtype, self.parameters[0].device)

    def stack(self) -> Tensor:
        """All updates.   k m n"""
        return torch.cat(self.updates).to(self.dtype)

    def add(self, made: Tensor, lr: float) -> None:
        """Move the parameters by their orthogonalised updates.   k m n"""
        parts = made.to(self.parameters[0].dtype).split([len(update) for update in self.updates])
        pairs = zip(self.parameters, parts, strict=True)
        changes = [each.reshape(parameter.shape) for parameter, each in pairs]
        torch._foreach_add_(self.parameters, changes, alpha=-lr * max(1.0, self.m / self.n) ** 0.5)


def matrix_shape(parameter: Tensor, parts: int) -> tuple[int, int]:
    """Rows and columns of each matrix of a parameter that is `parts` of them."""
    if parts == parameter.shape[0] and parameter.dim() == 3:  # k m n
        return parameter.shape[1], parameter.shape[2]
    return parameter.shape[0] // parts, parameter.numel() // parameter.shape[0]


def working_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """bfloat16 where it is twice as fast, and never on a processor without bfloat16 units."""
    if device.type == "cpu":
        half = CPU_MULTIPLIES[torch.bfloat16]
    else:
        half = True
    if half and dtype == torch.float32:
        return torch.bfloat16
    if dtype == torch.float64:
        return dtype
    return torch.float32
