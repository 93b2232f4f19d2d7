"""Slots of models without memory that can be cut anywhere: LSTM, GRU and Conv, and any other; and the slots that suit a
model."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.generation.cached_slots import CachedSlots
from regard.generation.native.model import NativeModel
from regard.generation.slots import Slots, pad
from regard.models.caches import States
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.token_model import TokenModel


def make_slots(model: Any, count: int, capacity: int) -> Slots:
    """Empty slots for a model that predicts next tokens, as suits it.

    A NativeModel has its own. Keys and values of a Decoder lie in memory that is taken once; an LSTM, GRU or Conv
    keeps one state a slot. Any other maps ids b n to logits b n vocab, perhaps with `caches` as a Decoder has.
    """
    limit = getattr(model, "limit", None)
    if limit is not None and capacity > limit:
        raise RegardError(
            f"a slot of {capacity:,} tokens is longer than the {limit:,} that the model reads at once; take "
            f"{limit:,} or fewer"
        )
    if isinstance(model, NativeModel):
        return model.slots(count, capacity)
    if isinstance(model, Decoder) and model.stack.approximation is None:
        return CachedSlots(model, count, capacity)
    if isinstance(model, TokenModel) and model.config.causal:
        return StateSlots(model, count, capacity)
    if isinstance(model, TokenModel | Encoder):
        raise RegardError(f"{type(model).__name__} cannot go on with texts: it predicts no next token")
    return PlainSlots(model, count, capacity, None)


class StateSlots(Slots):
    """Slots of an LSTM, a GRU or a Conv. A state has no beginning that could be taken back: after `truncate`
    (and `copy` of a part) the tokens that stay are read again, with those that come next."""

    model: TokenModel

    def __init__(self, model: TokenModel, count: int, capacity: int) -> None:
        super().__init__(model, count, capacity, model.config.vocab)
        self.states: list[dict[str, Tensor]] = [{} for _ in range(count)]  # rows; {}: nothing is read
        self.read_again: list[list[int]] = [[] for _ in range(count)]  # held, but not in the state
        self.last: tuple[list[int], States] | None = None  # slots that were read together, while nothing else changed

    def _forward(self, slots: list[int], tokens: list[list[int]]) -> Tensor:
        logits = torch.empty(len(slots), self.model.config.vocab, device=self.device)
        begin = [i for i, slot in enumerate(slots) if not self.states[slot]]
        go_on = [i for i, slot in enumerate(slots) if self.states[slot]]
        for rows in (begin, go_on):
            if rows:
                logits[rows] = self._go_on([slots[i] for i in rows], [tokens[i] for i in rows]).float()
        return logits

    def _go_on(self, slots: list[int], tokens: list[list[int]]) -> Tensor:
        given, lengths = pad(
            [self.read_again[slot] + new for slot, new in zip(slots, tokens, strict=True)], self.device
        )
        states = self._gather(slots)
        n = given.shape[1]
        real = None
        if n > 1:
            there = torch.arange(n, device=self.device) < lengths[:, None]
            real = None if bool(there.all()) else there
        x = self.model.features(given, real=real, caches=states)
        for i, slot in enumerate(slots):
            self.states[slot] = {name: rows[i] for name, rows in states.held.items()}
            self.read_again[slot] = []
        self.last = slots, states
        last = x[torch.arange(len(slots), device=self.device), lengths - 1]
        return self.model.head(last[:, None], self.model.embed.weight)[:, 0]

    def _gather(self, slots: list[int]) -> States:
        """The states of some slots as rows."""
        if self.last is not None and self.last[0] == slots:
            return self.last[1]
        states, names = States(), self.states[slots[0]]
        if names:
            states.keep(**{name: torch.stack([self.states[slot][name] for slot in slots]) for name in names})
        return states

    def truncate(self, slot: int, length: int) -> None:
        self._check_length(slot, length)
        if length == self.length(slot):
            return
        del self.held[slot][length:]
        self.last = None
        self.states[slot], self.read_again[slot] = {}, list(self.held[slot])

    def copy(self, source: int, target: int, length: int) -> None:
        self._check_length(source, length)
        whole = length == self.length(source)
        self.last = None
        if self._known(target) != source:
            self.held[target] = list(self.held[source])
            self.states[target] = dict(self.states[source])
            self.read_again[target] = list(self.read_again[source])
        if not whole:
            self.truncate(target, length)


class PlainSlots(Slots):
    """Slots of any model. With `caches` each slot goes on in its own, of which no beginning can be taken back; without,
    a slot is read again from its beginning, and rows of one length are one batch."""

    def __init__(self, model: Any, count: int, capacity: int, vocab: int | None) -> None:
        super().__init__(model, count, capacity, vocab)
        self.cached = hasattr(model, "caches")
        self.caches: list[Any] = [None] * count  # of each slot; None: nothing is read

    def _forward(self, slots: list[int], tokens: list[list[int]]) -> Tensor:
        whole = [self.held[slot] + new for slot, new in zip(slots, tokens, strict=True)]
        if not self.cached and len({len(row) for row in whole}) == 1:
            found: Tensor = self.model(torch.tensor(whole, device=self.device))[:, -1]
            return found
        rows = zip(slots, tokens, whole, strict=True)
        return torch.cat([self._go_on(slot, new, row) for slot, new, row in rows])

    def _go_on(self, slot: int, new: list[int], whole: list[int]) -> Tensor:
        how = {}
        if self.cached:
            if self.caches[slot] is None:
                self.caches[slot], new = self.model.caches(self.capacity), whole
            how["caches"] = self.caches[slot]
        try:
            found: Tensor = self.model(torch.tensor([new if self.cached else whole], device=self.device), **how)[:, -1]
        except BaseException:
            self.caches[slot] = None  # it may have some of the tokens
            raise
        return found

    def truncate(self, slot: int, length: int) -> None:
        self._check_length(slot, length)
        if length < self.length(slot):
            del self.held[slot][length:]
            self.caches[slot] = None

    def copy(self, source: int, target: int, length: int) -> None:
        self._check_length(source, length)
        if self._known(target) != source:
            self.held[target] = list(self.held[source])
            self.caches[target] = deepcopy(self.caches[source])
        self.truncate(target, length)
