"""Rows of ids that grow one by one, each in a slot: what `IncrementalDecoder` is over caches, over slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.errors import RegardError


class SlotReader:
    """The logits of what comes next in each row. `rows` and `prompt` are those of an IncrementalDecoder.

    model   has `limit` and `slots(count, capacity)`, as a NativeModel has
    most    rows at once
    """

    def __init__(self, model: Any, prompt: Sequence[int], room: int, ids: int | None = None, most: int = 1) -> None:
        self.limit: int | None = model.limit
        self.ids = ids
        self.prompt = list(prompt)
        self.rows = [list(prompt)]  # all ids of each row, however old
        self.begin = 0 if self.limit is None else max(0, len(prompt) - self.limit)
        capacity = len(prompt) - self.begin + room
        if self.limit is not None:
            capacity = min(capacity, self.limit)
        self.slots = model.slots(most, capacity)
        self.held = [0]  # the slot of each row

    def start(self, samples: int = 1) -> Tensor:
        """Logits after the prompt, the same for each of the samples.   -> samples vocab"""
        logits = self._read([self.rows[0][self.begin :]])
        self.take([0] * samples)
        return logits.expand(samples, -1)

    def step(self, tokens: Sequence[int]) -> Tensor:
        """Logits after one more token in each row.   -> rows vocab"""
        for row, token in zip(self.rows, tokens, strict=True):
            row.append(token)
        if self.limit is not None and len(self.rows[0]) - self.begin > self.limit:
            self.begin = len(self.rows[0]) - max(1, self.limit // 2)
            for slot in self.held:
                self.slots.truncate(slot, 0)
            return self._read([row[self.begin :] for row in self.rows])
        return self._read([[token] for token in tokens])

    def take(self, rows: Sequence[int]) -> None:
        """Row i goes on from row rows[i]. The first that goes on from a row has its slot, others a copy."""
        if list(rows) == list(range(len(self.rows))):
            return
        used = {self.held[i] for i in rows}
        free = [slot for slot in range(self.slots.count) if slot not in used]
        held: list[int] = []
        for i in rows:
            slot = self.held[i]
            if slot in held:
                target = free.pop()
                self.slots.copy(slot, target, self.slots.length(slot))
                slot = target
            held.append(slot)
        for slot in free:
            self.slots.truncate(slot, 0)
        self.rows = [list(self.rows[i]) for i in rows]
        self.held = held

    def _read(self, tokens: list[list[int]]) -> Tensor:
        logits: Tensor = self.slots.read(self.held, tokens)[:, : self.ids]
        if not bool(logits.isfinite().all()):
            raise RegardError(
                "the logits of the model are NaN or infinite: its training diverged; train it again with a smaller "
                "--train.lr"
            )
        return logits
