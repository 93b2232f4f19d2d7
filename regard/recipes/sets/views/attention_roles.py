"""What one attention has to do with the points of a set: who looks at whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from torch import nn

from regard.look.recording.entry import Entry
from regard.nn.pool import AttentionPool
from regard.nn.set_attention import ISAB, PMA

PLURALS = {"query": "queries"}
AMONG = "how much of all attention each point gets; choose a point to see what it looks at"
ASKED = "what each {} looks at, in its own colour"
ASKS = "which {} each point looks at"


class Role(NamedTuple):
    """What one attention has to do with the points."""

    kind: Literal[
        "among", "asked", "asks"
    ]  # points look at points, a few learned vectors at points, or points at those
    what: str  # what the few are
    few: int  # how many there are

    @property
    def called(self) -> str:
        return PLURALS.get(self.what, f"{self.what}s")

    @property
    def title(self) -> str:
        few = f"one {self.what}" if self.few == 1 else f"{self.few} {self.called}"
        looking = f"{few} look{'s' * (self.few == 1)} at the points"
        return {"among": "points look at points", "asked": looking, "asks": f"points look at {few}"}[self.kind]

    @property
    def sentence(self) -> str:
        return {"among": AMONG, "asked": ASKED.format(self.what), "asks": ASKS.format(self.what)}[self.kind]


def role_of(model: nn.Module, entry: Entry, n: int) -> Role | None:
    """None where the points have no part in it: among the seeds, say."""
    if entry.kind == "edges" or entry.shape[0] != 1:
        return None
    queries, keys = entry.shape[2:]
    around = [model.get_submodule(entry.name.rsplit(".", up)[0]) for up in range(entry.name.count(".") + 1)]
    seeds = any(isinstance(module, PMA | AttentionPool) for module in around)
    induced = next((module for module in around if isinstance(module, ISAB)), None)
    telling = induced is not None and any(module is induced.tell for module in around)
    few = None if induced is None else "inducing point"
    if seeds:
        few = "seed"
    if queries == n and keys == n and entry.kind == "self":
        return Role("among", "point", 1)
    if keys == n and not telling:
        return Role("asked", few or "query", queries)
    if queries == n:
        return Role("asks", few or "key", keys)
    return None


def names_of_few(model: nn.Module, seen: Sequence[Entry], n: int) -> dict[tuple[int, int], str]:
    """What those are called that look at the n points or are looked at by them, by layer and call."""
    roles = {(entry.layer, entry.call): role_of(model, entry, n) for entry in seen}
    return {place: role.called for place, role in roles.items() if role is not None and role.kind != "among"}
