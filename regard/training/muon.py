"""Muon: momentum, then each matrix of the update becomes nearly orthogonal. So all directions of a matrix are
learned at the same speed. Several processes each orthogonalise a share of the matrices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.attention.kernels.precision import CPU_MULTIPLIES
from regard.training.rules import Rule, local

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
    half = device.type != "cpu" or CPU_MULTIPLIES[torch.bfloat16]
    if half and dtype == torch.float32:
        return torch.bfloat16
    if dtype == torch.float64:
        return dtype
    return torch.float32


# ── several processes, which send each other numbers in the type in which these are multiplied


class SharedMuon(Muon):
    """The same rule as Muon, where every process has all matrices and the same gradients. For P numbers in all
    matrices, a rank sends P/w numbers to each other rank."""

    def add_orthogonal(self, groups: list[Group], lr: float) -> None:
        rank, world = dist.get_rank(), dist.get_world_size()
        for group in groups:
            stack = group.stack()  # k m n
            most = -(-len(stack) // world)
            mine, own = stack.new_zeros(most, *stack.shape[1:]), stack[rank * most :][:most]
            if len(own):
                mine[: len(own)] = orthogonalise(own)
            everyone = stack.new_empty(world, *mine.shape)
            dist.all_gather(list(everyone), mine)
            group.add(everyone.flatten(0, 1)[: len(stack)], lr)


class ShardedMuon(Muon):
    """The same rule as Muon, for parameters that are DTensors sharded by rows: gather, orthogonalise, scatter.

    Half a matrix cannot be orthogonalised, so each whole update goes to one process, which sends the rows back.
    Matrices are dealt out in turn. A rank sends and receives about 2·P·(w − 1)/w² numbers each way."""

    @torch.no_grad()
    def step(self, lr: float) -> None:
        names = [name for name, p in self.parameters.items() if p.grad is not None]
        if not names:
            return
        whole: list[Any] = [self.parameters[name] for name in names]
        parameters = [p.to_local() for p in whole]
        gradients = [p.grad.to_local() for p in whole]
        momentum = [local(self.state["momentum"][name]) for name in names]
        torch._foreach_lerp_(momentum, gradients, 1 - self.momentum)
        updates = torch._foreach_lerp(gradients, momentum, self.momentum)
        torch._foreach_mul_(parameters, 1 - lr * self.weight_decay)
        for i, change in enumerate(self._orthogonalise_all(whole, list(updates))):
            parts = self._parts(whole[i])
            m, n = matrix_shape(whole[i], parts)
            parameters[i].add_(change.to(parameters[i].dtype), alpha=-lr * max(1.0, m / n) ** 0.5)

    def _parts(self, p: Tensor) -> int:
        """How many matrices a parameter stacks."""
        return self.stacked.get(id(p), 1)

    def _orthogonalise_all(self, whole: list[Any], updates: list[Tensor]) -> list[Tensor]:
        """The rows that this rank has of each orthogonalised update."""
        rank, world = dist.get_rank(), dist.get_world_size()
        gathered: dict[int, Tensor] = {}
        for i, (p, update) in enumerate(zip(whole, updates, strict=True)):
            found = _gather_rows(update, p.shape[0], owner=i % world)
            if found is not None:
                gathered[i] = found
        made = self._orthogonalise_own(whole, gathered)
        changes = []
        for i, (p, update) in enumerate(zip(whole, updates, strict=True)):
            changes.append(_scatter_rows(made.get(i), update, p.shape[0], owner=i % world))
        assert len(gathered) == len(range(rank, len(whole), world))
        return changes

    def _orthogonalise_own(self, whole: list[Any], gathered: dict[int, Tensor]) -> dict[int, Tensor]:
        """Those that came to this rank, matrices of one shape together."""
        shapes: dict[tuple[int, int], list[tuple[int, Tensor]]] = defaultdict(list)
        for i, update in gathered.items():
            parts = self._parts(whole[i])
            m, n = matrix_shape(whole[i], parts)
            shapes[m, n].append((i, update.reshape(parts, m, n)))
        made: dict[int, Tensor] = {}
        for pairs in shapes.values():
            stack = orthogonalise(torch.cat([each for _, each in pairs]))
            for (i, _), result in zip(pairs, stack.split([len(x) for _, x in pairs]), strict=True):
                made[i] = result.reshape(gathered[i].shape)
        return made


def _padded(rows: Tensor, total: int) -> Tensor:
    """As many rows as the rank with the most has, in the type in which they are multiplied.   m n"""
    most = -(-total // dist.get_world_size())
    flat = rows.reshape(len(rows), -1) if rows.numel() else rows.new_zeros(0, rows[:1].numel())
    width = rows.shape[1:].numel()
    out = torch.zeros(most, width, dtype=working_dtype(rows.dtype, rows.device), device=rows.device)
    if len(flat):
        out[: len(flat)] = flat
    return out


def _gather_rows(rows: Tensor, total: int, owner: int) -> Tensor | None:
    """All rows of a matrix, on its owner."""
    mine = _padded(rows, total)
    if dist.get_rank() != owner:
        dist.gather(mine, None, dst=owner)
        return None
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.gather(mine, parts, dst=owner)
    return torch.cat(parts)[:total]


def _scatter_rows(made: Tensor | None, rows: Tensor, total: int, owner: int) -> Tensor:
    """This rank's rows of a matrix that its owner has made; in the shape of `rows`."""
    mine = _padded(rows, total)
    if made is None:
        dist.scatter(mine, None, src=owner)
    else:
        most = len(mine)
        filled = torch.zeros(most * dist.get_world_size(), mine.shape[1], dtype=mine.dtype, device=mine.device)
        filled[:total] = made.to(mine.dtype)
        dist.scatter(mine, list(filled.split(most)), src=owner)
    return mine[: len(rows)].reshape(rows.shape)
