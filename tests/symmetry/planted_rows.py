"""Planted bugs of the batch and of repetition: a row depends on its neighbours, a call on the calls before, or on the dtype."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.symmetry.groups import Permutations
from regard.symmetry.roles import Roles, Stream
from tests.symmetry.planted import Case, planted
from tests.symmetry.planted_parts import (
    FEATURES,
    MLP,
    TOKENS,
    VOCAB,
    WIDTH,
    Attention,
    Block,
    Mean,
    Rotary,
    Transformer,
    Waves,
    ids,
    merge,
    set_roles,
    split,
    stack,
    vectors,
    waves,
)

SET = {"roles": set_roles()}
TOKENS_ONLY = {"roles": Roles(streams=(Stream("tokens"),))}


class LongestRow(Mean):
    """Divides by the longest row of the batch."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        if not self.bug or real is None:
            return super().forward(x, real)
        return (x * real[..., None]).sum(1) / real.sum(1).max()


@planted("padding", at="pool", also=("neighbours",))
def pool_divides_by_the_longest_row(bug: bool) -> Case:
    return Transformer(*stack(Rotary, False), pool=LongestRow(bug)), ids(), SET


class BatchMean(nn.Module):
    """Takes a mean away: of the channels, or by mistake of the batch."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0 if self.bug else -1, keepdim=True)


@planted("neighbours", at="blocks.0.norm1")
def mean_over_the_batch(bug: bool) -> Case:
    return Transformer(Block(Rotary(), norm=BatchMean(bug)), Block(Rotary())), ids(), TOKENS_ONLY


class WrongAxis(Rotary):
    def weights(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.softmax(0 if self.bug else -1)


@planted("neighbours", at="blocks.1.attention")
def softmax_over_the_batch(bug: bool) -> Case:
    return Transformer(*stack(WrongAxis, bug)), ids(), TOKENS_ONLY


class MixedRows(Attention):
    """Heads put back in the wrong order of axes: the shape is right, the rows are not."""

    def forward(self, x: Tensor, **about: object) -> Tensor:
        q, k, v = (split(part(x)) for part in (self.query, self.key, self.value))
        y = functional.scaled_dot_product_attention(q, k, v)  # b h n c
        return self.out(y.permute(2, 0, 1, 3).reshape(x.shape) if self.bug else merge(y))


@planted("neighbours", at="blocks.0.attention", also=("permutation",))
def reshape_that_mixes_rows(bug: bool) -> Case:
    model = Transformer(*stack(MixedRows, bug, at=0), embed=nn.Linear(FEATURES, WIDTH))
    return model, vectors(), {**TOKENS_ONLY, "symmetry": Permutations()}


class ByLength(nn.Module):
    """Sorts rows by length, as packed recurrent layers want it, and must put them back."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.weight = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        order = torch.arange(len(x)) if real is None else real.sum(1).argsort(descending=True, stable=True)
        y = Mean()(self.weight(x[order]).tanh(), None if real is None else real[order])
        return y if self.bug else y[order.argsort()]


@planted("padding", at="pool", also=("neighbours",))
def rows_sorted_by_length_and_not_put_back(bug: bool) -> Case:
    return Transformer(*stack(Rotary, False), pool=ByLength(bug)), ids(), SET


class Segment(nn.Module):
    """Adds a type to each token: which half it is in, or by mistake which row."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.table = nn.Embedding(8, WIDTH)

    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        which = torch.arange(len(x))[:, None].expand(where.shape) % 8 if self.bug else where % 2
        return x + self.table(which)


@planted("neighbours", at="place")
def segment_by_the_number_of_the_row(bug: bool) -> Case:
    return Transformer(*stack(Rotary, False), place=Segment(bug)), ids(), TOKENS_ONLY


class Experts(MLP):
    """Two experts with room for so many tokens of the whole batch; who comes late is not served."""

    def __init__(self, bug: bool):
        super().__init__(bug)
        self.gate, self.other = nn.Linear(WIDTH, 2), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        hidden, share = functional.gelu(self.up(x)), self.gate(x).softmax(-1)
        if self.bug:
            served = (share > 0.5).flatten(0, 1).long().cumsum(0) <= TOKENS // 2
            share = share * served.view_as(share)
        return share[..., :1] * self.down(hidden) + share[..., 1:] * self.other(hidden)


@planted("neighbours", at="blocks.1.mlp")
def experts_with_room_for_a_part_of_the_batch(bug: bool) -> Case:
    return Transformer(Block(Rotary()), Block(Rotary(), mlp=Experts(bug))), ids(), TOKENS_ONLY


class Quantised(nn.Module):
    """Rounds to whole steps of the largest value: of each token, or by mistake of the batch."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, x: Tensor) -> Tensor:
        largest = x.abs().amax() if self.bug else x.abs().amax(-1, keepdim=True)
        return x / largest


@planted("neighbours", at="blocks.1.norm1")
def scaled_by_the_largest_of_the_batch(bug: bool) -> Case:
    return Transformer(Block(Rotary()), Block(Rotary(), norm=Quantised(bug))), ids(), TOKENS_ONLY


class TrainedOnBatches(nn.Module):
    """Deep Sets with a norm between its layers: of each token, or of the batch."""

    def __init__(self, bug: bool):
        super().__init__()
        self.each = nn.Linear(FEATURES, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH) if bug else nn.LayerNorm(WIDTH)
        self.pool, self.head = Mean(), nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens: Tensor, real: Tensor | None = None) -> Tensor:
        x = self.each(tokens)
        x = self.norm(x.mT).mT if isinstance(self.norm, nn.BatchNorm1d) else self.norm(x)
        return self.head(self.pool(functional.gelu(x), real))


@planted("padding in training", at="norm", also=("neighbours",))
def batch_norm_over_the_padding(bug: bool) -> Case:
    roles = replace(SET["roles"], promises={**SET["roles"].promises, "padding in training": "holds"})
    return TrainedOnBatches(bug), vectors(), {**SET, "roles": roles}


# ---- the same again


class LeftOn(MLP):
    """functional.dropout drops unless told that training is over."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(functional.dropout(x, 0.2, training=self.bug or self.training))


@planted("determinism", at="blocks.1.mlp", also=("neighbours", "precision"))
def dropout_left_on(bug: bool) -> Case:
    return Transformer(Block(Rotary()), Block(Rotary(), mlp=LeftOn(bug))), ids(), TOKENS_ONLY


class Counting(Waves):
    """Goes on counting places from call to call."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug, self.calls = bug, 0

    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x, where + (self.calls if self.bug else 1))


@planted("determinism", at="place", also=("neighbours", "precision"))
def counter_kept_between_calls(bug: bool) -> Case:
    return Transformer(*stack(Attention, False), place=Counting(bug)), ids(), TOKENS_ONLY


class RandomFeatures(Attention):
    """Softmax attention by random features, drawn once, or by mistake at every call."""

    def __init__(self, bug: bool):
        super().__init__(bug)
        self.register_buffer("directions", torch.randn(6, 16))

    def forward(self, x: Tensor, **about: object) -> Tensor:
        directions = torch.randn(6, 16) if self.bug else self.directions
        q, k, v = (split(part(x)) for part in (self.query, self.key, self.value))
        q, k = ((y @ directions - y.square().sum(-1, keepdim=True) / 2).exp() for y in (q, k))
        return self.out(merge(q @ (k.mT @ v) / (q @ k.sum(2)[..., None])))


@planted("determinism", at="blocks.0.attention", also=("neighbours", "precision"))
def random_features_drawn_at_every_call(bug: bool) -> Case:
    return Transformer(*stack(RandomFeatures, bug, at=0)), ids(), TOKENS_ONLY


class Running(nn.Module):
    """Takes a running mean away, which must stand still in eval mode."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.register_buffer("mean", torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        if self.training or self.bug:
            self.mean = 0.9 * self.mean + 0.1 * x.mean((0, 1))
        return x - self.mean


@planted("determinism", at="blocks.0.norm1", also=("neighbours",))
def running_mean_that_runs_on_in_eval(bug: bool) -> Case:
    return Transformer(Block(Rotary(), norm=Running(bug)), Block(Rotary())), ids(), TOKENS_ONLY


# ---- the same in bfloat16


class WidePlace(nn.Module):
    """Sines of places, whose angles must be computed in float32 whatever the model's dtype is."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        where = (100 + where).to(x.dtype if self.bug else torch.float32)
        return x + waves(7.3 * where).to(x.dtype)


@planted("precision", at="place")
def places_in_the_dtype_of_the_model(bug: bool) -> Case:
    return Transformer(*stack(Attention, False), place=WidePlace(bug)), ids(), TOKENS_ONLY


class Spread(nn.Module):
    """A norm by the spread around the mean, or by mean square minus squared mean, which cancel."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, x: Tensor) -> Tensor:
        x = x + 30.0  # activations are often far from 0
        mean = x.mean(-1, keepdim=True)
        spread = (
            (x * x).mean(-1, keepdim=True) - mean * mean if self.bug else (x - mean).square().mean(-1, keepdim=True)
        )
        return (x - mean) / (spread.clamp(min=0) + 1e-2).sqrt()


@planted("precision", at="blocks.0.norm1")
def variance_by_cancellation(bug: bool) -> Case:
    return Transformer(Block(Rotary(), norm=Spread(bug)), Block(Rotary())), ids(), TOKENS_ONLY
