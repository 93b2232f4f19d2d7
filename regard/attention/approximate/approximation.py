"""What all approximations of attention share: how they are called, what they promise, and what they refuse."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.attention.cache import Cache
from regard.attention.mask import Mask
from regard.attention.masks import Causal
from regard.attention.places import Where
from regard.errors import RegardError
from regard.symmetry.groups import Group, Trivial


class Approximation(nn.Module):
    """Self-attention of n tokens in less than n² steps.   q: b h n c   k: b g n c   v: b g n e   ->   b h n e

    It is called as `attend` is, but takes no bias, and of the masks only Causal. What it draws at random follows
    from a seed and is stored with the weights, so that the same input gives the same output everywhere.
    """

    name: ClassVar[str]
    # what it keeps as long as no position turns queries and keys: it sees them one by one, not the angle between
    keeps: ClassVar[Group] = Trivial()
    shares_keys: ClassVar[bool] = False  # keys are the queries at a fixed length
    implied: ClassVar[str]  # what the weights are that a recorder is given
    wins_from: ClassVar[dict[bool, int | None]]  # causal? -> tokens from which on it is faster than `attend`

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
        """where: places n, b n or b n s, None: consecutive; real: bool b n, False for padding. With a cache the
        tokens are new ones that come after those given before."""
        raise NotImplementedError

    def make_cache(self, length: int | None = None) -> Cache:
        """An empty cache for writing step by step."""
        raise RegardError(f"{self.name} has no causal form, so nothing can be written with it step by step")

    @classmethod
    def explain(cls, n: int, *, causal: bool) -> str | None:
        """Why exact attention is the better choice for n tokens; None if it is not."""
        first = cls.wins_from[causal]
        if first is None or n >= first:
            return None
        kind = "causal attention" if causal else "attention"
        return (
            f"{cls.name} is slower than exact {kind} below about {first:,} tokens, and here are {n:,}; "
            f"full attention is faster and exact"
        )


def is_causal(mask: Mask | None, name: str) -> bool:
    """Which of the two masks it is that an approximation knows: none, or Causal."""
    if mask is None:
        return False
    if type(mask) is Causal:
        return True
    raise RegardError(
        f"{name} knows no mask but Causal() and padding, which is given as real=, got {mask}; "
        f"exact attention takes every mask"
    )


def refuse_gradients(*tensors: Tensor) -> None:
    """A cache is for writing."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        raise RegardError("a cache carries no gradients; use torch.no_grad()")


def first_axis(where: Where, name: str) -> Tensor | None:
    """Places on the first axis, which is time.   n, b n or b n s -> b|1 n"""
    if where is None:
        return None
    if not isinstance(where, Tensor):
        raise RegardError(f"{name} is self-attention: where must be one tensor of places, got a pair")
    if where.dim() == 1:
        return where[None]
    if where.dim() == 2:
        return where
    return where[..., 0]


def order_of(
    where: Tensor | None, real: Tensor | None, b: int, name: str, *, lost_first: bool = False
) -> Tensor | None:
    """In which order tokens are read: by their places, padding last. None: as they come.   -> b n, or None

    Two tokens at one place would have to see each other, which a sum over the past cannot do. lost_first: a token
    without a place comes first, and is no error
    """
    places = first_axis(where, name)
    if places is None:
        return None
    if lost_first and places.is_floating_point():
        places = places.masked_fill(places.isnan(), -torch.inf)
    if real is not None:
        places = places.to(torch.promote_types(places.dtype, torch.float32)).masked_fill(~real, torch.inf)
    places, order = places.sort(dim=1, stable=True)
    if not torch.compiler.is_compiling():
        _check_places(places, name)
    return order.expand(b, -1)


def _check_places(places: Tensor, name: str) -> None:
    """Sorted places, of which those of padding are infinite."""
    if places.is_floating_point() and places.isnan().any():
        raise RegardError(f"{name} reads tokens in the order of their places, and some have none (NaN)")
    same = (places[:, 1:] == places[:, :-1]) & (places[:, 1:] != torch.inf)
    if same.any():
        row, slot = same.nonzero()[0].tolist()
        raise RegardError(
            f"{name} reads tokens in the order of their places, and in row {row} two are at place "
            f"{places[row, slot].item():g}; give each token a place of its own"
        )


def take_tokens(x: Tensor, order: Tensor | None) -> Tensor:
    """Token order[i] comes to slot i.   x: b h n c, order: b n"""
    return x if order is None else x.gather(2, order[:, None, :, None].expand_as(x))


def inverse(order: Tensor | None) -> Tensor | None:
    """The order that undoes it, which is also the rank of each token.   b n -> b n"""
    if order is None:
        return None
    ranks = torch.arange(order.shape[1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, ranks)
