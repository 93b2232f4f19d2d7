"""Who has which slot, and what free slots still hold: beginnings that later prompts take over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from regard.generation.slots import Slots


class SlotKeeper:
    """Gives slots to texts. A free slot keeps what it holds until it is needed: the one used longest ago goes first."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.free = set(range(slots.count))
        self.used = [0] * slots.count  # when each was used last
        self.clock = 0

    def take(self, ids: Sequence[int]) -> tuple[int, int]:
        """A free slot for these ids, and how many of them it holds already: all but the last at most, after which
        a token is drawn."""
        held = self.slots.held
        source, common = max(
            ((slot, _common(ids[:-1], held[slot])) for slot in range(self.slots.count)),
            key=lambda found: (found[1], found[0] in self.free),
        )
        if common and source in self.free and common == len(held[source]):
            slot = source
        else:
            slot = min(self.free, key=lambda each: (bool(held[each]), self.used[each], each))
        if source == slot or not common:
            self.slots.truncate(slot, common)
        else:
            self._copy(source, slot, common)
        self._hold(slot)
        return slot, common

    def fork(self, source: int) -> int:
        """A free slot that holds all that another does."""
        slot = min(self.free, key=lambda each: (bool(self.slots.held[each]), self.used[each], each))
        self._copy(source, slot, self.slots.length(source))
        self._hold(slot)
        return slot

    def _copy(self, source: int, slot: int, length: int) -> None:
        self.slots.truncate(slot, 0)  # whatever becomes of it
        self.slots.copy(source, slot, length)
        self._touch(source)

    def _hold(self, slot: int) -> None:
        self.free.discard(slot)
        self._touch(slot)

    def grows(self, ids: Sequence[int], ahead: Iterable[Sequence[int]]) -> int:
        """How many more tokens could be taken over once those who read now (`ahead`) have read all."""
        now = max(_common(ids[:-1], held) for held in self.slots.held)
        soon = max((_common(ids[:-1], other) for other in ahead), default=0)
        return soon - now

    def read(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> Tensor:
        """As `Slots.read`; if that fails, every slot is as it was before."""
        before = [self.slots.length(slot) for slot in slots]
        try:
            return self.slots.read(slots, tokens)
        except BaseException:
            for slot, length in zip(slots, before, strict=True):
                self.slots.truncate(slot, length)
            raise

    def empty(self, slot: int) -> None:
        """Forget what a slot holds."""
        self.slots.truncate(slot, 0)

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
