"""Planted bugs of the cache: step by step gives something else than all at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.symmetry.roles import Roles, Stream
from tests.symmetry.planted import Case, planted
from tests.symmetry.planted_parts import (
    HEADS,
    VOCAB,
    WIDTH,
    Attention,
    Block,
    Causal,
    Transformer,
    Waves,
    decoder,
    ids,
    rotate,
    stack,
    step,
)


class TopLeft(Causal):
    """The mask is aligned with the first key instead of the last: new queries see only the oldest keys."""

    def sees(self, here: Tensor, there: Tensor) -> Tensor:
        if self.bug:
            return torch.ones(1, here.shape[1], there.shape[2], dtype=torch.bool).tril()
        return there <= here


@planted("cache", at="blocks.1.attention")
def top_left_causal_mask_with_a_past(bug: bool) -> Case:
    return decoder(TopLeft, bug)


class ShiftedByOne(Causal):
    """With a past, queries take themselves to be one place earlier than they are, and hide the newest key."""

    def sees(self, here: Tensor, there: Tensor) -> Tensor:
        late = self.bug and there.shape[2] > here.shape[1]
        return there <= here - int(late)


@planted("cache", at="blocks.1.attention")
def cache_shifted_by_one(bug: bool) -> Case:
    return decoder(ShiftedByOne, bug)


class ALiBi(Attention):
    """Scores fall with the distance; by mistake the distance is counted within the new tokens only."""

    def __init__(self, bug: bool = False):
        super().__init__(bug, causal=True)

    def bias(self, here: Tensor, there: Tensor) -> Tensor:
        if self.bug:
            here = torch.arange(here.shape[1]).expand(len(here), -1)
        distance = (here[:, :, None] - there[:, None, :]).abs()[:, None]  # b 1 n m
        return -distance * 0.5 ** torch.arange(1.0, HEADS + 1)[:, None, None]


@planted("cache", at="blocks.0.attention")
def alibi_on_the_query_length(bug: bool) -> Case:
    return decoder(ALiBi, bug, at=0)


class TurnedTwice(Causal):
    """Keys are kept after they were turned, and turned once more with the new ones."""

    def remember(self, k: Tensor, v: Tensor, where: Tensor, past: dict | None) -> tuple[Tensor, Tensor, Tensor]:
        if self.bug and past is not None and self in past:
            before = past[self]
            past[self] = rotate(before[0], before[2]), *before[1:]
        return super().remember(k, v, where, past)


@planted("cache", at="blocks.1.attention")
def cached_keys_turned_twice(bug: bool) -> Case:
    return decoder(TurnedTwice, bug)


class Restarting(Causal):
    """Every call turns its own tokens as if they were the first ones."""

    def turn(self, x: Tensor, where: Tensor) -> Tensor:
        return rotate(x, where - where[:, :1] if self.bug else where)


@planted("cache", at="blocks.0.attention")
def rotary_restarts_at_zero(bug: bool) -> Case:
    return decoder(Restarting, bug, at=0)


class LearnedPlace(nn.Module):
    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.table = nn.Parameter(torch.randn(64, WIDTH))

    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        return x + (self.table[: x.shape[1]] if self.bug else self.table[where])


@planted("cache", at="place")
def learned_places_restart_at_zero(bug: bool) -> Case:
    roles = Roles(streams=(Stream("tokens"),), step=step, promises={"causality": "holds"})
    blocks = stack(lambda _: Attention(causal=True), bug)
    return Transformer(*blocks, place=LearnedPlace(bug)), ids(), {"roles": roles}


class Forgetful(Causal):
    """The oldest key is thrown away when the second call comes."""

    def remember(self, k: Tensor, v: Tensor, where: Tensor, past: dict | None) -> tuple[Tensor, Tensor, Tensor]:
        if self.bug and past is not None and self in past:
            before = past[self]
            past[self] = before[0][:, :, 1:], before[1][:, :, 1:], before[2][:, 1:]
        return super().remember(k, v, where, past)


@planted("cache", at="blocks.1.attention")
def cache_forgets_the_first_token(bug: bool) -> Case:
    return decoder(Forgetful, bug)


class Rolling(Causal):
    """A window of five keys, of which a rolling cache must keep the last four."""

    def sees(self, here: Tensor, there: Tensor) -> Tensor:
        return (there <= here) & (there > here - 5)

    def remember(self, k: Tensor, v: Tensor, where: Tensor, past: dict | None) -> tuple[Tensor, Tensor, Tensor]:
        k, v, where = super().remember(k, v, where, past)
        if past is not None:
            kept = 4 - self.bug
            past[self] = k[:, :, -kept:], v[:, :, -kept:], where[:, -kept:]
        return k, v, where


@planted("cache", at="blocks.1.attention")
def rolling_cache_one_too_short(bug: bool) -> Case:
    return decoder(Rolling, bug)


class Rounded(Causal):
    """What is kept is rounded to eight bits."""

    def remember(self, k: Tensor, v: Tensor, where: Tensor, past: dict | None) -> tuple[Tensor, Tensor, Tensor]:
        k, v, where = super().remember(k, v, where, past)
        if self.bug and past is not None:
            past[self] = k.bfloat16().to(k.dtype), v.bfloat16().to(v.dtype), where
        return k, v, where


def cache_kept_in_half_precision(bug: bool) -> Case:
    return decoder(Rounded, bug, at=0)


class Tempered(Causal):
    """Scores grow with the logarithm of how much can be seen; by mistake, of how many keys this call has."""

    def turn(self, x: Tensor, where: Tensor) -> Tensor:
        count = torch.full_like(where, where.shape[1]) if self.bug else where + 1
        return rotate(x, where) * (1 + count[:, None, :, None].log())


@planted("cache", at="blocks.1.attention", also=("padding",))
def temperature_by_the_length_of_the_call(bug: bool) -> Case:
    return decoder(Tempered, bug)


class Gated(nn.Module):
    """h_t = g_t h_(t−1) + (1 − g_t) z_t, one state a row that must be carried from call to call."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.gate, self.new = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, past: dict | None = None) -> Tensor:
        gate, new = self.gate(x).sigmoid(), self.new(x).tanh()
        state = x.new_zeros(len(x), WIDTH) if past is None or self.bug else past.get(self, x.new_zeros(len(x), WIDTH))
        seen = []
        for t in range(x.shape[1]):
            state = gate[:, t] * state + (1 - gate[:, t]) * new[:, t]
            seen.append(state)
        if past is not None:
            past[self] = state
        return torch.stack(seen, 1)


class Context(nn.Conv1d):
    """A causal convolution over time, which needs the last two steps of the call before."""

    def __init__(self, bug: bool):
        super().__init__(WIDTH, WIDTH, 3)
        self.bug = bug

    def forward(self, x: Tensor, past: dict | None = None) -> Tensor:
        nothing = x.new_zeros(len(x), 2, WIDTH)
        before = nothing if past is None or self.bug else past.get(self, nothing)
        x = torch.cat([before, x], 1)
        if past is not None:
            past[self] = x[:, -2:]
        return super().forward(x.mT).mT


class Recurrent(nn.Module):
    """Ids, two layers with a past, logits."""

    def __init__(self, first: nn.Module, second: nn.Module):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.first, self.second = first, second
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens: Tensor, past: dict | None = None) -> Tensor:
        x = self.embed(tokens)
        x = x + functional.relu(self.first(x, past))
        return self.head(x + self.second(x, past))


RECURRENT = {"roles": Roles(streams=(Stream("tokens"),), step=step, promises={"causality": "holds"})}


@planted("cache", at="second")
def recurrent_state_not_carried_on(bug: bool) -> Case:
    return Recurrent(Gated(False), Gated(bug)), ids(), RECURRENT


@planted("cache", at="first")
def convolution_without_its_context(bug: bool) -> Case:
    return Recurrent(Context(bug), Gated(False)), ids(), RECURRENT


class CountedFromTheEnd(Waves):
    """Places counted back from the last token there is so far."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        return super().forward(x, where.amax(1, keepdim=True) - where if self.bug else where)


@planted("cache", at="place")
def places_counted_from_the_end(bug: bool) -> Case:
    blocks = [Block(Attention(causal=True)), Block(Attention(causal=True))]
    return Transformer(*blocks, place=CountedFromTheEnd(bug)), ids(), RECURRENT
