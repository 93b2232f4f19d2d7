"""Queries that come one by one, in a loop inside one call of a module, and look at the same values.

A recurrent decoder begins with the last state of its encoder, and carries a part of it from step to step. So its
queries descend from the tokens they look at, which alone would make it self-attention. That the values stay as
they are while queries come one after another tells it apart: a sequence that attends to itself has as many
queries as values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from regard.look.recording.entry import Entry
from regard.look.recording.summary import Summary


@dataclass(eq=False)
class _Loop:
    """Entries of one loop so far."""

    call: int
    values: Tensor
    # each with the kind and the summary that it had by itself
    entries: list[tuple[Entry, str, Summary | None]] = field(default_factory=list)


class Steps:
    """All loops: the last one of each module."""

    def __init__(self) -> None:
        self.loops: dict[str, _Loop] = {}

    def add(self, entry: Entry, values: Tensor | None) -> None:
        """Take in an entry, and settle the kind of all entries of its loop.   values: b g m e"""
        if values is None or entry.shape[2] != 1 or entry.shape[3] == 1:
            return
        loop = self.loops.get(entry.name)
        if loop is None or loop.call != entry.call or not _are_same(loop.values, values):
            loop = self.loops[entry.name] = _Loop(entry.call, values)
        loop.entries.append((entry, entry.kind, entry.kept))
        if len(loop.entries) == 1:
            return
        alone = {kind for _, kind, _ in loop.entries}
        kind = "self" if alone == {"self"} and len(loop.entries) == entry.shape[3] else "cross"
        for each, _, kept in loop.entries:
            each.kind = kind
            if kept is not None:
                each.kept = replace(kept, distance=None) if kind == "cross" else kept


def _are_same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)
