"""Where weights come from: a few tensors from which any rows of them can be computed, and the sum they must
give.

`q`, `k`, `v` and `out` are copies, so that a cache written on or a gradient step cannot change what was
recorded. What is too large to copy (a mask) is watched: if it was changed since, asking for the weights says
so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from regard.attention.kernels.reference import heads_of
from regard.errors import RegardError
from regard.look.recording.calls import copy_detached

Rows = slice | Tensor


class Unchanged:
    """Tensors that must still hold what they held."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self.tensors = list(tensors)
        self.versions = [_version(x) for x in self.tensors]

    def check(self, what: str) -> None:
        if [_version(x) for x in self.tensors] != self.versions:
            raise RegardError(
                f"{what} was changed in place since the recording; read the weights before that, or keep a "
                "copy"
            )


def _version(x: Tensor) -> int | None:
    if x.is_inference():
        return None
    return x._version


class Source(ABC):
    """One attention. Weights are b h n m, in float32 at least."""

    b: int
    h: int
    n: int
    m: int
    q: Tensor | None = None  # b h n c
    k: Tensor | None = None  # b g m c
    v: Tensor | None = None  # b g m e
    out: Tensor  # b h n e
    numbers: tuple[int, ...] | None = None  # the numbers of the heads that are wanted; None: all
    rows: Tensor | None = None  # and of the rows
    # where the wanted heads are among those computed; None: they are all of them
    among: tuple[int, ...] | None = None

    @abstractmethod
    def all_weights(self, rows: Rows) -> Tensor:
        """Weights of these rows for every head.   b h r m"""

    def sums(self, weights: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Σ_j w_ij (v_j + r_ij) and Σ_j |w_ij| |v_j| + |Σ_j w_ij r_ij| for weights of every head.
        b h r m -> b h r e, twice"""
        assert self.v is not None
        return both_sums(weights, heads_of(self.v, self.h))

    def group_values(self, group: Callable[[Tensor, torch.dtype], Tensor]) -> Tensor:
        """The number of the group in which each key's value is, for every head.   b h m"""
        assert self.v is not None
        return heads_of(group(self.v, self.out.dtype)[..., None], self.h)[..., 0]

    def weight_in_groups(self, groups: Tensor, weights: Tensor, rows: Rows) -> Tensor:
        """How much of the weight of these rows lies in each group of keys.   b h m and b h r m -> b h g"""
        return sum_in_groups(groups, weights.abs().sum(-2))

    def held(self, shelf: list[Tensor]) -> None:
        """Copy what is to be kept for later. The shelf has masks of other attentions, which need not be held
        twice."""
        self.q, self.k, self.v = (None if x is None else copy_detached(x) for x in (self.q, self.k, self.v))
        self.out = copy_detached(self.out)

    def choose(self, heads: Sequence[int] | None, rows: Tensor | None) -> None:
        """Only these heads and rows are wanted. A source that can leave the others out at once does so."""
        self.rows = rows
        if heads is not None:
            self.numbers = self.among = tuple(heads)

    def weights(self) -> Tensor:
        """Of the heads and rows that are wanted.   b h r m"""
        with quiet(self.out):
            if self.rows is None:
                rows: Rows = slice(0, self.n)
            else:
                rows = self.rows.to(self.out.device)
            return self.picked(self.all_weights(rows))

    def picked(self, x: Tensor) -> Tensor:
        """The heads that are wanted, of those there are.   b h ... -> b h' ..."""
        if self.among is None:
            return x
        return x[:, list(self.among)]

    def wanted_rows(self) -> Tensor:
        if self.rows is None:
            return torch.arange(self.n)
        return self.rows

    def blocks(self, most: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Wanted rows a few at a time, with their weights for every head, so that few are in memory at
        once."""
        wanted = self.wanted_rows().to(self.out.device)
        step = max(1, most // max(1, self.b * self.h * self.m))
        for start in range(0, len(wanted), step):
            rows = wanted[start : start + step]
            yield rows, self.all_weights(rows)


def sum_in_groups(groups: Tensor, weights: Tensor) -> Tensor:
    """The weights in each group, those in no group left out.   ... m -> ... g"""
    total = weights.new_zeros(*weights.shape[:-1], weights.shape[-1] + 2)
    return total.scatter_add(-1, groups, weights)[..., 1:]


def both_sums(weights: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_j w_ij v_j and Σ_j |w_ij| |v_j|.   b h r m and b h m e -> b h r e, twice"""
    widest = torch.promote_types(weights.dtype, wide(v).dtype)
    weights, v = weights.to(widest), v.to(widest)
    if weights.numel() and weights.amin() < 0:
        return weights @ v, weights.abs() @ v.abs()
    both = weights @ torch.cat((v, v.abs()), -1)
    return both[..., : v.shape[-1]], both[..., v.shape[-1] :]


@contextmanager
def quiet(x: Tensor) -> Iterator[None]:
    """Compute beside the model: no gradient, no autocast, ordinary tensors."""
    with torch.inference_mode(False), torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        yield


def wide(x: Tensor) -> Tensor:
    """In float32 at least."""
    if x.dtype in (torch.float32, torch.float64):
        return x
    return x.float()


def softmax(scores: Tensor) -> Tensor:
    """Over the last axis; a row of nothing but −inf has zeros, as in the fused kernels."""
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    return scores.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)
