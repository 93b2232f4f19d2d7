"""LSH attention (Reformer): each token attends to tokens whose keys fall into the same bucket of a random hash.

It is exact attention over fewer keys. A token meets those of its bucket that are among the `near` nearest in the
order of places, in any of several rounds of hashing. So the past alone decides what a causal token meets, and a
bucket that is full spills nothing over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention import tap
from regard.attention.approximate.approximation import Approximation, order_of, refuse_gradients
from regard.attention.cache import Cache
from regard.attention.kernels.precision import HALF
from regard.attention.tap import Rows
from regard.errors import RegardError
from regard.symmetry.groups import Group, Shifts

ALONE = -1e5  # the score of a token with itself: it counts only when there is no other
HIDDEN = -1e30  # and of those that do not meet
MOST = 2**20  # scores at once
HASHED = 2**21  # numbers that are hashed at once
SHORTEST = 1e-12  # a query that is shorter is not made longer: √c over the square of it is still a number


# ── exact attention over the tokens that meet in buckets: sorted by bucket, each attends to those near it
#
# In each round tokens are sorted by bucket, then by place. `spots` are ranks in that order, with a gap of more than
# `near` between buckets: so two tokens meet when their spots are no more than `near` apart, and one comparison says
# so. A pair that has met in an earlier round is left out of a later one, so each counts once.


@dataclass(eq=False)
class Meeting:
    """Who meets whom among n tokens."""

    slots: Tensor  # b h r n: which token is at each place of the sorted order
    spots: Tensor  # b h r n: where each token is, in int32
    near: int
    causal: bool

    @classmethod
    def of(cls, buckets: Tensor, order: Tensor | None, near: int, causal: bool) -> Meeting:
        """buckets: b h r n   order: b n, the order in which tokens are read; None: as they come"""
        n = buckets.shape[-1]
        if order is not None:
            order = order[:, None, None].expand(buckets.shape)
            buckets = buckets.gather(-1, order)
        ordered, slots = buckets.sort(dim=-1, stable=True)
        spots = torch.arange(n, device=buckets.device) + ordered * (near + 1)
        if order is not None:
            slots = order.gather(-1, slots)
        spots = torch.empty_like(slots).scatter_(-1, slots, spots)
        return cls(slots, spots.int(), near, causal)

    def met(self, here: Tensor, there: Tensor) -> Tensor:
        """Do they meet? Spots of queries and keys.   ... n, ... m -> ... n m"""
        if self.causal:  # 0 ≤ here − there ≤ near, as one distance
            here, there = 2 * here - self.near, 2 * there
        return (here[..., :, None] - there[..., None, :]).abs_() <= self.near

    def weigh(self, q: Tensor, k: Tensor, rows: Rows) -> Tensor:
        return meeting_weights(q, k, self, rows)


def meeting_weights(q: Tensor, k: Tensor, meeting: Meeting, rows: Rows) -> Tensor:
    """The definition: softmax over those that are met, itself only if alone.   q: b h r c   k: b h m c -> b h r m"""
    scores = (q * q.shape[-1] ** -0.5) @ k.mT
    met = torch.zeros_like(scores, dtype=torch.bool)
    for i in range(meeting.spots.shape[2]):
        spots = meeting.spots[:, :, i]
        met |= meeting.met(spots[:, :, rows], spots)
    first = meeting.spots[:, :, 0]
    itself = first[:, :, rows][..., None] == first[:, :, None]
    return scores.masked_fill(itself, ALONE).masked_fill(~met, -torch.inf).softmax(-1)


@dataclass(eq=False)
class Part:
    """Some chunks of the sorted order of one round, with the keys that they may meet. Indices are those of rows of
    all tokens of all heads, one after another; what is beyond the end has the last index plus one."""

    queries: Tensor  # bh g s
    keys: Tensor  # bh g w
    hidden: Tensor  # bh g s w: they do not meet, or have met before
    itself: Tensor | None  # bh g s w, in the first round


class Layout:
    """The sorted order of each round, cut into chunks of `near` tokens."""

    def __init__(self, meeting: Meeting) -> None:
        self.meeting = meeting
        self.b, self.h, self.rounds, self.n = meeting.slots.shape
        self.heads = self.b * self.h
        self.count = self.heads * self.n
        self.size = min(meeting.near, self.n)
        self.chunks = -(-self.n // self.size)
        self.width = 2 if meeting.causal else 3  # chunks of keys for each chunk of queries
        self.per_part = max(1, MOST // (self.heads * self.size * self.size * self.width))
        self.spots = meeting.spots.reshape(self.heads, self.rounds, self.n)

    def parts(self) -> Iterator[Part]:
        device = self.meeting.slots.device
        base = torch.arange(self.heads, device=device)[:, None] * self.n
        edge = torch.full((self.heads, self.size), self.count, device=device)
        short = edge[:, : self.chunks * self.size - self.n]
        slots = self.meeting.slots.reshape(self.heads, self.rounds, self.n)
        spots = [self.spots[:, i].reshape(-1) for i in range(self.rounds)]
        for i in range(self.rounds):
            order = torch.cat((edge, slots[:, i] + base, short, edge), 1).unflatten(1, (-1, self.size))
            for start in range(0, self.chunks, self.per_part):
                stop = min(start + self.per_part, self.chunks)
                queries = order[:, start + 1 : stop + 1]
                keys = torch.cat([order[:, start + j : stop + j] for j in range(self.width)], 2)
                yield self._part(queries, keys, spots[: i + 1])

    def _part(self, queries: Tensor, keys: Tensor, spots: list[Tensor]) -> Part:
        *before, now = spots
        hidden = ~self.meeting.met(_read(now, queries), _read(now, keys))
        for earlier in before:
            hidden |= self.meeting.met(_read(earlier, queries), _read(earlier, keys))
        hidden |= (keys == self.count)[:, :, None]
        itself = None
        if not before:
            itself = queries[..., :, None] == keys[..., None, :]
        return Part(queries, keys, hidden, itself)


class SortedAttention(torch.autograd.Function):
    """q, k: b h n c   v: b h n e   ->   b h n e. Memory is linear in n: scores are computed once more for the
    gradient."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, meeting: Meeting) -> Tensor:
        layout = Layout(meeting)
        rows, keys, values = (_rows(x) for x in (q, k, v))
        # one row more than there are tokens: what is beyond the end is written there
        out = v.new_zeros(layout.count + 1, v.shape[-1])
        total = v.new_full((layout.count + 1,), HIDDEN)  # log-sum-exp
        for part in layout.parts():
            weights, each = _softmax(_scores(rows, keys, part))
            _merge(out, total, part.queries, weights @ _read(values, part.keys), each)
        total[-1] = torch.inf  # beyond the end no key has any weight
        out = out[:-1].view(*q.shape[:3], -1)
        ctx.save_for_backward(q, k, v, out, total)
        ctx.meeting = meeting
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, total = ctx.saved_tensors
        layout, scale = Layout(ctx.meeting), q.shape[-1] ** -0.5
        rows, keys, values, above = (_rows(x) for x in (q, k, v, grad))
        inner = (grad * out).sum(-1).reshape(-1)
        dq, dk, dv = (x.new_zeros(layout.count + 1, x.shape[-1]) for x in (q, k, v))
        for part in layout.parts():
            here = part.queries
            weights, each = _softmax(_scores(rows, keys, part))
            weights.mul_((each - total[here]).exp_()[..., None])  # the part of this round in the whole
            down = _read(above, here)
            _add_windows(dv, part.keys, weights.mT @ down, layout)
            dscores = (down @ _read(values, part.keys).mT).sub_(_read(inner, here)[..., None]).mul_(weights)
            if part.itself is not None:
                dscores.masked_fill_(part.itself, 0)
            dscores.mul_(scale)
            dq[here] += dscores @ _read(keys, part.keys)
            _add_windows(dk, part.keys, dscores.mT @ _read(rows, here), layout)
        return (*(x[:-1].view(*q.shape[:3], -1) for x in (dq, dk, dv)), None)


def _rows(x: Tensor) -> Tensor:
    """b h n c -> b·h·n c"""
    return x.reshape(-1, x.shape[-1])


def _read(x: Tensor, index: Tensor) -> Tensor:
    """Rows of x; what is beyond the end reads the last one.   -> bh g s ..."""
    found = x.index_select(0, index.reshape(-1).clamp(max=len(x) - 1))
    return found.view(*index.shape, *x.shape[1:])


def _scores(rows: Tensor, keys: Tensor, part: Part) -> Tensor:
    """bh g s w"""
    scores = (_read(rows, part.queries) * rows.shape[-1] ** -0.5) @ _read(keys, part.keys).mT
    if part.itself is not None:
        scores.masked_fill_(part.itself, ALONE)
    return scores.masked_fill_(part.hidden, HIDDEN)


def _softmax(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Weights, and the log-sum-exp of each row: the largest score has the weight exp(it)/Σ.   ... w -> ... w, ..."""
    weights = scores.softmax(-1)
    return weights, scores.amax(-1) - weights.amax(-1).log_()


def _merge(out: Tensor, total: Tensor, index: Tensor, found: Tensor, each: Tensor) -> None:
    """Two softmaxes over different keys become one over all."""
    before = _read(total, index)
    after = torch.logaddexp(before, each)
    found.mul_((each - after).exp_()[..., None])
    out[index] = found.addcmul_(_read(out, index), (before - after).exp_()[..., None])
    total[index] = after


def _add_windows(to: Tensor, index: Tensor, windows: Tensor, layout: Layout) -> None:
    """Add to each key what the chunks found that look at it. Windows of neighbouring chunks share keys, so one third
    (or half) of each is added at a time: within it each key is there once."""
    for j in range(layout.width):
        part = slice(j * layout.size, (j + 1) * layout.size)
        to[index[:, :, part]] += windows[:, :, part]


class LSH(Approximation):
    """out_i = Σ_j w_ij v_j,  w_i = softmax over the j that i meets of c^(−½)·q_i·k_j,  k_j = √c·q_j/‖q_j‖.
    b h n c -> b h n e

    i meets j when in some round both are in one bucket, and j is among the `near` before i there (to both sides
    if not causal). It meets itself only when it meets nobody else. Buckets are the nearest of `buckets` random
    directions, new ones for each of the `rounds`, stored. Shifts of all places change nothing unless a position
    turns q and k.
    """

    name = "lsh"
    keeps: ClassVar[Group] = Shifts()
    shares_keys = True
    implied = "softmax over the tokens met in a bucket, and over no others"
    wins_from: ClassVar[dict[bool, int | None]] = {False: 3072, True: 4096}
    directions: Tensor

    def __init__(
        self, channels: int, buckets: int = 32, *, near: int = 64, rounds: int = 4, seed: int = 0, layer: int = 0
    ) -> None:
        super().__init__()
        for given, what in ((channels, "channels"), (near, "near"), (rounds, "rounds"), (buckets, "buckets")):
            if given < 1:
                raise RegardError(f"{what} of LSH must be at least 1, got {given}")
        if buckets > 1 and buckets % 2:
            raise RegardError(f"buckets of LSH are pairs of opposite directions, got {buckets}; give an even number")
        self.buckets, self.near, self.rounds, self.seed, self.layer = buckets, near, rounds, seed, layer
        self.register_buffer("directions", torch.empty(rounds, channels, buckets // 2))
        self.draw()

    def draw(self) -> None:
        if self.directions.is_meta or self.buckets == 1:
            return
        random = np.random.default_rng((self.seed, self.layer))
        with torch.no_grad():
            self.directions.copy_(torch.from_numpy(random.standard_normal(tuple(self.directions.shape))))

    def hash(self, k: Tensor) -> Tensor:
        """The bucket of each key in each round.   b h n c -> b h r n"""
        b, h, n = k.shape[:3]
        if self.buckets == 1:
            return torch.zeros(b, h, self.rounds, n, dtype=torch.long, device=k.device)
        directions = self.directions.to(k.dtype)
        step = max(1, HASHED // (b * h * self.rounds * self.buckets))
        found = []
        with torch.no_grad():
            for start in range(0, n, step):
                along = k[:, :, None, start : start + step] @ directions  # b h r n B/2
                found.append(torch.cat((along, -along), -1).argmax(-1))
        return torch.cat(found, -1)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        causal: bool = False,
        where: Tensor | None = None,
        real: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        dtype = q.dtype
        if k.shape != q.shape or v.shape[:3] != q.shape[:3]:
            raise RegardError(f"lsh makes keys of its queries, and as many heads of values: got {tuple(v.shape)}")
        wide = torch.float32 if dtype in HALF else dtype
        with torch.autocast(q.device.type, enabled=False):
            q, v = q.to(wide), v.to(wide)
            k = keys_of(q)
            buckets = self.hash(k.detach())
            if cache is not None:
                return self._step(q, k, v, buckets, where, real, cache, causal).to(dtype)
            meeting = self.meet(buckets, where, real, causal)
            out: Tensor = SortedAttention.apply(q, k, v, meeting)
            if tap.listeners:
                tap.tell(tap.Implied(q, k, v, out, self.name, self.implied, meeting.weigh))
        return out.to(dtype)

    def meet(self, buckets: Tensor, where: Tensor | None, real: Tensor | None, causal: bool) -> Meeting:
        """Who meets whom. Padding has a bucket of its own."""
        order = order_of(where, real, buckets.shape[0], self.name, lost_first=not causal)
        if real is not None:
            buckets = buckets.masked_fill(~real[:, None, None], self.buckets)
        return Meeting.of(buckets, order, self.near, causal)

    def _step(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        buckets: Tensor,
        where: Tensor | None,
        real: Tensor | None,
        cache: Cache,
        causal: bool,
    ) -> Tensor:
        if not causal or not isinstance(cache, BucketCache):
            raise RegardError(
                f"lsh writes step by step with Causal() and the cache of make_cache(), got {type(cache).__name__}"
            )
        refuse_gradients(q, v)
        cache.new_buckets = buckets.permute(0, 3, 1, 2).flatten(2)  # b n h·r
        past = cache.add(k, v, where, real)
        held = cache.held("buckets").unflatten(-1, (q.shape[1], self.rounds)).permute(0, 2, 3, 1)
        there = past.where[1] if isinstance(past.where, tuple) else None
        meeting = self.meet(held, there, past.real, causal)
        if past.k.shape[2] == q.shape[2]:
            first: Tensor = SortedAttention.apply(q, past.k, past.v, meeting)
            return first
        rows = slice(past.k.shape[2] - q.shape[2], past.k.shape[2])
        return meeting_weights(q, past.k, meeting, rows) @ past.v

    def make_cache(self, length: int | None = None) -> BucketCache:
        return BucketCache(length)

    def extra_repr(self) -> str:
        return f"{self.buckets} buckets, near={self.near}, rounds={self.rounds}, seed={self.seed}"


def keys_of(q: Tensor) -> Tensor:
    """Queries at the length √c, so that the score of a token with itself is the length of its query. That of padding,
    which is 0, stays 0."""
    c = q.shape[-1]
    return q * (c**0.5 / q.norm(dim=-1, keepdim=True).clamp(min=SHORTEST))


class BucketCache(Cache):
    """Keys and values of the past, with the buckets of each key."""

    new_buckets: Tensor

    def keep(self, new: dict[str, Tensor]) -> None:
        super().keep(new | {"buckets": self.new_buckets})
