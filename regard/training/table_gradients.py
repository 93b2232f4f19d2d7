"""Gradients of tables of vectors, summed over processes by the rows that changed.

A step looks up few rows of a large table (of embeddings, of runs of letters), and the gradients of all others
are 0. So the processes send each other the rows that their tokens looked up, instead of the whole table."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.training.optimisers import MATRICES, split
from regard.training.ranks import Ranks

LARGE = 2**18  # numbers in a table that is worth it
FEW = 0.5  # the rows of all processes together may be this share of the table


def find_tables(model: nn.Module) -> dict[str, Tensor]:
    """Large tables of vectors by name. What a head shares with an embedding has a gradient in all rows, so it
    is not among them."""
    shared = {
        id(p)
        for each in model.modules()
        if isinstance(each, MATRICES)
        for p in each.parameters(recurse=False)
    }
    rest = split(model).rest.items()
    return {name: p for name, p in rest if p.dim() == 2 and p.numel() >= LARGE and id(p) not in shared}


class TableGradients:
    """The tables of a model of which every process has a copy."""

    def __init__(self, model: nn.Module, ranks: Ranks) -> None:
        self.tables, self.ranks = find_tables(model), ranks

    @torch.no_grad()
    def average(self) -> None:
        """Replace the gradients by their mean over all processes, the same on all to the last bit."""
        tables = list(self.tables.values())
        if not tables:
            return
        rows = [_changed_rows(table) for table in tables]
        used = self._gather_numbers([int(table.grad is not None) for table in tables])  # ranks tables
        counts = self._gather_numbers([len(each) for each in rows])
        few: list[int] = []
        for i, table in enumerate(tables):
            if not used[:, i].any():
                continue
            if table.grad is None:
                table.grad = torch.zeros_like(table)
            if int(counts[:, i].sum()) <= FEW * len(table):
                few.append(i)
            else:
                self.ranks.sum(table.grad).div_(self.ranks.world)
        self._exchange([tables[i] for i in few], [rows[i] for i in few], counts[:, few])

    def _gather_numbers(self, mine: list[int]) -> Tensor:
        return self._gather(torch.tensor(mine), len(mine))

    def _exchange(self, tables: Sequence[Tensor], rows: Sequence[Tensor], counts: Tensor) -> None:
        """Each rank's rows of all tables go to all others; everyone adds them in the order of ranks."""
        sizes = torch.tensor([table.shape[1] for table in tables])
        most_rows, most_numbers = int(counts.sum(1).max()), int((counts * sizes).sum(1).max())
        if not most_rows:
            return
        places = self._gather(torch.cat(list(rows)), most_rows)
        gradients = [table.grad for table in tables if table.grad is not None]
        values = [
            gradient[own].flatten() / self.ranks.world for gradient, own in zip(gradients, rows, strict=True)
        ]
        numbers = self._gather(torch.cat(values), most_numbers)
        for gradient, own in zip(gradients, rows, strict=True):
            gradient[own] = 0
        for rank in range(self.ranks.world):
            lengths = counts[rank]
            theirs = places[rank].split([*lengths.tolist(), most_rows - int(lengths.sum())])
            many = lengths * sizes
            parts = numbers[rank].split([*many.tolist(), most_numbers - int(many.sum())])
            for gradient, where, part in zip(gradients, theirs, parts, strict=False):
                gradient.index_add_(0, where, part.view(len(where), gradient.shape[1]))

    def _gather(self, mine: Tensor, most: int) -> Tensor:
        """What each rank has, filled up to one length.   ranks most"""
        padded = mine.new_zeros(most)
        padded[: len(mine)] = mine
        everyone = mine.new_empty(self.ranks.world, most)
        with self.ranks.noticing():
            dist.all_gather(list(everyone), padded)
        return everyone


def _changed_rows(table: Tensor) -> Tensor:
    """The rows whose gradient is not 0."""
    if table.grad is None:
        return torch.empty(0, dtype=torch.long)
    return ((table.grad.amax(1) != 0) | (table.grad.amin(1) != 0)).nonzero()[:, 0]
