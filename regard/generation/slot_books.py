"""What all slots have in common: which tokens each holds, and what may be asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.eval_mode import eval_mode

WASTE = 1.25  # rows of different lengths are read as one batch if padding makes it at most so much larger


class SlotBooks:
    """The tokens of each slot, and checks of what is asked. A subclass reads, copies and forgets."""

    def __init__(self, model: nn.Module, count: int, capacity: int, vocab: int) -> None:
        if count < 1 or capacity < 1:
            raise RegardError(
                f"slots need a count and a capacity of at least 1, got count={count} and capacity={capacity}"
            )
        self.model, self.count, self.capacity, self.vocab = model, count, capacity, vocab
        self.held: list[list[int]] = [[] for _ in range(count)]  # the tokens of each slot
        self.device = next(model.parameters()).device

    def length(self, slot: int) -> int:
        """How many tokens a slot holds."""
        return len(self.held[self._known(slot)])

    @torch.inference_mode()
    def read(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> Tensor:
        """Append each list to its slot. Rows of about one length are one batch.
        -> logits after each slot's last token, float32, len(slots) vocab"""
        self._check_read(slots, tokens)
        logits = torch.empty(len(slots), self.vocab, dtype=torch.float32)
        with self._evaluating():
            for group in _groups([len(each) for each in tokens]):
                group.sort(key=lambda i: slots[i])  # neighbours need not be gathered
                found = self._forward([slots[i] for i in group], [list(tokens[i]) for i in group])
                logits[group] = found.float().cpu()
                for i in group:
                    self.held[slots[i]].extend(tokens[i])
        return logits

    def _forward(self, slots: list[int], tokens: list[list[int]]) -> Tensor:
        """Logits after each slot's last token; its memory then holds the tokens.   -> b vocab"""
        raise NotImplementedError

    def _evaluating(self) -> AbstractContextManager[None]:
        if self.model.training:
            return eval_mode(self.model)
        return nullcontext()

    def _known(self, slot: int) -> int:
        if not 0 <= slot < self.count:
            raise RegardError(f"there is no slot {slot}; slots are numbered 0 to {self.count - 1}")
        return slot

    def _check_read(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> None:
        if len(slots) != len(tokens) or len(set(slots)) != len(slots):
            raise RegardError(f"each slot is read once, with its own tokens, got {len(tokens)} for slots {slots}")
        for slot, new in zip(slots, tokens, strict=True):
            full = self.length(slot) + len(new)
            if not new:
                raise RegardError(f"slot {slot} was given no token; give one at least")
            if full > self.capacity:
                raise RegardError(f"slot {slot} would hold {full} tokens, but has room for {self.capacity}")
            if not 0 <= min(new) <= max(new) < self.vocab:
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
