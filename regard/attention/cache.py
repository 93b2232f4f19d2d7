"""The past of one attention layer while a sequence is written step by step: keys, values, and where they are.

Masks and biases read places, so a cache has no offsets to get wrong: rows of different length leave holes, a
window that forgets stores keys in any order, and attention comes out the same. A cache is for writing, not
for training: it refuses gradients. Only a SegmentMemory is for both: it stops them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.mask import Mask
from regard.attention.masks import Padding
from regard.attention.places import Where
from regard.errors import RegardError


@dataclass(frozen=True, eq=False)
class Past:
    """All that a new query may look back on, itself included: what `attend` needs beside the queries."""

    k: Tensor  # b g m c
    v: Tensor  # b g m e
    where: Where  # None, or the pair (here, there)
    real: Tensor | None  # bool b m; None: all of them

    def mask(self, mask: Mask | None) -> Mask | None:
        """The mask with what is not real hidden."""
        if self.real is None:
            return mask
        if mask is None:
            return Padding(self.real)
        return mask & Padding(self.real)


class Cache:
    """Keeps everything. `length` fixes its size, and then no step allocates memory; without it, it grows by
    doubling."""

    def __init__(self, length: int | None = None) -> None:
        if length is not None and length < 1:
            raise RegardError(f"length must be at least 1, got {length}; Cache() grows as it needs to")
        self.length = length
        self.count = 0  # tokens taken in, padding included
        self.store: dict[str, Tensor] = {}
        self.seen: Tensor | None = None  # b: real tokens so far, once rows differ

    def begin(self) -> None:
        """New tokens follow; a stack says so before its first block. Most caches have nothing to do."""

    def add(self, k: Tensor, v: Tensor, where: Tensor | None = None, real: Tensor | None = None) -> Past:
        """Take in the keys and values of n new tokens, and give back all of them.

        where   their places (n, b n or b n s); None counts on: each row's next place is its number of real
                tokens so far.
        real    bool b n, False for padding; None: all real.
        """
        _refuse_gradients(k, v)
        here = self.upcoming(k.shape[0], k.shape[2], k.device, where, real)
        new = {"k": k, "v": v}
        if here is not None:
            real = self.count_on(here, real)
            new |= {"where": here, "real": real}
        self.keep(new)
        if here is None:
            return Past(self.held("k"), self.held("v"), None, None)
        return Past(self.held("k"), self.held("v"), (here, self.held("where")), self.held("real"))

    def upcoming(
        self, b: int, n: int, device: torch.device, where: Tensor | None = None, real: Tensor | None = None
    ) -> Tensor | None:
        """The places that n new tokens will have, b n s; None as long as all rows simply count on from
        `count`."""
        if where is not None:
            if where.dim() == 1:
                here = where[None, :, None]
            else:
                here = where[..., None] if where.dim() == 2 else where
            return here.expand(b, *here.shape[1:])
        if real is None and self.seen is None:
            return None
        seen = torch.full((b,), self.count, device=device) if self.seen is None else self.seen
        if real is None:
            steps = torch.arange(1, n + 1, device=device).expand(b, n)
        else:
            steps = real.cumsum(1)
        return (seen[:, None] + steps - 1).clamp(min=0)[
            ..., None
        ]  # padding before the first token has no place to count

    def count_on(self, here: Tensor, real: Tensor | None) -> Tensor:
        """Take note of how many real tokens each row has by now.  -> real: b n"""
        b, n, _ = here.shape
        # rows may differ from now on: write down the places that were only understood so far
        if self.seen is None:
            self.seen = torch.full((b,), self.count, device=here.device)
            if self.store:
                slots = torch.arange(self.store["k"].shape[2], device=here.device)
                self.store["where"] = slots[None, :, None].expand(b, -1, -1).clone()
                self.store["real"] = (slots < self.count).expand(b, -1).clone()
        if real is None:
            real = torch.ones(b, n, dtype=torch.bool, device=here.device)
        self.seen = self.seen + real.sum(1)
        return real

    def keep(self, new: dict[str, Tensor]) -> None:
        stop = self.count + new["k"].shape[2]
        if self.length is not None and stop > self.length:
            raise RegardError(
                f"the cache holds {self.length} tokens and was given {stop}; make it with length={stop} or "
                f"more, or use Cache(), which grows"
            )
        if not self.store or stop > self.store["k"].shape[2]:
            self.grow(new, self.length or max(64, 2 * stop))
        for name, x in new.items():
            self.write(name, x, self.count)
        self.count = stop

    def write(self, name: str, x: Tensor, at: int) -> None:
        # whole numbers first, then a token without a place
        if name == "where" and x.dtype != self.store[name].dtype:
            self.store[name] = self.store[name].to(torch.promote_types(x.dtype, self.store[name].dtype))
        axis = token_axis(name)
        self.store[name].narrow(axis, at, x.shape[axis]).copy_(x)

    def grow(self, new: dict[str, Tensor], size: int) -> None:
        for name, x in new.items():
            axis = token_axis(name)
            room = x.new_zeros(*x.shape[:axis], size, *x.shape[axis + 1 :])
            if name in self.store:
                room.narrow(axis, 0, self.count).copy_(self.store[name].narrow(axis, 0, self.count))
            self.store[name] = room

    def held(self, name: str) -> Tensor:
        return self.store[name].narrow(token_axis(name), 0, self.count)


def _refuse_gradients(k: Tensor, v: Tensor) -> None:
    if torch.is_grad_enabled() and (k.requires_grad or v.requires_grad):
        raise RegardError(
            "a cache carries no gradients, so training through it would be wrong in silence; use torch.no_grad()"
        )


def token_axis(name: str) -> int:
    return 2 if name in ("k", "v") else 1


class WindowCache(Cache):
    """Forgets: keeps the last `reach` + 1 real tokens of each row, all that Window(reach) lets the next query
    see.

    One token at a time overwrites the oldest in place. Several at once are all given back, then the older
    ones are dropped.
    """

    def __init__(self, reach: int) -> None:
        if reach < 0:
            raise RegardError(f"reach must be 0 or more, got {reach}")
        super().__init__()
        self.reach = reach
        self.oldest = 0  # the slot that is written next

    def upcoming(
        self, b: int, n: int, device: torch.device, where: Tensor | None = None, real: Tensor | None = None
    ) -> Tensor:
        """As for any cache, but always written down: slots are used again, so they say nothing about
        places."""
        if self.seen is None:
            self.seen = torch.zeros(b, dtype=torch.long, device=device)
        here = super().upcoming(b, n, device, where, real)
        assert here is not None
        return here

    def add(self, k: Tensor, v: Tensor, where: Tensor | None = None, real: Tensor | None = None) -> Past:
        _refuse_gradients(k, v)
        here = self.upcoming(k.shape[0], k.shape[2], k.device, where, real)
        new = {"k": k, "v": v, "where": here, "real": self.count_on(here, real)}
        if not self.store:
            self.grow(new, self.reach + 1)
        if k.shape[2] == 1:
            for name, x in new.items():
                self.write(name, x, self.oldest)
            self.oldest = (self.oldest + 1) % (self.reach + 1)
            now = self.store
        else:
            now = {name: torch.cat((self.in_order(name), x), token_axis(name)) for name, x in new.items()}
            self.drop(now)
        self.count += k.shape[2]
        return Past(now["k"], now["v"], (here, now["where"]), now["real"])

    def in_order(self, name: str) -> Tensor:
        """What is held, the oldest first."""
        return self.store[name].roll(-self.oldest, token_axis(name))

    def drop(self, now: dict[str, Tensor]) -> None:
        """Keep each row's last real tokens, in their order; what is not real goes first."""
        self.store |= _latest(now, self.reach + 1)
        self.oldest = 0


class SegmentMemory(Cache):
    """Of a text that is read segment by segment (Transformer-XL): the last `length` tokens before the segment,
    without gradients.

    A token sees them and what comes before it in its own segment: with segments of n, between `length` and
    `length` + n − 1 tokens, fewer near the beginning. Keys and values of the segment itself have gradients,
    which stop when the next one begins. What is new is taken in only then (`begin`), so a block that is
    computed twice, as activation checkpointing does, remembers once. Between segments that follow each other
    without padding places are not written down: masks and biases that keep shifts read the same from slots.
    """

    def __init__(self, length: int) -> None:
        if length < 0:
            raise RegardError(f"length must be 0 or more, got {length}")
        super().__init__()
        self.kept = length
        self.new: dict[str, Tensor] = {}  # of the segment that is being read

    def add(self, k: Tensor, v: Tensor, where: Tensor | None = None, real: Tensor | None = None) -> Past:
        here = self.upcoming(k.shape[0], k.shape[2], k.device, where, real)
        new = {"k": k, "v": v}
        if here is not None:
            new |= {"where": here, "real": _all_real(here) if real is None else real}
        self.new = {name: x.detach() for name, x in new.items()}
        now = self._joined(new)
        if here is None:
            return Past(now["k"], now["v"], None, None)
        return Past(now["k"], now["v"], (here, now["where"]), now["real"])

    def begin(self) -> None:
        """Take in the segment before, and forget what is older than the memory is long."""
        if not self.new:
            return
        now, real = self._joined(self.new), self.new.get("real")
        if real is not None:
            if self.seen is None:
                self.seen = torch.full((len(real),), self.count, device=real.device)
            self.seen = self.seen + real.sum(1)
        self.count += self.new["k"].shape[2]
        self.store, self.new = _latest(now, self.kept), {}

    def _joined(self, new: dict[str, Tensor]) -> dict[str, Tensor]:
        """What is held and what is new, along the tokens."""
        if not self.store:
            return new
        held = dict(self.store)
        if "where" in new and "where" not in held:  # rows may differ from now on, so places are written down
            b, m = len(new["where"]), held["k"].shape[2]
            places = torch.arange(self.count - m, self.count, device=new["where"].device)
            held["where"] = places[None, :, None].expand(b, -1, -1)
            held["real"] = torch.ones(b, m, dtype=torch.bool, device=places.device)
        return {name: torch.cat((held[name], x), token_axis(name)) for name, x in new.items()}


def _all_real(here: Tensor) -> Tensor:
    return torch.ones(here.shape[:2], dtype=torch.bool, device=here.device)


def _latest(now: dict[str, Tensor], count: int) -> dict[str, Tensor]:
    """The last `count` real tokens of each row, in their order; what is not real goes first."""
    real = now.get("real")
    if real is None:
        size = now["k"].shape[2]
        begin = max(0, size - count)
        return {name: x.narrow(token_axis(name), begin, size - begin).clone() for name, x in now.items()}
    age = torch.arange(real.shape[1], device=real.device) + real * real.shape[1]
    # b count, the oldest first
    last = age.topk(min(count, real.shape[1]), dim=1).indices.flip(1)
    found = {}
    for name, x in now.items():
        if token_axis(name) == 2:
            index = last[:, None, :, None]
        else:
            index = last[..., None] if x.dim() == 3 else last
        found[name] = torch.take_along_dim(x, index, token_axis(name))
    return found
