"""Attention written out by hand in many ways, each with the weights it should be found to have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

HEADS, WIDTH, EACH = 4, 16, 4


def split(x: Tensor) -> Tensor:
    """b n (h c) -> b h n c"""
    return x.reshape(x.size(0), x.size(1), 4, 4).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """b h n c -> b n (h c)"""
    return x.transpose(1, 2).reshape(x.size(0), x.size(2), 16)


class Written(nn.Module):
    """softmax(q kᵀ / 2) v in the plainest way. Subclasses write it otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.mix = (nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16))

    def change(self, weights: Tensor) -> Tensor:
        return weights

    def attended(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = torch.softmax(q @ k.transpose(-1, -2) / 2, -1)
        return self.change(weights) @ v

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(joined(self.attended(split(self.q(x)), split(self.k(x)), split(self.v(x)))))

    @torch.jit.unused
    def plain(self, x: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What the weights and the values are.   b h n m, b h m c"""
        memory = x if memory is None else memory
        weights = (split(self.q(x)) @ split(self.k(memory)).mT / 2).softmax(-1)
        return weights, split(self.v(memory))


class Other(Written):
    """Another way to write it: `way` takes the module, x and what else is given."""

    def __init__(self, way: Callable[..., Tensor]) -> None:
        super().__init__()
        self.way = way
        self.score, self.seeds = nn.Linear(16, 1), nn.Parameter(torch.randn(3, 16))

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.way(self, *inputs)


@dataclass(frozen=True)
class Case:
    way: Callable[..., Tensor]
    weights: Callable[..., Tensor] = lambda model, *inputs: model.plain(*inputs)[0]
    memory: int = 0  # how long is a memory that is given, too?
    kind: str = "self"
    note: str = ""
    half: bool = False

    def model(self) -> Other:
        return Other(self.way).bfloat16() if self.half else Other(self.way)

    def inputs(self) -> list[Tensor]:
        draw = torch.Generator().manual_seed(3)
        shapes = [(2, 6, 16), (2, self.memory, 16)] if self.memory else [(2, 6, 16)]
        found = [torch.randn(*shape, generator=draw) for shape in shapes]
        return [x.bfloat16() for x in found] if self.half else found


def parts(m: Any, x: Tensor, y: Tensor | None = None) -> tuple[Tensor, ...]:
    """q, k and v as b n h c."""
    y = x if y is None else y
    return tuple(t.unflatten(-1, (HEADS, EACH)) for t in (m.q(x), m.k(y), m.v(y)))


def einsum(scores: str, out: str) -> Callable[..., Tensor]:
    def way(m: Any, x: Tensor) -> Tensor:
        q, k, v = parts(m, x)
        weights = (torch.einsum(scores, q, k) / 2).softmax(-1)
        return m.mix(torch.einsum(out, weights, v).reshape(x.shape))

    return way


def keys_first(m: Any, x: Tensor) -> Tensor:
    """The softmax runs over an axis that is not the last."""
    q, k, v = parts(m, x)
    weights = (torch.einsum("bjhc,bihc->bhji", k, q) / 2).softmax(-2)
    return m.mix(torch.einsum("bhji,bjhc->bihc", weights, v).reshape(x.shape))


def heads_with_the_batch(m: Any, x: Tensor) -> Tensor:
    q, k, v = (split(t).flatten(0, 1) for t in (m.q(x), m.k(x), m.v(x)))
    out = (torch.baddbmm(torch.zeros(1), q, k.mT, alpha=0.5)).softmax(-1) @ v
    return m.mix(joined(out.unflatten(0, (-1, HEADS))))


def batch_within_the_heads(m: Any, x: Tensor, memory: Tensor) -> Tensor:
    """As the Set Transformer does it."""
    q, k, v = (torch.cat(t.split(EACH, 2), 0) for t in (m.q(x), m.k(memory), m.v(memory)))
    out = torch.softmax(q.bmm(k.transpose(1, 2)) / 2, 2).bmm(v)
    return m.mix(torch.cat(out.split(x.size(0), 0), 2))


def values_on_the_left(m: Any, x: Tensor) -> Tensor:
    q, k, v = (split(t) for t in (m.q(x), m.k(x), m.v(x)))
    return m.mix(joined((v.mT @ (q @ k.mT / 2).softmax(-1).mT).mT))


def groups(m: Any, x: Tensor) -> Tensor:
    """Two heads of keys and values, each shared by two of queries, without copying them."""
    q = m.q(x).unflatten(-1, (2, 2, EACH)).permute(0, 2, 3, 1, 4)  # b g r n c
    k, v = (t.unflatten(-1, (HEADS, EACH))[:, :, ::2].transpose(1, 2) for t in (m.k(x), m.v(x)))  # b g m c
    weights = (torch.einsum("bgric,bgjc->bgrij", q, k) / 2).softmax(-1)
    return m.mix(torch.einsum("bgrij,bgjc->bigrc", weights, v).reshape(x.shape))


def weights_of_groups(m: Any, x: Tensor) -> Tensor:
    q, k = split(m.q(x)), split(m.k(x))[:, ::2].repeat_interleave(2, 1)
    return (q @ k.mT / 2).softmax(-1)


def biased_and_masked(m: Any, x: Tensor) -> Tensor:
    q, k, v = (split(t) for t in (m.q(x), m.k(x), m.v(x)))
    scores = q @ k.mT
    scores /= 2
    scores = 5 * torch.tanh(scores / 5) + bias(x)
    scores.masked_fill_(torch.ones(6, 6, dtype=torch.bool).triu(1), -torch.inf)
    return m.mix(joined(scores.softmax(-1) @ v))


def bias(x: Tensor) -> Tensor:
    return torch.linspace(-1, 1, 36).reshape(6, 6).to(x.dtype)


def biased_weights(m: Any, x: Tensor) -> Tensor:
    scores = 5 * torch.tanh(split(m.q(x)) @ split(m.k(x)).mT / 10) + bias(x)
    return scores.masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1), -torch.inf).softmax(-1)


def softmax_in_float32(m: Any, x: Tensor) -> Tensor:
    q, k, v = (split(t) for t in (m.q(x), m.k(x), m.v(x)))
    return m.mix(joined((q @ k.mT / 2).softmax(-1, dtype=torch.float32).to(v.dtype) @ v))


def weights_in_float32(m: Any, x: Tensor) -> Tensor:
    return (split(m.q(x)) @ split(m.k(x)).mT / 2).softmax(-1, dtype=torch.float32)


def sink(m: Any, x: Tensor) -> Tensor:
    """One more column that has no value."""
    q, k, v = (split(t) for t in (m.q(x), m.k(x), m.v(x)))
    scores = torch.cat([q @ k.mT / 2, torch.ones(2, HEADS, 6, 1)], -1)
    return m.mix(joined(scores.softmax(-1)[..., :-1] @ v))


def sink_weights(m: Any, x: Tensor) -> Tensor:
    scores = split(m.q(x)) @ split(m.k(x)).mT / 2
    return torch.cat([scores, torch.ones(2, HEADS, 6, 1)], -1).softmax(-1)[..., :-1]


def additive(m: Any, x: Tensor, memory: Tensor) -> Tensor:
    """Bahdanau's: no product of queries and keys."""
    scores = m.score(torch.tanh(m.q(x)[:, :, None] + m.k(memory)[:, None])).squeeze(-1)
    return scores.softmax(-1).bmm(memory)


def additive_weights(m: Any, x: Tensor, memory: Tensor) -> Tensor:
    return m.score(torch.tanh(m.q(x)[:, :, None] + m.k(memory)[:, None])).squeeze(-1).softmax(-1)[:, None]


def pooled(m: Any, x: Tensor) -> Tensor:
    return (m.score(x).squeeze(-1).softmax(-1)[..., None] * x).sum(1)


def pooled_weights(m: Any, x: Tensor) -> Tensor:
    return m.score(x).squeeze(-1).softmax(-1)[:, None, None]


def one_sequence(m: Any, x: Tensor) -> Tensor:
    """Without batch and heads."""
    x = x[0]
    return (m.q(x) @ m.k(x).T / 4).softmax(-1) @ m.v(x)


HOWEVER = {"weights": lambda m, x: (m.q(x[:1]) @ m.k(x[:1]).mT / 4).softmax(-1)[:, None]}
PLAIN = {"plain": lambda m, x: m.mix(joined((split(m.q(x)) @ split(m.k(x)).mT / 2).softmax(-1) @ split(m.v(x))))}
SEEDS = {
    "way": lambda m, x: (m.seeds @ m.k(x).mT).softmax(-1) @ m.v(x),
    "weights": lambda m, x: (m.seeds @ m.k(x).mT).softmax(-1)[:, None],
}

WRITTEN: dict[str, Case] = {
    "plain": Case(PLAIN["plain"]),
    "einsum": Case(einsum("bihc,bjhc->bhij", "bhij,bjhc->bihc")),
    "einsum, heads between": Case(einsum("bihc,bjhc->bihj", "bihj,bjhc->bihc")),
    "einsum, heads first": Case(einsum("bihc,bjhc->hbij", "hbij,bjhc->bihc")),
    "softmax over another axis": Case(keys_first),
    "heads with the batch": Case(heads_with_the_batch),
    "batch within the heads": Case(batch_within_the_heads, memory=6, kind="cross"),
    "values on the left": Case(values_on_the_left),
    "groups of heads": Case(groups, weights=weights_of_groups),
    "bias, softcap and mask": Case(biased_and_masked, weights=biased_weights),
    "softmax in float32": Case(softmax_in_float32, weights=weights_in_float32, half=True),
    "sink": Case(sink, weights=sink_weights, note="the softmax ran over more columns"),
    "additive": Case(additive, weights=additive_weights, memory=5, kind="cross", note="heads cannot be told"),
    "pooled by hand": Case(pooled, weights=pooled_weights, kind="cross", note="heads cannot be told"),
    "learned queries": Case(SEEDS["way"], weights=SEEDS["weights"], kind="cross"),
    "one sequence": Case(one_sequence, weights=HOWEVER["weights"]),
}
