"""Odd ways to write attention, as they are found in public code. Each tells the weights that multiplied its values,
and whether a recording can prove them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

H, C, N = 4, 4, 6
D = H * C
# what is computed, and the true weights: of each attention, or a function to ask afterwards
Told = tuple[Tensor, Any]


class Odd(nn.Module):
    """Projections and a few parameters. `way` returns what is computed and the true weights."""

    def __init__(self, way: Callable[..., Told]) -> None:
        super().__init__()
        self.q, self.k, self.v, self.mix, self.r = (nn.Linear(D, D) for _ in range(5))
        self.talk = nn.Parameter(torch.eye(H) + 0.3 * torch.randn(H, H))
        self.conv = nn.Conv2d(H, H, 1, bias=False)
        self.near = nn.Conv1d(D, D, 3, padding=1)
        self.score = nn.Linear(D, 1)
        self.null = nn.Parameter(torch.randn(2, H, 1, C))
        self.rel = nn.Parameter(torch.randn(2 * N - 1, C))
        self.table = nn.Parameter(torch.randn(2 * N - 1, H))
        self.u, self.w = nn.Parameter(torch.randn(H, 1, C)), nn.Parameter(torch.randn(H, 1, C))
        self.gate = nn.Parameter(torch.rand(H, 1, 1))
        self.norm = nn.LayerNorm(H)
        self.way = way
        self.truth: Any = None

    def forward(self, x: Tensor) -> Tensor:
        out, truth = self.way(self, x)
        self.truth = truth.detach().clone() if isinstance(truth, Tensor) else truth
        return out


def split(x: Tensor) -> Tensor:
    return x.unflatten(-1, (-1, C)).transpose(1, 2)


def qkv(m: Any, x: Tensor) -> list[Tensor]:
    return [split(m.q(x)), split(m.k(x)), split(m.v(x))]


def scores(m: Any, x: Tensor) -> Told:
    q, k, v = qkv(m, x)
    return q @ k.mT / math.sqrt(C), v


def of_scores(weights: Callable[[Tensor], Tensor]) -> Callable[..., Told]:
    """Another way from scores to weights."""

    def way(m: Any, x: Tensor) -> Told:
        a, v = scores(m, x)
        w = weights(a)
        return w @ v, w

    return way


def after(change: Callable[[Any, Tensor], Tensor]) -> Callable[..., Told]:
    """A softmax, and something that happens to its weights."""

    def way(m: Any, x: Tensor) -> Told:
        a, v = scores(m, x)
        w = change(m, a.softmax(-1))
        return w @ v, w

    return way


# ── a softmax by other names


def exp_in_place(a: Tensor) -> Tensor:
    a = a - a.amax(-1, keepdim=True)
    a.exp_()
    a.div_(a.sum(-1, keepdim=True))
    return a


def masked_exp(a: Tensor) -> Tensor:
    e = torch.exp(a) * torch.ones(N, N).tril()
    return e / e.sum(-1, keepdim=True)


def sparsemax(a: Tensor) -> Tensor:
    z, _ = a.sort(-1, descending=True)
    count = torch.arange(1, a.shape[-1] + 1)
    inside = 1 + count * z > z.cumsum(-1)
    most = inside.sum(-1, keepdim=True)
    tau = (z.cumsum(-1).gather(-1, most - 1) - 1) / most
    return (a - tau).clamp(min=0)


def sinkhorn(a: Tensor) -> Tensor:
    for _ in range(3):
        a = a - a.logsumexp(-2, keepdim=True)
        a = a - a.logsumexp(-1, keepdim=True)
    return a.exp()


def keys_first_by_hand(m: Any, x: Tensor) -> Told:
    q, k, v = qkv(m, x)
    e = (k @ q.mT / 2).exp()
    w = e / e.sum(-2, keepdim=True)
    return (v.mT @ w).mT, w.mT


def pooled_by_hand(m: Any, x: Tensor) -> Told:
    """Hierarchical attention: exp over the sum, times values, summed."""
    e = torch.exp(m.score(torch.tanh(m.r(x))))
    w = e / e.sum(1, keepdim=True)
    return (w * x).sum(1), w.mT[:, None]


def half_by_hand(m: Any, x: Tensor) -> Told:
    a, v = scores(m, x)
    w = F.log_softmax(a.float(), -1).exp().to(x.dtype)
    return w @ v, w


# ── layouts


def tokens_first(m: Any, x: Tensor) -> Told:
    """n b h c, as fairseq: heads with the batch."""
    y = x.transpose(0, 1)
    n, b, _ = y.shape
    q, k, v = (p(y).contiguous().view(n, b * H, C).transpose(0, 1) for p in (m.q, m.k, m.v))
    w = F.softmax(torch.bmm(q, k.transpose(1, 2)) * C**-0.5, dim=-1, dtype=torch.float32).type_as(q)
    out = torch.bmm(w, v).transpose(0, 1).contiguous().view(n, b, D)
    return m.mix(out), w.view(b, H, n, n)


def letters(first: str, second: str, truth: str) -> Callable[..., Told]:
    def way(m: Any, x: Tensor) -> Told:
        q, k, v = (t.unflatten(-1, (H, C)) for t in (m.q(x), m.k(x), m.v(x)))
        a = torch.einsum(first, q, k) / 2
        w = a.softmax(-1)
        return torch.einsum(second, w, v), torch.einsum(truth, w)

    return way


def multi_query(m: Any, x: Tensor) -> Told:
    q, k, v = split(m.q(x)), m.k(x)[..., :C], m.v(x)[..., :C]
    w = torch.einsum("bhid,bjd->bhij", q, k).softmax(-1)
    return torch.einsum("bhij,bjd->bhid", w, v), w


def grouped(m: Any, x: Tensor) -> Told:
    q, k, v = qkv(m, x)
    k, v = (t[:, :2, None].expand(-1, -1, 2, -1, -1).reshape(2, H, N, C) for t in (k, v))
    w = (q @ k.mT).softmax(-1)
    return w @ v, w


def grouped_by_broadcast(m: Any, x: Tensor) -> Told:
    q, k, v = qkv(m, x)
    w = (q.unflatten(1, (2, 2)) @ k[:, :2, None].mT).softmax(-1)
    return w @ v[:, :2, None], w.flatten(1, 2)


def windowed(m: Any, x: Tensor) -> Told:
    """Swin: windows in the batch, a table of biases, a mask by window."""
    y = torch.cat((x, x.roll(1, 1)), 1).reshape(2, 4, 3, D).flatten(0, 1)
    q, k, v = qkv(m, y)
    here = torch.arange(3)
    bias = m.table[(here[:, None] - here + N - 1).view(-1)].view(3, 3, H).permute(2, 0, 1)
    a = (q * C**-0.5) @ k.transpose(-2, -1) + bias.unsqueeze(0)
    mask = torch.zeros(4, 3, 3)
    mask[-1, 0, 1:] = -100
    a = a.view(2, 4, H, 3, 3) + mask[:, None][None]
    w = a.view(-1, H, 3, 3).softmax(-1)
    return (w @ v).transpose(1, 2).reshape(8, 3, D), w


def over_channels(m: Any, x: Tensor) -> Told:
    """XCiT: channels attend to channels."""
    q, k, v = (t.mT for t in qkv(m, x))  # b h c n
    w = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * 5).softmax(-1)
    return w @ v, w


def axial(m: Any, x: Tensor) -> Told:
    """Along the columns of a 2 x 3 grid."""
    y = x.reshape(2, 2, 3, D).permute(0, 2, 1, 3).reshape(6, 2, D)
    q, k, v = qkv(m, y)
    w = (q @ k.mT).softmax(-1)
    return w @ v, w


def one_head(m: Any, x: Tensor) -> Told:
    w = (m.q(x) @ m.k(x).mT / 4).softmax(-1)
    return w @ m.v(x), w[:, None]


def by_products(m: Any, x: Tensor) -> Told:
    """No product of matrices anywhere."""
    q, k, v = qkv(m, x)
    w = (q[:, :, :, None] * k[:, :, None]).sum(-1).softmax(-1)
    return (w[..., None] * v[:, :, None]).sum(-2), w


# ── scores


def nano(m: Any, x: Tensor) -> Told:
    q, k, v = qkv(m, x)
    a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    a = a.masked_fill(torch.tril(torch.ones(N, N)).view(1, 1, N, N) == 0, float("-inf"))
    w = F.softmax(a, dim=-1)
    return m.mix((w @ v).transpose(1, 2).contiguous().view(2, N, D)), w


def added_product(m: Any, x: Tensor) -> Told:
    q, k, v = (t.reshape(2 * H, N, C) for t in qkv(m, x))
    bias = torch.linspace(-1, 1, N * N).view(1, N, N).expand(2 * H, N, N)
    w = torch.baddbmm(bias, q, k.mT, beta=1.0, alpha=0.5).softmax(-1)
    return torch.bmm(w, v), w.view(2, H, N, N)


def relative_xl(m: Any, x: Tensor) -> Told:
    """Transformer-XL and ESPnet: two products, the second shifted row by row."""
    q, k, v = qkv(m, x)
    first = (q + m.u) @ k.mT
    second = (q + m.w) @ split(m.r(x)).mT
    second = torch.cat((torch.zeros(2, H, N, 1), second), -1).view(2, H, N + 1, N)[:, :, 1:].view_as(second)
    w = ((first + second) / 2).softmax(-1)
    return w @ v, w


def disentangled(m: Any, x: Tensor) -> Told:
    """DeBERTa: content to position by gather."""
    q, k, v = qkv(m, x)
    here = torch.arange(N)
    apart = (here[:, None] - here + N - 1).expand(2, H, N, N)
    to_place = torch.gather(q @ m.rel.T, -1, apart)
    w = ((q @ k.mT + to_place) / math.sqrt(2 * C)).softmax(-1)
    return w @ v, w


def values_have_places(m: Any, x: Tensor) -> Told:
    """Shaw's: relative keys and relative values."""
    q, k, v = qkv(m, x)
    here = torch.arange(N)
    rel = m.rel[here[:, None] - here + N - 1]
    w = (q @ k.mT + torch.einsum("bhic,ijc->bhij", q, rel)).softmax(-1)
    return w @ v + torch.einsum("bhij,ijc->bhic", w, rel), w


def cosine(m: Any, x: Tensor) -> Told:
    q, k, v = qkv(m, x)
    w = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * 10).softmax(-1)
    return w @ v, w


def convolved(m: Any, x: Tensor) -> Told:
    q, k = (split(m.near(x.mT).mT) for _ in range(2))
    w = (q @ k.mT).softmax(-1)
    return w @ split(m.v(x)), w


def null_key(m: Any, x: Tensor) -> Told:
    q, k, v = qkv(m, x)
    k, v = (torch.cat((t, extra.expand(2, H, 1, C)), 2) for t, extra in zip((k, v), m.null, strict=True))
    w = (q @ k.mT).softmax(-1)
    return w @ v, w


def talking_before(m: Any, x: Tensor) -> Told:
    a, v = scores(m, x)
    w = torch.einsum("bhij,hg->bgij", a, m.talk).softmax(-1)
    return w @ v, w


def talking_on_both_sides(m: Any, x: Tensor) -> Told:
    a, v = scores(m, x)
    w = torch.einsum("bhij,hg->bgij", torch.einsum("bhij,hg->bgij", a, m.talk).softmax(-1), m.talk)
    return w @ v, w


def soft_capped(m: Any, x: Tensor) -> Told:
    a, v = scores(m, x)
    w = (torch.tanh(a / 2) * 2).softmax(-1)
    return w @ v, w


def additive(m: Any, x: Tensor) -> Told:
    w = m.score(torch.tanh(m.q(x)[:, :, None] + m.k(x)[:, None])).squeeze(-1)
    w = w.exp() / w.exp().sum(-1, keepdim=True)
    return w @ m.v(x), w[:, None]


# ── calls


def two_values(m: Any, x: Tensor) -> Told:
    a, v = scores(m, x)
    w = a.softmax(-1)
    return w @ v + w @ split(m.r(x)), w


def in_chunks(m: Any, x: Tensor) -> Told:
    """Queries a few at a time: each chunk is one attention."""
    q, k, v = qkv(m, x)
    ws = [(part @ k.mT).softmax(-1) for part in q.split(3, 2)]
    return torch.cat([w @ v for w in ws], 2), ws


def checkpointed(m: Any, x: Tensor) -> Told:
    return checkpoint(nano, m, x, use_reentrant=False)


def mapped(m: Any, x: Tensor) -> Told:
    def one(q: Tensor, k: Tensor, v: Tensor) -> Told:
        w = (q @ k.mT).softmax(-1)
        return w @ v, w

    return torch.vmap(torch.vmap(one))(*qkv(m, x))


def fused(**options: Any) -> Callable[..., Told]:
    def way(m: Any, x: Tensor) -> Told:
        q, k, v = qkv(m, x)

        def truth() -> Tensor:  # asked for after the recording
            a = q @ k.mT * options.get("scale", C**-0.5)
            if options.get("is_causal"):
                a = a.masked_fill(torch.ones(N, N).triu(1) > 0, -torch.inf)
            return a.softmax(-1)

        return F.scaled_dot_product_attention(q, k, v, **options), truth

    return way


def slotted(m: Any, x: Tensor) -> Told:
    """Slot attention: a softmax over queries, then normalised over keys."""
    a, v = scores(m, x)
    w = a.softmax(-2) + 1e-8
    w = w / w.sum(-1, keepdim=True)
    return w @ v, w


def differential(m: Any, x: Tensor) -> Told:
    a, v = scores(m, x)
    w = a.softmax(-1) - 0.5 * (a.mT * 2).softmax(-1)
    return w @ v, w


def gathered(m: Any, x: Tensor) -> Told:
    """The best three keys, and their values alone."""
    a, v = scores(m, x)
    best, where = a.softmax(-1).topk(3, -1)
    found = v[:, :, None].expand(-1, -1, N, -1, -1).gather(3, where[..., None].expand(*where.shape, C))
    return torch.einsum("bhij,bhijc->bhic", best, found), torch.zeros_like(a).scatter(-1, where, best)


def normalized_after(m: Any, x: Tensor) -> Told:
    a, v = scores(m, x)
    e = a.exp()
    return (e @ v) / e.sum(-1, keepdim=True), e / e.sum(-1, keepdim=True)


def linear(m: Any, x: Tensor) -> Told:
    q, k, v = qkv(m, x)
    q, k = F.elu(q) + 1, F.elu(k) + 1
    w = q @ k.mT
    total = w.sum(-1, keepdim=True)
    return (q @ (k.mT @ v)) / total, w / total


def added_to(m: Any, x: Tensor) -> Told:
    a, v = scores(m, x)
    w = a.softmax(-1)
    flat = [t.flatten(0, 1) for t in (split(x), w, v)]
    return torch.baddbmm(*flat), w


def top_two(m: Any, w: Tensor) -> Tensor:
    best, where = w.topk(2, -1)
    return torch.zeros_like(w).scatter_(-1, where, best)


def written_into(m: Any, w: Tensor) -> Tensor:
    w = w.clone()
    w[:, 1, 2] = 0.1
    return w


def head_by_head(m: Any, x: Tensor) -> Told:
    a, v = scores(m, x)
    w = a.softmax(-1)
    return torch.stack([w[:, i] @ v[:, i] for i in range(H)], 1), w


def rows_in_parts(*sizes: int) -> Callable[..., Told]:
    def way(m: Any, x: Tensor) -> Told:
        a, v = scores(m, x)
        w = a.softmax(-1)
        return torch.cat([part @ v for part in w.split(sizes, 2)], 2), w

    return way


def many_before_values(m: Any, x: Tensor) -> Told:
    q, k, v = qkv(m, x)
    ws = [(q[:, i % H] @ k[:, i % H].mT * (1 + i) / 4).softmax(-1) for i in range(12)]
    return torch.stack([w @ v[:, i % H] for i, w in enumerate(ws)]), [w.clone() for w in ws]


def one_vector(m: Any, x: Tensor) -> Told:
    """A product of a matrix and a vector, twice."""
    y = x[0]
    w = torch.softmax(m.k(y) @ m.q(y)[0], 0)
    return y.T @ w, w


def complex_values(m: Any, x: Tensor) -> Told:
    q, k, v = qkv(m, x)
    q, v = torch.complex(q, k), torch.complex(v, k)
    w = (q @ q.mH).abs().softmax(-1)
    return torch.view_as_real(w.to(v.dtype) @ v), w


def product_of_three(m: Any, x: Tensor) -> Told:
    a, v = scores(m, x)
    e = (a - a.amax(-1, keepdim=True)).exp()
    total = e.sum(-1)
    return torch.einsum("bhij,bhi,bhjd->bhid", e, 1 / total, v), e / total[..., None]


def twice_and_changed(m: Any, x: Tensor) -> Told:
    a, v = scores(m, x)
    w = a.softmax(-1)
    return w @ split(m.r(x)) + (w * m.gate.sigmoid()) @ v, w


def padded_queries(m: Any, x: Tensor) -> Told:
    """ESPnet: what is masked is filled with zeros once more, also rows that saw nothing."""
    a, v = scores(m, x)
    mask = torch.zeros(2, 1, N, N, dtype=torch.bool)
    mask[1, :, 4:] = mask[1, :, :, 4:] = True
    w = a.masked_fill(mask, -1e4).softmax(-1).masked_fill(mask, 0.0)
    return w @ v, w


def online(m: Any, x: Tensor) -> Told:
    """Keys in two halves, with a running sum."""
    q, k, v = qkv(m, x)
    total, out = torch.zeros(2, H, N, 1), torch.zeros(2, H, N, C)
    for here in (slice(0, 3), slice(3, 6)):
        e = (q @ k[:, :, here].mT).exp()
        total, out = total + e.sum(-1, keepdim=True), out + e @ v[:, :, here]
    return out / total, None


@dataclass(frozen=True)
class Case:
    way: Callable[..., Told]
    proved: bool = True
    words: str = ""  # in its reason, if it is not proved
    dtype: torch.dtype = torch.float32
    entries: int = 1


def no(way: Callable[..., Told], words: str, entries: int = 1) -> Case:
    return Case(way, False, words, entries=entries)


ODD: dict[str, Case] = {
    "exp / sum": Case(of_scores(lambda a: a.exp() / a.exp().sum(-1, keepdim=True))),
    "exp in place": Case(of_scores(exp_in_place)),
    "exp2": Case(of_scores(lambda a: torch.exp2(a) / torch.exp2(a).sum(-1, keepdim=True))),
    "exp times mask": Case(of_scores(masked_exp)),
    "times the reciprocal": Case(of_scores(lambda a: a.exp() * a.exp().sum(-1, keepdim=True).reciprocal())),
    "log_softmax": Case(of_scores(lambda a: F.log_softmax(a, -1).exp())),
    "logsumexp": Case(of_scores(lambda a: torch.exp(a - torch.logsumexp(a, -1, keepdim=True)))),
    "F.normalize": Case(of_scores(lambda a: F.normalize(a.exp(), p=1.0, dim=-1))),
    "sigmoid, normalized": Case(of_scores(lambda a: a.sigmoid() / a.sigmoid().sum(-1, keepdim=True))),
    "sparsemax": Case(of_scores(sparsemax)),
    "sinkhorn": Case(of_scores(sinkhorn)),
    "keys first, by hand": Case(keys_first_by_hand),
    "pooled by hand": Case(pooled_by_hand),
    "log_softmax in half": Case(half_by_hand, dtype=torch.bfloat16),
    "additive, by hand": Case(additive),
    "tokens first": Case(tokens_first),
    "letters 1": Case(letters("bihc,bjhc->hbij", "hbij,bjhc->bihc", "hbij->bhij")),
    "softmax over heads": no(letters("bihc,bjhc->bijh", "bijh,bjhc->bihc", "bijh->bhij"), "another axis"),
    "letters 3": Case(letters("bihc,bjhc->ibhj", "ibhj,bjhc->ibhc", "ibhj->bhij")),
    "multi-query": Case(multi_query),
    "grouped": Case(grouped),
    "grouped by broadcast": Case(grouped_by_broadcast),
    "windows": Case(windowed),
    "over channels": Case(over_channels),
    "axial": Case(axial),
    "one head": Case(one_head),
    "by products": Case(by_products),
    "nano": Case(nano),
    "nano in double": Case(lambda m, x: of_scores(lambda a: a.softmax(-1))(m, x), dtype=torch.float64),
    "baddbmm": Case(added_product),
    "relative, XL": Case(relative_xl),
    "disentangled": Case(disentangled),
    "values have places": Case(values_have_places),
    "cosine": Case(cosine),
    "convolved": Case(convolved),
    "null key": Case(null_key),
    "talking before": Case(talking_before),
    "soft cap": Case(soft_capped),
    "two values": Case(two_values),
    "chunks": Case(in_chunks, entries=2),
    "checkpoint": Case(checkpointed),
    "vmap": Case(mapped),
    "fused": Case(fused()),
    "fused, causal": Case(fused(is_causal=True, scale=0.9)),
    "head by head": Case(head_by_head),
    "rows in equal parts": Case(rows_in_parts(3, 3)),
    "rows in other parts": no(rows_in_parts(2, 4), "in parts"),
    "many before values": Case(many_before_values, entries=12),
    "one vector": Case(one_vector),
    "complex values": Case(complex_values),
    "product of three": Case(product_of_three),
    "padded queries": Case(padded_queries),
    "twice and changed": no(twice_and_changed, "twice"),
    "online": no(online, "not to 1", entries=2),
    "filled with zero": Case(after(lambda m, w: w.masked_fill(w < 0, 0.0))),
    "times one": Case(after(lambda m, w: w * torch.ones(H, 1, 1))),
    "nan to num": Case(after(lambda m, w: torch.nan_to_num(w))),
    "head mask": no(after(lambda m, w: w * torch.tensor([1.0, 0, 1, 1])[:, None, None]), "mul"),
    "gate": no(after(lambda m, w: w * m.gate.sigmoid()), "mul"),
    "renormalized mask": no(after(lambda m, w: w.tril() / w.tril().sum(-1, keepdim=True)), "tril, div"),
    "top two": no(after(top_two), "topk"),
    "threshold": no(after(lambda m, w: torch.where(w > 0.2, w, 0.0)), "where"),
    "written into": no(after(written_into), "changed"),
    "averaged": no(after(lambda m, w: 0.5 * w + 0.5 / N), "changed"),
    "power": no(after(lambda m, w: w**2), "pow"),
    "talking": no(after(lambda m, w: torch.einsum("bhij,hg->bgij", w, m.talk)), "mixed between heads"),
    "talking, convolution": no(after(lambda m, w: m.conv(w)), "mixed between heads"),
    "talking, linear": no(
        after(lambda m, w: F.linear(w.permute(0, 2, 3, 1), m.talk).permute(0, 3, 1, 2)), "mixed between heads"
    ),
    "re-attention": no(
        after(lambda m, w: m.norm(torch.einsum("bhij,hg->bgij", w, m.talk).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)),
        "mixed between heads",
    ),
    "talking on both sides": no(talking_on_both_sides, "mixed between heads"),
    "mean of heads": no(after(lambda m, w: w.mean(1, keepdim=True).expand_as(w)), "mean"),
    "shifted": no(after(lambda m, w: w.roll(1, -1)), "roll"),
    "sorted": no(after(lambda m, w: w.sort(-1).values), "sort"),
    "differential": no(differential, "changed", entries=2),
    "slots": Case(slotted),
    "gathered": no(gathered, "topk"),
    "added to": no(added_to, "baddbmm"),
    "softmax1": no(of_scores(lambda a: a.exp() / (1 + a.exp().sum(-1, keepdim=True))), "not to 1"),
    "sigmoid": no(of_scores(torch.sigmoid), "not to 1"),
    "relu": no(of_scores(lambda a: F.relu(a) / N), "not to 1"),
    "normalized after": no(normalized_after, "not to 1"),
    "linear": no(linear, "no softmax"),
    "retention": no(of_scores(lambda a: a * torch.ones(N, N).tril()), "no softmax"),
}
