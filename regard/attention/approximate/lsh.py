"""LSH attention (Reformer): each token attends to tokens whose keys fall into the same bucket of a random hash.

It is exact attention over fewer keys. A token meets those of its bucket that are among the `near` nearest in the
order of places, in any of several rounds of hashing. So the past alone decides what a causal token meets, and a
bucket that is full spills nothing over.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.attention import tap
from regard.attention.approximate.approximation import Approximation, order_of, refuse_gradients
from regard.attention.approximate.meetings import Meeting, SortedAttention, meeting_weights
from regard.attention.cache import Cache
from regard.attention.kernels.precision import HALF
from regard.errors import RegardError
from regard.symmetry.groups import Group, Shifts

HASHED = 2**21  # numbers that are hashed at once
SHORTEST = 1e-12  # a query that is shorter is not made longer: √c over the square of it is still a number


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
        self,
        channels: int,
        buckets: int = 32,
        *,
        near: int = 64,
        rounds: int = 4,
        seed: int = 0,
        layer: int = 0,
    ) -> None:
        super().__init__()
        for given, what in ((channels, "channels"), (near, "near"), (rounds, "rounds"), (buckets, "buckets")):
            if given < 1:
                raise RegardError(f"{what} of LSH must be at least 1, got {given}")
        if buckets > 1 and buckets % 2:
            raise RegardError(
                f"buckets of LSH are pairs of opposite directions, got {buckets}; give an even number"
            )
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
            raise RegardError(
                f"lsh makes keys of its queries, and as many heads of values: got {tuple(v.shape)}"
            )
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
