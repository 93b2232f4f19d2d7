"""Muon where every process has all matrices and the same gradients: each orthogonalises a share.

Without this, each process would orthogonalise all of them: work that does not become less with more
processes. For P numbers in all matrices, a rank sends P/w numbers to each other rank, in the type in which
they are multiplied (bfloat16 where there are units for it), and orthogonalises about P/w of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
import torch.distributed as dist
from torch import Tensor

from regard.training.muon import Group, Muon, orthogonalise


class SharedMuon(Muon):
    """The same rule as Muon, for parameters of which every process has a copy."""

    def add_orthogonal(self, groups: list[Group], lr: float) -> None:
        stacks = [group.stack() for group in groups]
        shares = deal([tuple(stack.shape) for stack in stacks], dist.get_world_size())
        for dtype in sorted({stack.dtype for stack in stacks}, key=str):
            some = [i for i, stack in enumerate(stacks) if stack.dtype == dtype]
            _orthogonalise_together([stacks[i] for i in some], [shares[i] for i in some])
        for group, stack in zip(groups, stacks, strict=True):
            group.add(stack, lr)


def deal(shapes: Sequence[tuple[int, ...]], world: int) -> list[list[slice]]:
    """Which of the matrices k m n of each stack a rank orthogonalises: shares[stack][rank].

    The costliest come first, and each goes to the rank with the least work so far.
    """
    work = [0] * world
    shares: list[list[slice]] = [[] for _ in shapes]
    costs = [(m * n * min(m, n), i) for i, (_, m, n) in enumerate(shapes)]
    for cost, i in sorted(costs, reverse=True):
        counts = [0] * world
        for _ in range(shapes[i][0]):
            rank = work.index(min(work))
            counts[rank] += 1
            work[rank] += cost
        ends = list(accumulate(counts))
        shares[i] = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    return shares


def _orthogonalise_together(stacks: list[Tensor], shares: list[list[slice]]) -> None:
    """Orthogonalise the matrices of all stacks, in place; each rank its share.   k m n each"""
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [
        [stack[share[each]] for stack, share in zip(stacks, shares, strict=True)] for each in range(world)
    ]  # parts[rank][stack], of the same memory
    most = max(sum(part.numel() for part in each) for each in parts)
    mine = stacks[0].new_empty(most)
    for part, place in zip(parts[rank], _split_like(mine, parts[rank]), strict=True):
        if len(part):
            place.copy_(orthogonalise(part))
    everyone = stacks[0].new_empty(world, most)
    dist.all_gather(list(everyone), mine)
    for theirs, flat in zip(parts, everyone, strict=True):
        torch._foreach_copy_(theirs, _split_like(flat, theirs))


def _split_like(flat: Tensor, parts: Sequence[Tensor]) -> list[Tensor]:
    """The beginning of a flat tensor, cut into pieces of the shapes of others."""
    sizes = [part.numel() for part in parts]
    pieces = flat[: sum(sizes)].split(sizes)
    return [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]
