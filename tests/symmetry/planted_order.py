"""Planted bugs of order and place: a set model that knows places, a relative one that knows absolute ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.symmetry.groups import Group, Permutations, Shifts
from regard.symmetry.roles import Roles, Stream
from tests.symmetry.planted import Case, planted
from tests.symmetry.planted_parts import (
    FEATURES,
    MLP,
    VOCAB,
    WIDTH,
    Attention,
    Block,
    Causal,
    Mean,
    Rotary,
    Transformer,
    ids,
    merge,
    rotate,
    set_roles,
    split,
    stack,
    vectors,
    waves,
)

PLACES = 64


def set_model(*blocks: nn.Module, **parts: nn.Module) -> Case:
    """A transformer over the elements of a set, which promises to be blind to their order."""
    model = Transformer(*blocks, embed=nn.Linear(FEATURES, WIDTH), **parts)
    return model, vectors(), {"roles": set_roles(), "symmetry": Permutations()}


def placed_model(*blocks: nn.Module, keeps: Group | None = None, **parts: nn.Module) -> Case:
    """A transformer over tokens with places of their own."""
    roles = Roles(streams=(Stream("tokens", mask="real", places="where"),), promises={"reordering": "holds"})
    return Transformer(*blocks, **parts), ids(), {"roles": roles, "symmetry": keeps or Shifts()}


class PlacedKeys(Attention):
    """Keys are told their slot, queries and values are not."""

    def forward(self, x: Tensor, real: Tensor | None = None, **about: object) -> Tensor:
        slots = waves(torch.arange(x.shape[1]).expand(len(x), -1)).to(x.dtype)
        q, k, v = split(self.query(x)), split(self.key(x + slots if self.bug else x)), split(self.value(x))
        allowed = torch.ones_like(slots[..., 0], dtype=torch.bool) if real is None else real
        weights = self.weights(q @ k.mT / 6**0.5, allowed[:, None, :].expand(-1, x.shape[1], -1))
        return self.out(merge(weights @ v))


@planted("permutation", at="blocks.1.attention")
def place_added_to_keys_only(bug: bool) -> Case:
    return set_model(*stack(PlacedKeys, bug))


class AbsoluteKeys(Rotary):
    """Keys are turned by their place, queries stay: scores then depend on where the key is, not on the distance."""

    def forward(
        self, x: Tensor, real: Tensor | None = None, where: Tensor | None = None, past: dict | None = None
    ) -> Tensor:
        q, k, v = (split(part(x)) for part in (self.query, self.key, self.value))
        q, k = q if self.bug else rotate(q, where), rotate(k, where)
        weights = self.weights(q @ k.mT / 6**0.5, self.allowed(where, where, real))
        return self.out(merge(weights @ v))


@planted("shift", at="blocks.0.attention")
def rotary_on_keys_only(bug: bool) -> Case:
    return placed_model(*stack(AbsoluteKeys, bug, at=0))


class TurnedValues(Rotary):
    """Rotary of q, k and, by mistake, v: what is read is then turned by the place it was read from."""

    def forward(
        self, x: Tensor, real: Tensor | None = None, where: Tensor | None = None, past: dict | None = None
    ) -> Tensor:
        q, k, v = (split(part(x)) for part in (self.query, self.key, self.value))
        q, k, v = rotate(q, where), rotate(k, where), rotate(v, where) if self.bug else v
        return self.out(merge(self.weights(q @ k.mT / 6**0.5, self.allowed(where, where, real)) @ v))


@planted("shift", at="blocks.1.attention")
def rotary_on_values_too(bug: bool) -> Case:
    return placed_model(*stack(TurnedValues, bug))


class LearnedPlace(nn.Module):
    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.table = nn.Parameter(0.5 * torch.randn(PLACES, WIDTH))

    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        return x + (self.table[where] if self.bug else self.table[0])


@planted("permutation", at="place")
def learned_place_in_a_set_model(bug: bool) -> Case:
    return set_model(*stack(Attention, False), place=LearnedPlace(bug))


@planted("shift", at="place")
def learned_place_in_a_relative_model(bug: bool) -> Case:
    return placed_model(*stack(Rotary, False), place=LearnedPlace(bug))


class PlaceBias(MLP):
    """A bias with one row a place, where one row for all was meant."""

    def __init__(self, bug: bool):
        super().__init__(bug)
        self.stray = nn.Parameter(0.1 * torch.randn(PLACES if bug else 1, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + (self.stray[: x.shape[1]] if self.bug else self.stray)


@planted("permutation", at="blocks.1.mlp")
def stray_bias_per_place(bug: bool) -> Case:
    return set_model(Block(Attention()), Block(Attention(), mlp=PlaceBias(bug)))


class PlaceScale(nn.LayerNorm):
    """A norm whose scale has one number a place."""

    def __init__(self, bug: bool):
        super().__init__(WIDTH)
        self.stray = nn.Parameter(1 + 0.3 * torch.randn(PLACES if bug else 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (self.stray[: x.shape[1]] if len(self.stray) > 1 else self.stray)


@planted("permutation", at="blocks.0.norm1")
def stray_scale_per_place(bug: bool) -> Case:
    return set_model(Block(Attention(), norm=PlaceScale(bug)), Block(Attention()), pool=Mean())


class DeepSets(nn.Module):
    """Each element alone, a pool, a head.  b n 5 -> b 31"""

    def __init__(self, pool: nn.Module):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        self.pool, self.head = pool, nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.pool(self.each(tokens)))


def deep_sets(pool: nn.Module) -> Case:
    return (DeepSets(pool), vectors(), {"roles": Roles(streams=(Stream("tokens"),)), "symmetry": Permutations()})


class ReadInOrder(nn.Module):
    """The mean of a recurrent layer's states, which know who came before; or its one step on the mean."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.cell = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.cell(x if self.bug else x.mean(1, keepdim=True))[0].mean(1)


@planted("permutation", at="pool.cell")
def recurrent_pool_in_a_set_model(bug: bool) -> Case:
    return deep_sets(ReadInOrder(bug))


class FirstElement(nn.Module):
    """The first element speaks for all, as a class token would if there were one."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        return x[:, 0] if self.bug else Mean()(x, real)


@planted("permutation", at="pool")
def first_element_as_class_token(bug: bool) -> Case:
    return set_model(*stack(Attention, False), pool=FirstElement(bug))


class Ranked(nn.Module):
    """Weighs the values of each channel by their rank among the elements; sorted along the wrong axis, by their slot."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.weight = nn.Parameter(torch.randn(PLACES, 1))

    def forward(self, x: Tensor) -> Tensor:
        return (x.sort(-1 if self.bug else 1).values * self.weight[: x.shape[1]]).mean(1)


@planted("permutation", at="pool")
def sorted_along_the_wrong_axis(bug: bool) -> Case:
    return deep_sets(Ranked(bug))


class Nearby(Attention):
    """Sees the elements beside it, though elements of a set have nobody beside them."""

    def sees(self, here: Tensor, there: Tensor) -> Tensor:
        return (here - there).abs() <= (2 if self.bug else 10_000)


@planted("permutation", at="blocks.0.attention")
def window_in_a_set_model(bug: bool) -> Case:
    return set_model(*stack(Nearby, bug, at=0))


class SlotMask(Causal):
    """Causal by slot, although the tokens have places: in another order another past is seen."""

    def sees(self, here: Tensor, there: Tensor) -> Tensor:
        if self.bug:
            return torch.ones(1, here.shape[1], there.shape[2], dtype=torch.bool).tril()
        return there <= here


@planted("reordering", at="blocks.1.attention")
def causal_by_slot_instead_of_place(bug: bool) -> Case:
    return placed_model(*stack(SlotMask, bug))


class SlotDistance(Attention):
    """Scores fall with the distance of slots instead of places."""

    def bias(self, here: Tensor, there: Tensor) -> Tensor:
        if self.bug:
            here = there = torch.arange(here.shape[1]).expand(len(here), -1)
        return -0.3 * (here[:, :, None] - there[:, None, :]).abs()[:, None]


@planted("reordering", at="blocks.0.attention")
def alibi_by_slot_instead_of_place(bug: bool) -> Case:
    return placed_model(*stack(SlotDistance, bug, at=0))


class SlotShift(MLP):
    """Mixes each token with the one in the slot before."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + 0.5 * x.roll(1, 1) if self.bug else 1.5 * x)


@planted("permutation", at="blocks.1.mlp")
def token_shift_in_a_set_model(bug: bool) -> Case:
    case = set_model(Block(Attention()), Block(Attention(), mlp=SlotShift(bug)))
    return case[0], case[1], {**case[2], "roles": Roles(streams=(Stream("tokens"),))}
