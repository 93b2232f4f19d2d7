"""Slots of a Decoder: keys and values of all slots, for each block in memory that is taken once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.cache import Cache, Past
from regard.generation.slots import Slots, pad
from regard.models.caches import Caches
from regard.models.decoder import Decoder


@dataclass(frozen=True, eq=False)
class Turn:
    """Which tokens come now: what the caches of all blocks share.

    Keys lie at their places, so a mask that looks back by places hides whatever lies behind a slot's end.
    """

    slots: Tensor  # b
    here: Tensor  # b n 1: places of the new tokens
    there: Tensor  # m: places of the keys
    even: bool  # do all rows have the same places? Then they follow from the slots of the cache
    real: Tensor | None  # bool b n, False for padding; None: there is none
    row: Tensor  # t: the slot of each real token, and its place
    place: Tensor  # t
    neighbours: bool  # are the slots consecutive?
    first: int  # the first slot
    begin: int  # the place of its first new token


class SlotCache(Cache):
    """The keys and values of one block: count g capacity c each."""

    def __init__(self, count: int, capacity: int) -> None:
        super().__init__(capacity)
        self.slots = count
        self.turn: Turn | None = None

    def upcoming(
        self, b: int, n: int, device: torch.device, where: Tensor | None = None, real: Tensor | None = None
    ) -> Tensor:
        assert self.turn is not None
        return self.turn.here

    def add(self, k: Tensor, v: Tensor, where: Tensor | None = None, real: Tensor | None = None) -> Past:
        assert self.turn is not None and self.length is not None
        if not self.store:
            for name, x in (("k", k), ("v", v)):
                self.store[name] = x.new_zeros(self.slots, x.shape[1], self.length, x.shape[3])
        places = None if self.turn.even else (self.turn.here, self.turn.there)
        return Past(self._keep("k", k), self._keep("v", v), places, None)

    def _keep(self, name: str, x: Tensor) -> Tensor:
        """Write what is new, and give back all of these slots.   b g n c -> b g m c"""
        turn, store = self.turn, self.store[name]
        assert turn is not None
        if turn.even and turn.neighbours:
            end = turn.begin + x.shape[2]
            rows = store.narrow(0, turn.first, len(x))
            rows[:, :, turn.begin : end] = x
            return rows[:, :, :end]
        each = x.transpose(1, 2)  # b n g c
        store[turn.row, :, turn.place] = each.flatten(0, 1) if turn.real is None else each[turn.real]
        used = store[:, :, : len(turn.there)]
        if turn.neighbours:
            return used.narrow(0, turn.first, len(turn.slots))
        return used.index_select(0, turn.slots)

    def copy(self, source: int, target: int, length: int) -> None:
        for store in self.store.values():
            store[target, :, :length] = store[source, :, :length]


class CachedSlots(Slots):
    """Slots of a Decoder. A window hides what is far; it is kept all the same, so any beginning can be reused."""

    model: Decoder

    def __init__(self, model: Decoder, count: int, capacity: int) -> None:
        super().__init__(model, count, capacity, model.config.vocab)
        self.caches = Caches(SlotCache(count, capacity) for _ in model.stack.blocks)

    def _forward(self, slots: list[int], tokens: list[list[int]]) -> Tensor:
        given, lengths = pad(tokens, self.device)
        turn = self._turn(slots, given.shape[1], lengths)
        for cache in self.caches:
            assert isinstance(cache, SlotCache)
            cache.turn = turn
        if self.model.ngrams is not None:
            self.caches.before = self._before(slots, self.model.ngrams.most - 1)
        x = self.model.features(given, caches=self.caches, real=turn.real)
        last = x[torch.arange(len(slots), device=self.device), lengths - 1]  # the head reads no other
        return self.model.head(last[:, None], self.model.embed.weight)[:, 0]

    @torch.inference_mode(False)  # what follows from such places, a position keeps for the next block
    def _turn(self, slots: list[int], n: int, lengths: Tensor) -> Turn:
        begins = torch.tensor([len(self.held[slot]) for slot in slots], device=self.device)
        rows, steps = torch.tensor(slots, device=self.device), torch.arange(n, device=self.device)
        here = begins[:, None] + steps  # b n
        real = None if bool((lengths == n).all()) else steps < lengths[:, None]
        row, place = rows[:, None].expand_as(here), here
        return Turn(
            slots=rows,
            here=here.clamp(max=self.capacity - 1)[..., None],  # (padding has no place of its own)
            there=torch.arange(int((begins + lengths).max()), device=self.device),
            even=real is None and len({len(self.held[slot]) for slot in slots}) == 1,
            real=real,
            row=row.flatten() if real is None else row[real],
            place=place.flatten() if real is None else place[real],
            neighbours=slots == list(range(slots[0], slots[0] + len(slots))),
            first=slots[0],
            begin=len(self.held[slots[0]]),
        )

    def _before(self, slots: list[int], kept: int) -> tuple[Tensor, Tensor]:
        """Ids and places of each slot's last tokens, which n-grams look back on.   -> b kept, b kept"""
        ids = torch.full((len(slots), kept), self.model.config.vocab, device=self.device)
        places = torch.full((len(slots), kept), -torch.inf, dtype=torch.float64, device=self.device)
        for i, slot in enumerate(slots):
            last = self.held[slot][-kept:]
            first = len(self.held[slot]) - len(last)
            ids[i, : len(last)] = torch.tensor(last, device=self.device)
            places[i, : len(last)] = torch.arange(first, first + len(last), device=self.device)
        return ids, places

    def truncate(self, slot: int, length: int) -> None:
        self._check_length(slot, length)
        del self.held[slot][length:]

    @torch.inference_mode()
    def copy(self, source: int, target: int, length: int) -> None:
        self._check_length(source, length)
        if self._known(target) == source:
            return self.truncate(source, length)
        for cache in self.caches:
            assert isinstance(cache, SlotCache)
            cache.copy(source, target, length)
        self.held[target] = self.held[source][:length]
        return None
