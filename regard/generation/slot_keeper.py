"""Who has which slot, and what free slots still hold: beginnings that later prompts take over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from regard.generation.slots import Slots


class SlotKeeper:
    """Knows the tokens of every slot. A free slot keeps them until it is needed: the one used longest ago goes
    first."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.held: list[list[int]] = [[] for _ in range(slots.count)]
        self.free = set(range(slots.count))
        self.used = [0] * slots.count  # when each was used last
        self.clock = 0

    def take(self, ids: Sequence[int]) -> tuple[int, int]:
        """A free slot for these ids, and how many of them it holds already: all but the last at most, after which
        a token is drawn."""
        source, common = max(
            ((slot, _common(ids[:-1], self.held[slot])) for slot in range(self.slots.count)),
            key=lambda found: (found[1], found[0] in self.free),
        )
        goes_on = common == len(self.held[source])
        if common and source in self.free and goes_on:
            slot = source
        else:
            slot = min(self.free, key=lambda each: (bool(self.held[each]), self.used[each], each))
        if source != slot:
            self.held[slot] = []  # whatever becomes of it
        if common and source != slot:
            self.slots.copy(source, slot, common)
            self._touch(source)
        elif self.slots.length(slot) != common:
            self.slots.truncate(slot, common)
        self.held[slot] = list(ids[:common])
        self.free.discard(slot)
        self._touch(slot)
        return slot, common

    def grows(self, ids: Sequence[int], ahead: Iterable[Sequence[int]]) -> int:
        """How many more tokens could be taken over once those who read now (`ahead`) have read all."""
        now = max(_common(ids[:-1], held) for held in self.held)
        soon = max((_common(ids[:-1], other) for other in ahead), default=0)
        return soon - now

    def read(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> Tensor:
        """As `Slots.read`; if that fails, every slot is as it was before."""
        try:
            logits = self.slots.read(slots, tokens)
        except BaseException:
            for slot in slots:
                if self.slots.length(slot) != len(self.held[slot]):
                    self.slots.truncate(slot, len(self.held[slot]))
            raise
        for slot, new in zip(slots, tokens, strict=True):
            self.held[slot].extend(new)
        return logits

    def empty(self, slot: int) -> None:
        """Forget what a slot holds."""
        self.slots.truncate(slot, 0)
        self.held[slot] = []

    def release(self, slot: int) -> None:
        """Nobody writes in it any more."""
        self.free.add(slot)
        self._touch(slot)

    def _touch(self, slot: int) -> None:
        self.clock += 1
        self.used[slot] = self.clock


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens they begin with in common."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))
