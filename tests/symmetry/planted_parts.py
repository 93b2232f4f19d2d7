"""Small blocks that planted bugs share: attention with a past, a transformer, a pool. Healthy ones; a bug overrides a part."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.symmetry.roles import Roles, Stream

WIDTH, HEADS, VOCAB = 24, 4, 31
ROWS, TOKENS, FEATURES = 3, 11, 5


def split(x: Tensor) -> Tensor:
    """b n (h c) -> b h n c"""
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def merge(x: Tensor) -> Tensor:
    """b h n c -> b n (h c)"""
    return x.transpose(1, 2).flatten(2)


def waves(where: Tensor, width: int = WIDTH) -> Tensor:
    """Sines and cosines of a place.  b n -> b n d"""
    angles = where[..., None] * 0.4 ** torch.arange(width // 2)
    return torch.cat([angles.sin(), angles.cos()], -1)


def rotate(x: Tensor, where: Tensor) -> Tensor:
    """Rotary: pairs of channels turned by an angle that grows with the place.  x: b h n c, where: b n"""
    angles = where[:, None, :, None] * 0.4 ** torch.arange(x.shape[-1] // 2)
    cosine, sine, (left, right) = angles.cos().to(x.dtype), angles.sin().to(x.dtype), x.chunk(2, -1)
    return torch.cat([left * cosine - right * sine, left * sine + right * cosine], -1)


class Attention(nn.Module):
    """softmax over the allowed j of (q_i · k_j / √c + bias_ij), times v_j.  b n d -> b n d

    `where` are places of the tokens, b n. `past` holds keys, values and places of earlier calls, under the layer's own key.
    """

    def __init__(self, bug: bool = False, *, causal: bool = False):
        super().__init__()
        self.bug, self.causal = bug, causal
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(
        self, x: Tensor, real: Tensor | None = None, where: Tensor | None = None, past: dict | None = None
    ) -> Tensor:
        here = torch.arange(x.shape[1]).expand(len(x), -1) if where is None else where
        q, k, v = (split(part(x)) for part in (self.query, self.key, self.value))
        q, k = self.turn(q, here), self.turn(k, here)
        k, v, there = self.remember(k, v, here, past)
        scores = q @ k.mT / math.sqrt(q.shape[-1]) + self.bias(here, there)
        return self.out(merge(self.weights(scores, self.allowed(here, there, real)) @ v))

    def turn(self, x: Tensor, where: Tensor) -> Tensor:
        return x

    def bias(self, here: Tensor, there: Tensor) -> Tensor | float:
        return 0.0

    def allowed(self, here: Tensor, there: Tensor, real: Tensor | None) -> Tensor:
        """bool b n m"""
        seen = self.sees(here[:, :, None], there[:, None, :])
        return seen if real is None else seen & real[:, None, :]

    def sees(self, here: Tensor, there: Tensor) -> Tensor:
        """b n 1, b 1 m -> b n m"""
        return there <= here if self.causal else torch.ones_like(there <= here)

    def weights(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """scores: b h n m, allowed: b n m. A query that may see nothing sees everything alike, and is nobody's key."""
        return scores.masked_fill(~allowed[:, None], torch.finfo(scores.dtype).min).softmax(-1)

    def remember(self, k: Tensor, v: Tensor, where: Tensor, past: dict | None) -> tuple[Tensor, Tensor, Tensor]:
        if past is None:
            return k, v, where
        if self in past:
            before = past[self]
            k, v = torch.cat([before[0], k], 2), torch.cat([before[1], v], 2)
            where = torch.cat([before[2], where], 1)
        past[self] = k, v, where
        return k, v, where


class Rotary(Attention):
    """Attention that sees how far apart two tokens are."""

    def turn(self, x: Tensor, where: Tensor) -> Tensor:
        return rotate(x, where)


class Causal(Rotary):
    """The same, of the past and oneself."""

    def __init__(self, bug: bool = False):
        super().__init__(bug, causal=True)


class MLP(nn.Module):
    """b n d -> b n d, each token alone."""

    def __init__(self, bug: bool = False):
        super().__init__()
        self.bug = bug
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.nn.functional.gelu(self.up(x)))


class Block(nn.Module):
    """g = x + attention(norm1 x);  out = g + mlp(norm2 g)."""

    def __init__(self, attention: nn.Module, mlp: nn.Module | None = None, norm: nn.Module | None = None):
        super().__init__()
        self.norm1, self.attention = norm or nn.LayerNorm(WIDTH), attention
        self.norm2, self.mlp = nn.LayerNorm(WIDTH), mlp or MLP()

    def forward(self, x: Tensor, **about: Any) -> Tensor:
        x = x + self.attention(self.norm1(x), **about)
        return x + self.mlp(self.norm2(x))


class NoPlace(nn.Module):
    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        return x


class Waves(nn.Module):
    """Adds sines of the place."""

    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        return x + waves(where).to(x.dtype)


class Mean(nn.Module):
    """The mean over real tokens.  b n d -> b d"""

    def __init__(self, bug: bool = False):
        super().__init__()
        self.bug = bug

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        kept = x.new_ones(x.shape[:2]) if real is None else real.to(x.dtype)
        return (x * kept[..., None]).sum(1) / kept.sum(1, keepdim=True).clamp(min=1)


class Transformer(nn.Module):
    """Blocks between an embedding and a head: b n -> b n k, or b k with a pool.

    Without places given, those of real tokens are counted from 0, on from where the past ends.
    """

    def __init__(self, *blocks: nn.Module, embed: nn.Module | None = None, place: nn.Module | None = None,
                 pool: nn.Module | None = None):  # fmt: skip
        super().__init__()
        self.embed = embed or nn.Embedding(VOCAB, WIDTH)
        self.place = place or NoPlace()
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.pool, self.head = nn.LayerNorm(WIDTH), pool, nn.Linear(WIDTH, VOCAB)

    def forward(
        self, tokens: Tensor, real: Tensor | None = None, where: Tensor | None = None, past: dict | None = None
    ) -> Tensor:
        if where is None:
            where = self.places(tokens, real) + (0 if past is None else past.get("seen", 0))
        if past is not None:
            past["seen"] = past.get("seen", 0) + tokens.shape[1]
        x = self.place(self.embed(tokens), where)
        for block in self.blocks:
            x = block(x, real=real, where=where, past=past)
        x = self.norm(x)
        return self.head(x if self.pool is None else self.pool(x, real))

    def places(self, tokens: Tensor, real: Tensor | None) -> Tensor:
        if real is None:
            return torch.arange(tokens.shape[1]).expand(len(tokens), -1)
        return (real.long().cumsum(1) - 1).clamp(min=0)


def stack(make: Callable[[bool], nn.Module], bug: bool, at: int = 1, depth: int = 2) -> list[Block]:
    """Blocks whose attention is made by `make`, sick in one of them only."""
    return [Block(make(bug and layer == at)) for layer in range(depth)]


def ids() -> dict[str, Tensor]:
    return {"tokens": torch.randint(VOCAB, (ROWS, TOKENS))}


def vectors() -> dict[str, Tensor]:
    """Tokens that are vectors: the elements of a set."""
    return {"tokens": torch.randn(ROWS, TOKENS, FEATURES)}


def step(model: nn.Module, inputs: dict[str, Tensor], past: dict | None) -> tuple[Tensor, dict]:
    """One call of a model that keeps its past in a dict."""
    past = {} if past is None else past
    return model(**inputs, past=past), past


def causal_roles(**more: Any) -> dict[str, Any]:
    """A decoder over `tokens`: padded by a mask, decoded with a past."""
    stream = Stream("tokens", mask="real", **more)
    return {"roles": Roles(streams=(stream,), step=step, promises={"causality": "holds"})}


def decoder(
    make: Callable[[bool], nn.Module], bug: bool, at: int = 1
) -> tuple[nn.Module, dict[str, Tensor], dict[str, Any]]:
    """A language model of two blocks with all that it promises."""
    return Transformer(*stack(make, bug, at)), ids(), causal_roles()


def set_roles() -> Roles:
    return Roles(streams=(Stream("tokens", mask="real"),))
