"""Slots: sequences of different lengths that one model goes on with together.

    slots = make_slots(model, count=4, capacity=256)   # in model_slots.py
    logits = slots.read([0, 2], [[5, 1, 9], [7]])      # 2 vocab: after each slot's last token
    slots.copy(0, 1, 2)                                # slot 1 begins as slot 0 does
    slots.truncate(0, 0)                               # slot 0 is empty

Each row has the logits that it has alone, to rounding: tokens know their places, and no slot sees another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.eval_mode import eval_mode

WASTE = 1.25  # rows of different lengths are read as one batch if padding makes it at most so much larger


class Slots(ABC):
    """What each slot holds, and checks of what is asked. A subclass reads, copies and forgets.

    held   the ids of each slot, as far as the model is still shown them
    vocab  ids are below it; None: nobody knows
    """

    def __init__(self, model: Any, count: int, capacity: int, vocab: int | None) -> None:
        if count < 1 or capacity < 1:
            raise RegardError(
                f"slots need a count and a capacity of at least 1, got count={count} and capacity={capacity}"
            )
        self.model, self.count, self.capacity, self.vocab = model, count, capacity, vocab
        self.held: list[list[int]] = [[] for _ in range(count)]

    def length(self, slot: int) -> int:
        """How many tokens a slot holds."""
        return len(self.held[self._known(slot)])

    @torch.inference_mode()
    def read(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> Tensor:
        """Append each list of one token or more to its slot. Rows of about one length are one batch.
        -> logits after each slot's last token, float32 or float64, len(slots) vocab"""
        self._check_read(slots, tokens)
        groups = _groups([len(each) for each in tokens])
        found = []
        with self._evaluating():
            for group in groups:
                group.sort(key=lambda i: slots[i])  # neighbours need not be gathered
                logits = self._forward([slots[i] for i in group], [list(tokens[i]) for i in group])
                found.append(logits.to(torch.promote_types(logits.dtype, torch.float32)).cpu())
                for i in group:
                    self.held[slots[i]].extend(tokens[i])
        order = [i for group in groups for i in group]
        whole = found[0] if len(found) == 1 else torch.cat(found)
        return whole if order == sorted(order) else whole[torch.tensor(order).argsort()]

    @abstractmethod
    def _forward(self, slots: list[int], tokens: list[list[int]]) -> Tensor:
        """Logits after each slot's last token; its memory then holds the tokens.   -> b vocab"""

    @abstractmethod
    def truncate(self, slot: int, length: int) -> None:
        """Forget what comes after the first `length` tokens; 0 empties the slot."""

    @abstractmethod
    def copy(self, source: int, target: int, length: int) -> None:
        """The target becomes the first `length` tokens of the source."""

    @cached_property
    def device(self) -> torch.device:
        """Where the model is."""
        first = next(self.model.parameters(), None) if isinstance(self.model, nn.Module) else None
        return torch.device("cpu") if first is None else first.device

    def _evaluating(self) -> AbstractContextManager[None]:
        if isinstance(self.model, nn.Module) and self.model.training:
            return eval_mode(self.model)
        return nullcontext()

    def _known(self, slot: int) -> int:
        if not 0 <= slot < self.count:
            raise RegardError(f"there is no slot {slot}; slots are numbered 0 to {self.count - 1}")
        return slot

    def _check_read(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> None:
        if not slots or len(slots) != len(tokens) or len(set(slots)) != len(slots):
            raise RegardError(f"each slot is read once, with its own tokens, got {len(tokens)} for slots {slots}")
        for slot, new in zip(slots, tokens, strict=True):
            full = self.length(slot) + len(new)
            if not new:
                raise RegardError(f"slot {slot} was given no token; give one at least")
            if full > self.capacity:
                raise RegardError(f"slot {slot} would hold {full} tokens, but has room for {self.capacity}")
            if self.vocab is not None and not 0 <= min(new) <= max(new) < self.vocab:
                wrong = next(id for id in new if not 0 <= id < self.vocab)
                raise RegardError(f"ids are 0 to {self.vocab - 1}, got {wrong}")

    def _check_length(self, slot: int, length: int) -> None:
        if not 0 <= length <= self.length(slot):
            raise RegardError(f"slot {slot} holds {self.length(slot)} tokens, not {length}")


def pad(tokens: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of different lengths as one batch, filled up with id 0, and their lengths.   -> b n, b"""
    lengths = torch.tensor([len(row) for row in tokens])
    n = int(lengths.max())
    rows = [[*row, *([0] * (n - len(row)))] for row in tokens]
    return torch.tensor(rows, dtype=torch.long, device=device), lengths.to(device)


def _groups(lengths: Sequence[int]) -> list[list[int]]:
    """Which rows are read as one batch: those of about one length, so that little is padding."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    found: list[list[int]] = []
    total = 0
    for i in order:
        total += lengths[i]
        if found and lengths[i] * (len(found[-1]) + 1) <= WASTE * total:
            found[-1].append(i)
        else:
            found.append([i])
            total = lengths[i]
    return found
