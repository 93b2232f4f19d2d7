"""Muon by several processes, of which each orthogonalises a share of the matrices: of all, each would take as long as
one process.

They send each other numbers in the type in which these are multiplied (bfloat16 where there are units for it).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.training.muon import Group, Muon, matrix_shape, orthogonalise, working_dtype
from regard.training.rules import local


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
