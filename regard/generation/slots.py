"""Slots: sequences of different lengths that one model goes on with together.

    slots = make_slots(model, count=4, capacity=256)
    logits = slots.read([0, 2], [[5, 1, 9], [7]])      # 2 vocab: after each slot's last token
    slots.copy(0, 1, 2)                                # slot 1 begins as slot 0 does
    slots.truncate(0, 0)                               # slot 0 is empty

Each row has the logits that it has alone, to rounding: tokens know their places, and no slot sees another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from regard.errors import RegardError
from regard.generation.cached_slots import CachedSlots
from regard.generation.native.model import NativeModel
from regard.generation.state_slots import StateSlots
from regard.models.decoder import Decoder
from regard.models.token_model import TokenModel


class Slots(Protocol):
    """Sequences of different lengths that one model goes on with together."""

    count: int  # slots; fixed when it is made
    capacity: int  # the most tokens that a slot holds

    def read(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> Tensor:
        """Append each list of one token or more to its slot.
        -> logits after each slot's last token, float32, len(slots) vocab"""
        ...

    def length(self, slot: int) -> int:
        """How many tokens a slot holds."""
        ...

    def truncate(self, slot: int, length: int) -> None:
        """Forget what comes after the first `length` tokens; 0 empties the slot."""
        ...

    def copy(self, source: int, target: int, length: int) -> None:
        """The target becomes the first `length` tokens of the source."""
        ...


def make_slots(model: Any, count: int, capacity: int) -> Slots:
    """Empty slots for a model that predicts next tokens, as suits it.

    A NativeModel has its own. Keys and values of a Decoder lie in memory that is taken once; an LSTM, GRU or Conv
    keeps one state a slot.
    """
    limit = getattr(model, "limit", None)
    if limit is not None and capacity > limit:
        raise RegardError(
            f"a slot of {capacity:,} tokens is longer than the {limit:,} that the model reads at once; take "
            f"{limit:,} or fewer"
        )
    if isinstance(model, NativeModel):
        return model.slots(count, capacity)
    if isinstance(model, Decoder):
        return CachedSlots(model, count, capacity)
    if isinstance(model, TokenModel) and model.config.causal:
        return StateSlots(model, count, capacity)
    raise RegardError(
        f"{type(model).__name__} cannot go on with several texts at once: it needs to be a decoder, an LSTM, a GRU or "
        "a Conv that predicts next tokens"
    )
