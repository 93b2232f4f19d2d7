"""Planted bugs of padding: an answer depends on what stands in the padding, or on how much of it there is."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.symmetry.roles import Roles, Stream
from tests.symmetry.planted import Case, planted
from tests.symmetry.planted_parts import (
    FEATURES,
    ROWS,
    VOCAB,
    WIDTH,
    Attention,
    Block,
    Causal,
    Mean,
    Rotary,
    Transformer,
    Waves,
    causal_roles,
    ids,
    merge,
    set_roles,
    split,
    stack,
    vectors,
)

SET = {"roles": set_roles()}


def classifier(pool: nn.Module) -> Case:
    return Transformer(*stack(Rotary, False), pool=pool), ids(), SET


class LeakyMean(Mean):
    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        return x.mean(1) if self.bug else super().forward(x, real)


@planted("padding", at="pool")
def mean_over_the_padding(bug: bool) -> Case:
    return classifier(LeakyMean(bug))


class LongDivision(Mean):
    """Sums what is real, and divides by all."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        if self.bug and real is not None:
            return (x * real[..., None]).sum(1) / x.shape[1]
        return super().forward(x, real)


@planted("padding", at="pool")
def pool_divides_by_the_padded_length(bug: bool) -> Case:
    return classifier(LongDivision(bug))


class Largest(Mean):
    """Padding is set to 0, which is more than a negative maximum; it must be −∞."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        real = torch.ones_like(x[..., 0], dtype=torch.bool) if real is None else real
        return x.masked_fill(~real[..., None], 0.0 if self.bug else -torch.inf).amax(1)


@planted("padding", at="pool")
def maximum_over_padded_zeros(bug: bool) -> Case:
    return classifier(Largest(bug))


class LastReal(Mean):
    """What the last token says: the last real one, or by mistake the last slot."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        if self.bug or real is None:
            return x[:, -1]
        last = (real * torch.arange(x.shape[1])).amax(1)
        return x[torch.arange(len(x)), last]


@planted("padding", at="pool")
def last_slot_instead_of_last_token(bug: bool) -> Case:
    return classifier(LastReal(bug))


class ScoredPool(nn.Module):
    """Weighted by a learned score. Multiplied by the mask, the score of padding is 0, which is not nothing."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.score = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        scores = self.score(x)[..., 0]
        if real is not None:
            scores = scores * real if self.bug else scores.masked_fill(~real, -torch.inf)
        return (scores.softmax(1)[..., None] * x).sum(1)


@planted("padding", at="pool")
def scores_multiplied_by_the_mask(bug: bool) -> Case:
    return classifier(ScoredPool(bug))


class Complement(Mean):
    """Real and padded are mistaken for each other."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        return super().forward(x, ~real if self.bug and real is not None else real)


@planted("padding", at="pool")
def pool_with_an_inverted_mask(bug: bool) -> Case:
    return Transformer(*stack(Rotary, False), pool=Complement(bug)), ids(), SET


class Unmasked(Rotary):
    def allowed(self, here: Tensor, there: Tensor, real: Tensor | None) -> Tensor:
        return super().allowed(here, there, None if self.bug else real)


@planted("padding", at="blocks.1.attention")
def mask_forgotten_in_one_layer(bug: bool) -> Case:
    return Transformer(*stack(Unmasked, bug)), ids(), SET


class Inverted(Rotary):
    def allowed(self, here: Tensor, there: Tensor, real: Tensor | None) -> Tensor:
        return super().allowed(here, there, ~real if self.bug and real is not None else real)


@planted("padding", at="blocks.0.attention")
def inverted_padding_mask(bug: bool) -> Case:
    return Transformer(*stack(Inverted, bug, at=0)), ids(), SET


class Faint(Rotary):
    """The mask takes too little away from a score for the weight to vanish."""

    def weights(self, scores: Tensor, allowed: Tensor) -> Tensor:
        if self.bug:
            return (scores - 5.0 * ~allowed[:, None]).softmax(-1)
        return super().weights(scores, allowed)


@planted("padding", at="blocks.1.attention")
def mask_that_only_dampens(bug: bool) -> Case:
    return Transformer(*stack(Faint, bug)), ids(), SET


class Hollow(Causal):
    """A query that may see nothing becomes NaN, and 0 · NaN is NaN for everyone who looks at it in the next layer."""

    def sees(self, here: Tensor, there: Tensor) -> Tensor:
        n, m = here.shape[1], there.shape[2]
        # by slot: padding at the left comes before everything
        return torch.ones(1, n, m, dtype=torch.bool).tril(m - n)

    def weights(self, scores: Tensor, allowed: Tensor) -> Tensor:
        if self.bug:
            return scores.masked_fill(~allowed[:, None], -torch.inf).softmax(-1)
        return super().weights(scores, allowed)


@planted("padding", at="blocks.1.attention")
def nan_for_an_empty_row(bug: bool) -> Case:
    blocks = [Block(Hollow(bug)), Block(Hollow(bug))]
    return Transformer(*blocks), ids(), causal_roles(sides=("left",))


class TimeConv(nn.Conv1d):
    """A convolution over time, which mixes the last real steps with what comes after them unless that is 0."""

    def __init__(self, bug: bool):
        super().__init__(WIDTH, WIDTH, 3, padding=1)
        self.bug = bug

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        return super().forward((x if self.bug else x * real[..., None]).mT).mT


class TokenNorm(nn.Module):
    """Instance norm: mean and spread over the tokens, which must be the real ones."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.scale = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        kept = (torch.ones_like(real) if self.bug else real)[..., None].to(x.dtype)
        count = kept.sum(1, keepdim=True)
        x = x - (x * kept).sum(1, keepdim=True) / count
        return self.scale * x / ((x * x * kept).sum(1, keepdim=True) / count + 1e-5).sqrt()


class Tagger(nn.Module):
    """Convolutions over time with norms, logits for each token."""

    def __init__(self, conv: bool = False, norm: bool = False):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.convs = nn.ModuleList(TimeConv(conv and layer == 1) for layer in range(2))
        self.norms = nn.ModuleList(TokenNorm(norm and layer == 0) for layer in range(2))
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens: Tensor, real: Tensor | None = None) -> Tensor:
        x = self.embed(tokens)
        real = torch.ones_like(tokens, dtype=torch.bool) if real is None else real
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + norm(functional.relu(conv(x, real)), real)
        return self.head(x)


@planted("padding", at="convs.1")
def convolution_over_the_padding(bug: bool) -> Case:
    return Tagger(conv=bug), ids(), SET


@planted("padding", at="norms.0")
def norm_over_the_token_axis(bug: bool) -> Case:
    return Tagger(norm=bug), ids(), SET


class Backwards(nn.Module):
    """Reads from the end: each row must be turned around within its own length."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.gate, self.new = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        gate, new = self.gate(x).sigmoid(), self.new(x).tanh()
        keep = torch.ones_like(real) if self.bug else real
        state, seen = torch.zeros_like(x[:, 0]), []
        for t in reversed(range(x.shape[1])):
            state = torch.where(keep[:, t, None], gate[:, t] * state + (1 - gate[:, t]) * new[:, t], state)
            seen.append(state)
        return torch.stack(seen[::-1], 1)


class Reader(nn.Module):
    def __init__(self, bug: bool):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.backwards, self.head = Backwards(bug), nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens: Tensor, real: Tensor | None = None) -> Tensor:
        x = self.embed(tokens)
        return self.head(self.backwards(x, torch.ones_like(tokens, dtype=torch.bool) if real is None else real))


@planted("padding", at="backwards")
def reading_backwards_through_the_padding(bug: bool) -> Case:
    return Reader(bug), ids(), SET


class SlotPlace(Waves):
    """Adds the place of a token, or by mistake its slot, which padding at the left moves."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        return super().forward(x, torch.arange(x.shape[1]).expand(len(x), -1) if self.bug else where)


@planted("padding", at="place", also=("cache",))
def places_counted_through_left_padding(bug: bool) -> Case:
    blocks = stack(lambda _: Attention(causal=True), bug)
    return Transformer(*blocks, place=SlotPlace(bug)), ids(), causal_roles(sides=("left",))


class Relative(Waves):
    """Places as a share of the length: of the whole batch's, by mistake."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        length = x.shape[1] if self.bug else where.amax(1, keepdim=True) + 1
        return super().forward(x, 8.0 * where / length)


@planted("padding", at="place")
def places_as_a_share_of_the_padded_length(bug: bool) -> Case:
    return Transformer(*stack(Attention, bug), place=Relative(bug), pool=Mean()), ids(), SET


class Cross(Attention):
    """Queries from the target, keys and values from the source."""

    def forward(self, x: Tensor, source: Tensor, source_real: Tensor | None) -> Tensor:
        q, k, v = split(self.query(x)), split(self.key(source)), split(self.value(source))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if source_real is not None and not self.bug:
            scores = scores.masked_fill(~source_real[:, None, None], torch.finfo(scores.dtype).min)
        return self.out(merge(scores.softmax(-1) @ v))


class Translator(nn.Module):
    def __init__(self, bug: bool):
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCAB, WIDTH), Waves()
        self.encoder, self.decoder = Block(Attention()), Block(Attention(causal=True))
        self.cross, self.head = Cross(bug), nn.Linear(WIDTH, VOCAB)

    def forward(
        self, tokens: Tensor, source: Tensor, real: Tensor | None = None, source_real: Tensor | None = None
    ) -> Tensor:
        y = self.place(self.embed(source), torch.arange(source.shape[1]).expand(len(source), -1))
        x = self.place(self.embed(tokens), torch.arange(tokens.shape[1]).expand(len(tokens), -1))
        y, x = self.encoder(y, real=source_real), self.decoder(x, real=real)
        return self.head(x + self.cross(x, y, source_real))


@planted("padding", at="cross")
def source_padding_ignored_by_cross_attention(bug: bool) -> Case:
    streams = (Stream("tokens", mask="real"), Stream("source", mask="source_real"))
    inputs = {**ids(), "source": torch.randint(VOCAB, (ROWS, 14))}
    return Translator(bug), inputs, {"roles": Roles(streams=streams, promises={"causality": "holds"})}


class CountedFeatures(nn.Module):
    """Says how many elements there are: how many real ones, or how many slots."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug
        self.weight = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        slots = torch.full((len(x),), x.shape[1])
        count = slots if self.bug or real is None else real.sum(1)
        return Mean()(x, real) + self.weight * count[:, None] / 8


@planted("padding", at="pool")
def count_of_slots_instead_of_elements(bug: bool) -> Case:
    model = Transformer(*stack(Attention, False), embed=nn.Linear(FEATURES, WIDTH), pool=CountedFeatures(bug))
    return model, vectors(), SET
