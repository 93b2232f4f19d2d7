"""Slots of models without attention: one state for each, of a size that does not depend on the text."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.generation.slot_books import SlotBooks, pad
from regard.models.caches import States
from regard.models.token_model import TokenModel


class StateSlots(SlotBooks):
    """Slots of an LSTM, a GRU or a Conv. A state has no beginning that could be taken back: after `truncate`
    (and `copy` of a part) the tokens that stay are read again, with those that come next."""

    model: TokenModel

    def __init__(self, model: TokenModel, count: int, capacity: int) -> None:
        super().__init__(model, count, capacity, model.config.vocab)
        self.states: list[dict[str, Tensor]] = [{} for _ in range(count)]  # rows; {}: nothing is read
        self.read_again: list[list[int]] = [[] for _ in range(count)]  # held, but not in the state

    def _forward(self, slots: list[int], tokens: list[list[int]]) -> Tensor:
        logits = torch.empty(len(slots), self.vocab, device=self.device)
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
        states = States()
        if self.states[slots[0]]:
            names = self.states[slots[0]]
            states.keep(**{name: torch.stack([self.states[slot][name] for slot in slots]) for name in names})
        n = given.shape[1]
        real = torch.arange(n, device=self.device) < lengths[:, None]
        x = self.model.features(given, real=None if bool(real.all()) else real, caches=states)
        for i, slot in enumerate(slots):
            self.states[slot] = {name: rows[i].clone() for name, rows in states.held.items()}
            self.read_again[slot] = []
        last = x[torch.arange(len(slots), device=self.device), lengths - 1]
        return self.model.head(last[:, None], self.model.embed.weight)[:, 0]

    def truncate(self, slot: int, length: int) -> None:
        """Forget what comes after the first `length` tokens; 0 empties the slot."""
        self._check_length(slot, length)
        if length == self.length(slot):
            return
        del self.held[slot][length:]
        self.states[slot], self.read_again[slot] = {}, list(self.held[slot])

    def copy(self, source: int, target: int, length: int) -> None:
        """The target becomes the first `length` tokens of the source."""
        self._check_length(source, length)
        whole = length == self.length(source)
        if self._known(target) != source:
            self.held[target] = list(self.held[source])
            self.states[target] = dict(self.states[source])
            self.read_again[target] = list(self.read_again[source])
        if not whole:
            self.truncate(target, length)
