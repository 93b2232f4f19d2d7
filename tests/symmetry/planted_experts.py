"""Planted bugs of experts: room for so many tokens and no more, and padding that takes the room."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.nn.moe import Experts
from regard.symmetry.roles import Roles, Stream
from tests.symmetry.planted import Case, planted
from tests.symmetry.planted_parts import WIDTH, Block, Causal, Rotary, Transformer, causal_roles, ids

TOKENS_ONLY = {"roles": Roles(streams=(Stream("tokens"),))}


class Dropping(Experts):
    """Every expert has room for `room` tokens of a batch; those that come later pass none of it.

    It is the usual way to make all groups equally long: what becomes of a token then depends on those before it,
    in its own row and in others.
    """

    def __init__(self, bug: bool, room: int = 4):
        super().__init__(WIDTH, experts=4, chosen=2)
        self.bug, self.room = bug, room

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        whole = super().forward(x, real)
        if not self.bug:
            return whole
        first = self.route(x).chosen[..., 0].flatten()
        place = (first[:, None] == torch.arange(4)).long().cumsum(0).gather(1, first[:, None])[:, 0]
        return whole * (place <= self.room).view(*x.shape[:-1], 1)


@planted("neighbours", at="blocks.1.mlp", also=("causality",))
def experts_that_drop_tokens(bug: bool) -> Case:
    return Transformer(Block(Rotary()), Block(Rotary(), mlp=Dropping(bug))), ids(), TOKENS_ONLY


@planted("padding", at="blocks.0.mlp", also=("neighbours", "cache", "causality"))
def padding_that_takes_the_room_of_experts(bug: bool) -> Case:
    model = Transformer(Block(Causal(), mlp=Dropping(bug, room=2)), Block(Causal()))
    return model, ids(), causal_roles()
