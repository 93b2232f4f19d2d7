"""Planted bugs of time and masks: the future is seen, or a part of the input is never seen."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.symmetry.roles import Roles, Stream
from tests.symmetry.planted import Case, planted
from tests.symmetry.planted_parts import (
    FEATURES,
    MLP,
    WIDTH,
    Block,
    Causal,
    Mean,
    Transformer,
    Waves,
    causal_roles,
    decoder,
    ids,
    merge,
    split,
    stack,
    vectors,
)


class Inverted(Causal):
    def sees(self, here: Tensor, there: Tensor) -> Tensor:
        return there >= here if self.bug else there <= here


@planted("causality", at="blocks.1.attention", also=("cache",))
def inverted_causal_mask(bug: bool) -> Case:
    return decoder(Inverted, bug)


class OffByOne(Causal):
    def sees(self, here: Tensor, there: Tensor) -> Tensor:
        return there <= here + self.bug


@planted("causality", at="blocks.0.attention", also=("cache",))
def causal_mask_off_by_one(bug: bool) -> Case:
    return decoder(OffByOne, bug, at=0)


class Uncovered(Causal):
    def sees(self, here: Tensor, there: Tensor) -> Tensor:
        return torch.ones_like(there <= here) if self.bug else there <= here


@planted("causality", at="blocks.1.attention", also=("cache",))
def causal_mask_forgotten_in_one_layer(bug: bool) -> Case:
    return decoder(Uncovered, bug)


class LateMask(Causal):
    """The mask is laid on the weights after the softmax, so that the future still has its share in the sum."""

    def weights(self, scores: Tensor, allowed: Tensor) -> Tensor:
        if self.bug:
            return scores.softmax(-1) * allowed[:, None]
        return super().weights(scores, allowed)


@planted("causality", at="blocks.1.attention", also=("cache", "padding"))
def mask_after_the_softmax(bug: bool) -> Case:
    return decoder(LateMask, bug)


class ViewedHeads(Causal):
    """Heads are split with a bare view: parts of different tokens end up in one."""

    def forward(
        self, x: Tensor, real: Tensor | None = None, where: Tensor | None = None, past: dict | None = None
    ) -> Tensor:
        q, k, v = (part(x) for part in (self.query, self.key, self.value))
        q, k, v = (self.heads(y) for y in (q, k, v))
        allowed = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return self.out(merge(functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)))

    def heads(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), 4, x.shape[1], -1) if self.bug else split(x)


@planted("causality", at="blocks.1.attention")
def heads_split_by_a_view(bug: bool) -> Case:
    roles = Roles(streams=(Stream("tokens"),), promises={"causality": "holds"})
    return Transformer(*stack(ViewedHeads, bug), place=Waves()), ids(), {"roles": roles}


class LinearAttention(Causal):
    """Kernel attention by running sums. The normaliser must run along, too."""

    def forward(self, x: Tensor, **about: object) -> Tensor:
        q, k, v = (split(part(x)) for part in (self.query, self.key, self.value))
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
        sums = (k[..., :, None] * v[..., None, :]).cumsum(2)  # b h n c e
        norms = k.sum(2, keepdim=True) if self.bug else k.cumsum(2)
        return self.out(merge((q[..., None, :] @ sums)[..., 0, :] / (q * norms).sum(-1, keepdim=True)))


@planted("causality", at="blocks.0.attention")
def linear_attention_normalised_by_the_future(bug: bool) -> Case:
    roles = Roles(streams=(Stream("tokens"),), promises={"causality": "holds"})
    return Transformer(*stack(LinearAttention, bug, at=0)), ids(), {"roles": roles}


class Centred(nn.Module):
    """A norm that takes the mean over channels, or by mistake over time."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.scale = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(1 if self.bug else -1, keepdim=True)) * self.scale


@planted("causality", at="blocks.1.norm1", also=("cache", "padding"))
def mean_over_time_in_a_causal_norm(bug: bool) -> Case:
    blocks = [Block(Causal()), Block(Causal(), norm=Centred(bug))]
    return Transformer(*blocks), ids(), causal_roles()


class ExpertChoice(MLP):
    """Each of two experts takes the tokens that score highest for it, which may be those to come; or each token chooses."""

    def __init__(self, bug: bool):
        super().__init__(bug)
        self.gate, self.other = nn.Linear(WIDTH, 2), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        scores, hidden = self.gate(x), functional.gelu(self.up(x))
        if self.bug:
            middle = scores.median(1, keepdim=True).values
            taken = (scores >= middle).to(x.dtype)
        else:
            taken = scores.softmax(-1)
        return taken[..., :1] * self.down(hidden) + taken[..., 1:] * self.other(hidden)


@planted("causality", at="blocks.0.mlp", also=("cache", "padding"))
def experts_that_choose_among_future_tokens(bug: bool) -> Case:
    return Transformer(Block(Causal(), mlp=ExpertChoice(bug)), Block(Causal())), ids(), causal_roles()


class Reader(nn.Module):
    """A recurrent layer over embedded ids."""

    def __init__(self, bug: bool):
        super().__init__()
        self.embed = nn.Embedding(31, WIDTH)
        self.memory = nn.LSTM(WIDTH, WIDTH // 2 if bug else WIDTH, batch_first=True, bidirectional=bug)
        self.head = nn.Linear(WIDTH, 31)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.memory(self.embed(tokens))[0])


CAUSAL = {"roles": Roles(streams=(Stream("tokens"),), promises={"causality": "holds"})}


@planted("causality", at="memory")
def bidirectional_lstm_in_a_causal_model(bug: bool) -> Case:
    return Reader(bug), ids(), CAUSAL


class TimeConv(nn.Conv1d):
    """A convolution over time.  b n d -> b n d. Padding belongs before the first step, not on both sides."""

    def __init__(self, bug: bool):
        super().__init__(WIDTH, WIDTH, 3)
        self.sides = (1, 1) if bug else (2, 0)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(functional.pad(x.mT, self.sides)).mT


class ChannelNorm(nn.GroupNorm):
    """Over the channels of each step; GroupNorm as it is takes all steps together.  b n d -> b n d"""

    def __init__(self, bug: bool):
        super().__init__(2, WIDTH)
        self.bug = bug

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.mT).mT if self.bug else super().forward(x.flatten(0, 1)).view_as(x)


class Waveform(nn.Module):
    """A causal convolution net over real-valued steps."""

    def __init__(self, two_sided: bool = False, over_time: bool = False):
        super().__init__()
        self.embed = nn.Linear(FEATURES, WIDTH)
        self.convs = nn.ModuleList(TimeConv(two_sided and layer == 1) for layer in range(3))
        self.norms = nn.ModuleList(ChannelNorm(over_time and layer == 1) for layer in range(3))
        self.head = nn.Linear(WIDTH, FEATURES)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + norm(functional.relu(conv(x)))
        return self.head(x)


@planted("causality", at="convs.1")
def causal_convolution_padded_on_both_sides(bug: bool) -> Case:
    return Waveform(two_sided=bug), vectors(), CAUSAL


@planted("causality", at="norms.1")
def group_norm_over_time(bug: bool) -> Case:
    return Waveform(over_time=bug), vectors(), CAUSAL


class Beside(nn.Module):
    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.share = nn.Parameter(torch.rand(WIDTH))

    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        beside = functional.pad(x[:, 1:], (0, 0, 0, 1)) if self.bug else functional.pad(x[:, :-1], (0, 0, 1, 0))
        return x + self.share * beside


@planted("causality", at="place")
def place_that_looks_ahead(bug: bool) -> Case:
    """Each embedding is mixed with the one beside it, the next one instead of the last one: a roll with the wrong sign."""
    return Transformer(*stack(lambda _: Causal(), bug), place=Beside(bug)), ids(), CAUSAL


# ---- tokens that never matter


class WithoutLast(Mean):
    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        return super().forward(x[:, :-1] if self.bug else x)


class Features(nn.Module):
    """Deep Sets: each element alone, a pool, an MLP.  b n 5 -> b 31"""

    def __init__(self, pool: nn.Module, down: nn.Module | None = None):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        self.down, self.pool, self.head = down or nn.Identity(), pool, nn.Linear(WIDTH, 31)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.pool(self.down(self.each(tokens))))


PLAIN_SET = {"roles": Roles(streams=(Stream("tokens"),))}


@planted("reach", at="pool")
def last_token_dropped_before_the_pool(bug: bool) -> Case:
    return Features(WithoutLast(bug)), vectors(), PLAIN_SET


class Latents(nn.Module):
    """Learned queries read the tokens: all of them, or by mistake only the first four.  b n d -> b d"""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.queries, self.key = nn.Parameter(torch.randn(3, WIDTH)), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.queries @ self.key(x).mT / WIDTH**0.5  # b 3 n
        if self.bug:
            scores[..., 4:] = -torch.inf
        return (scores.softmax(-1) @ x).mean(1)


@planted("reach", at="pool")
def attention_over_the_first_four_only(bug: bool) -> Case:
    return Features(Latents(bug)), vectors(), PLAIN_SET


class Chunks(nn.Module):
    """The means of four tokens at a time; the last chunk may be shorter, and must not be left out.  b n d -> b ⌈n/4⌉ d"""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, x: Tensor) -> Tensor:
        whole = x.shape[1] // 4 * 4
        chunks = [*x[:, :whole].split(4, 1), *([] if self.bug or whole == x.shape[1] else [x[:, whole:]])]
        return torch.stack([chunk.mean(1) for chunk in chunks], 1)


@planted("reach", at="down")
def last_chunk_left_out(bug: bool) -> Case:
    return Features(Mean(), down=Chunks(bug)), vectors(), PLAIN_SET


class Windows(nn.Module):
    """The mean of each window of three tokens, of which the first must begin at the first token."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, 1:] if self.bug else x
        return functional.avg_pool1d(x.mT, 3, stride=1).mT


@planted("reach", at="down")
def window_that_never_reaches_the_first_token(bug: bool) -> Case:
    return Features(Mean(), down=Windows(bug)), vectors(), PLAIN_SET


class Scored(nn.Module):
    """Weighted by a learned score: all tokens, or by mistake the first half of them."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.score = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        x = x[:, : x.shape[1] // 2] if self.bug else x
        return (self.score(x).softmax(1) * x).sum(1)


@planted("reach", at="pool")
def pool_over_half_of_the_tokens(bug: bool) -> Case:
    return Features(Scored(bug)), vectors(), PLAIN_SET
