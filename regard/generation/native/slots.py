"""Texts of different lengths that the native step goes on with together: it reads the weights once for all of them."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.generation.native.describe import Description

if TYPE_CHECKING:
    from regard.generation.native.model import NativeModel


class NativeSlots:
    """`count` texts of up to `capacity` tokens each, over one model. One thread at a time may use it."""

    def __init__(self, model: NativeModel, count: int = 1, capacity: int | None = None) -> None:
        if capacity is None:
            capacity = model.limit or model.config.context
        if count < 1 or capacity < 1:
            raise RegardError(f"count and capacity must be at least 1, got {count} and {capacity}")
        if model.limit is not None and capacity > model.limit:
            raise RegardError(f"the model reads {model.limit} tokens at most, got capacity={capacity}")
        self.model, self.count, self.capacity = model, count, capacity
        self._library = model.library
        self._description = Description(
            model.config,
            model.packed,
            slots=count,
            capacity=capacity,
            threads=model.threads,
            half_cache=model.half_cache,
        )
        self._back = model.config.ngrams - 1  # tokens that are looked back on
        self._tokens: list[list[int]] = [[] for _ in range(count)]
        self._handle = self._library.open(self._description.pointer)
        weakref.finalize(self, self._library.close, self._handle)

    def length(self, slot: int) -> int:
        """Tokens in a slot."""
        return len(self._tokens[self._check(slot)])

    def truncate(self, slot: int, length: int) -> None:
        """Forget the tokens after the first `length`; 0 empties the slot."""
        if not 0 <= length <= self.length(slot):
            raise RegardError(f"slot {slot} has {self.length(slot)} tokens, and cannot keep {length}")
        del self._tokens[slot][length:]

    def copy(self, source: int, target: int, length: int) -> None:
        """The target becomes the first `length` tokens of the source."""
        if not 0 <= length <= self.length(source):
            raise RegardError(f"slot {source} has {self.length(source)} tokens, not {length} to copy")
        if self._check(target) == source:
            return self.truncate(source, length)
        self._description.copy(source, target, length)
        self._tokens[target] = self._tokens[source][:length]

    def read(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> Tensor:
        """Append tokens to each slot, at least one.   -> logits after the last of each, float32, slots vocab"""
        self._check_read(slots, tokens)
        ids: list[int] = []
        of: list[int] = []
        places: list[int] = []
        wants: list[int] = []
        before: list[int] = []
        for slot, new in zip(slots, tokens, strict=True):
            held = self._tokens[slot]
            ids += new
            of += [slot] * len(new)
            places += range(len(held), len(held) + len(new))
            wants += [0] * (len(new) - 1) + [1]
            if self._back:
                before += self._before(held, new)
        count, vocab = len(ids), self.model.config.vocab
        logits = torch.empty(len(slots), vocab)
        whole = [(ctypes.c_int32 * max(1, len(each)))(*each) for each in (ids, of, places, before, wants)]
        self._library.read(self._handle, count, *whole, logits.data_ptr())
        for slot, new in zip(slots, tokens, strict=True):
            self._tokens[slot] += new
        return logits

    def _before(self, held: list[int], new: Sequence[int]) -> list[int]:
        """For each new token those before it, the nearest first; the size of the vocabulary stands for nothing."""
        line = [self.model.config.vocab] * self._back + held[-self._back :] + list(new)
        first = len(line) - len(new)
        return [line[i - back] for i in range(first, len(line)) for back in range(1, self._back + 1)]

    def _check_read(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> None:
        if len(slots) != len(tokens) or not slots or len(set(slots)) != len(slots):
            raise RegardError(f"each slot needs tokens, once, got {len(slots)} slots and {len(tokens)} lists")
        for slot, new in zip(slots, tokens, strict=True):
            length = self.length(slot) + len(new)
            if not new or length > self.capacity:
                raise RegardError(
                    f"slot {slot} takes 1 to {self.capacity - self.length(slot)} more tokens, got {len(new)}"
                )
            if min(new) < 0 or max(new) >= self.model.config.vocab:
                raise RegardError(f"ids must be from 0 to {self.model.config.vocab - 1}, got {min(new)} to {max(new)}")

    def _check(self, slot: int) -> int:
        if not 0 <= slot < self.count:
            raise RegardError(f"slots are 0 to {self.count - 1}, got {slot}")
        return slot
