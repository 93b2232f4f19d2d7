"""Where weights come from: a few tensors from which any rows of them can be computed, and the sum they must
give.

`q`, `k`, `v`, `out` and small masks are copies, so that a cache written on or a gradient step cannot change what was
recorded. Whatever else weights depend on (a large mask, a parameter of a bias, a table that a function of the user has)
is not watched: each time weights are read they are summed with the values again, which must give what it gave.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.kernels.reference import heads_of
from regard.errors import RegardError
from regard.look.recording.calls import copy_detached
from regard.look.recording.provenance import Ancestors, Index, Node, WeightedValues

Rows = slice | Tensor
MOST = 2**22  # weights in memory at once
COPIED = 2**24  # elements of a mask that is copied; a larger one is kept as it is
EACH_ROW = "bhnm,bhnme->bhne"  # every row has values of its own
# How far a channel of the sum may be from what was computed, relative to Σ_j |w_ij| |v_jc| of that channel and
# row, which is what rounding is relative to. Fused kernels round the weights of half precision before they are
# multiplied; in float32 a score of 100 is known to about 1e-5, and so are its weights.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 2e-2}


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
    errors: Tensor | None = None  # b h r: those of the proof, which must come again; None: the weights are a copy

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

    def hold(self, shelf: list[Tensor]) -> None:
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
            weights = self.all_weights(rows)
            self._check_unchanged(weights, rows, 0)
            return self.pick_heads(weights)

    def sum_errors(self, weights: Tensor, rows: Rows) -> Tensor:
        """How far the sum of the values by these weights is from what was computed; NaN where any weights would give
        that.   b h r m -> b h r"""
        mine, size = self.sums(weights, rows)
        found = relative_errors(mine, self.out[:, :, rows], size, self.out.dtype)
        if not size.isfinite().all():
            found = found.masked_fill(~size.isfinite().any(-1) & weights.isfinite().all(-1), torch.nan)
        return self.pick_heads(found).float()

    def _check_unchanged(self, weights: Tensor, rows: Rows, first: int) -> None:
        """Raise unless the sums of these rows, from the wanted one of this number on, are as in the proof."""
        if self.errors is None:
            return
        found = self.sum_errors(weights, rows)
        before = self.errors[:, :, first : first + found.shape[2]]
        near = (found - before).abs() <= tolerance_of(self.out.dtype)
        if not (near | (found == before) | (found.isnan() & before.isnan())).all():
            raise RegardError(
                "what these weights depend on (a mask, a bias, a table) was changed in place since the recording; "
                "read the weights before that, or record with keep='summary'"
            )

    def pick_heads(self, x: Tensor) -> Tensor:
        """The heads that are wanted, of those there are.   b h ... -> b h' ..."""
        return x if self.among is None else x[:, list(self.among)]

    def blocks(self) -> Iterator[tuple[Rows, Tensor]]:
        """Wanted rows a few at a time, with their weights for every head, so that few are in memory at once."""
        step = max(1, MOST // max(1, self.b * self.h * self.m))
        if self.rows is None:
            found: Iterable[Rows] = (slice(at, min(at + step, self.n)) for at in range(0, self.n, step))
        else:
            found = self.rows.to(self.out.device).split(step) if len(self.rows) else ()
        first = 0
        for rows in found:
            weights = self.all_weights(rows)
            self._check_unchanged(weights, rows, first)
            first += weights.shape[2]
            yield rows, weights


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
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def tolerance_of(dtype: torch.dtype) -> float:
    return TOLERANCE.get(dtype, TOLERANCE[torch.bfloat16])


def relative_errors(mine: Tensor, theirs: Tensor, size: Tensor, dtype: torch.dtype) -> Tensor:
    """|mine − theirs| / size, the largest of the last axis. NaN where both are NaN is agreement, NaN in one of
    them is none at all. What the smallest numbers of a dtype cannot hold is no error."""
    if not mine.numel():
        return mine.new_zeros(mine.shape[:-1])
    theirs = wide(theirs).to(mine.dtype)
    errors = ((mine - theirs).abs() / size).amax(-1)
    if errors.isfinite().all() and errors.max() <= tolerance_of(dtype):  # nearly always, and this is quick
        return errors
    same = (mine == theirs) | (mine.isnan() & theirs.isnan())
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    apart = ((mine - theirs).abs() - smallest * (1 + size.nan_to_num())).clamp(min=0)
    errors = (apart / size).masked_fill((apart == 0) | same, 0)
    return errors.nan_to_num(nan=torch.inf).amax(-1)


def close_to_one(dtype: torch.dtype) -> float:
    """How near to one a row of weights must sum: exp(a − logsumexp(a)) in bfloat16 is off by 0.03."""
    return 1e-3 if torch.finfo(dtype).bits > 16 else 5e-2


def softmax(scores: Tensor) -> Tensor:
    """Over the last axis; a row of nothing but −inf has zeros, as in the fused kernels."""
    weights = scores.softmax(-1)
    if not weights[..., :1].isnan().any():  # nearly always, and this is quick
        return weights
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    return scores.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)


# ── weights that the model computed


class RecordedWeights(Source):
    """Weights that the model itself computed, and the values they were summed with."""

    def __init__(
        self,
        weights: Tensor,
        values: Tensor,
        out: Tensor,
        q: Tensor | None = None,
        k: Tensor | None = None,
        ancestors: Ancestors | None = None,
        note: str | None = None,
        changed: float = 0.0,
    ) -> None:
        """ancestors: of queries and keys, where they are known. changed: how far the weights that were summed are
        from those of the softmax"""
        self.kept, self.q, self.k, self.out = weights, q, k, out
        self.ancestors, self.note, self.changed = ancestors, note, changed
        self.b, self.h, self.n, self.m = weights.shape
        self.values = values  # b h m e, or b h n m e when every row has values of its own
        self.v = values if values.dim() == 4 else None
        self.slots: Tensor | None = None  # where a row is among those that were held

    @classmethod
    def alone(cls, weights: Tensor, *known: Any) -> RecordedWeights:
        """Weights of which no sum with values is known."""
        return cls(weights, weights.mT[..., :0], weights[..., :0], *known)

    @property
    def itself(self) -> bool:
        """Do queries and keys come from the same tokens? By their lengths, where nothing else is known."""
        if self.ancestors is not None:
            return bool(self.ancestors[0] & self.ancestors[1])
        return self.n == self.m and self.n > 1

    def choose(self, heads: Sequence[int] | None, rows: Tensor | None) -> None:
        self.rows = rows
        if heads is None:
            return
        chosen = list(heads)
        self.kept, self.values, self.out = self.kept[:, chosen], self.values[:, chosen], self.out[:, chosen]
        self.q, self.k = (None if x is None else heads_of(x, self.h)[:, chosen] for x in (self.q, self.k))
        self.v = self.values if self.values.dim() == 4 else None
        self.h, self.numbers = len(chosen), tuple(chosen)

    def hold(self, shelf: list[Tensor]) -> None:
        super().hold(shelf)
        self.errors = None
        if self.rows is None:
            self.kept = copy_detached(self.kept)
        else:
            self.kept = copy_detached(self.kept[:, :, self.rows])
            self.slots = torch.zeros(self.n, dtype=torch.long).index_put((self.rows,), torch.arange(len(self.rows)))
        self.values = self.values[..., :0]  # the proof is done

    def all_weights(self, rows: Rows) -> Tensor:
        return wide(self.kept[:, :, rows if self.slots is None else self.slots[rows]]).contiguous()

    def sums(self, weights: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        if self.values.dim() == 4:
            return both_sums(weights, self.values)
        values = wide(self.values[:, :, rows])
        weights = weights.to(values.dtype)
        sums = [torch.einsum(EACH_ROW, w, v) for w, v in ((weights, values), (weights.abs(), values.abs()))]
        return sums[0], sums[1]

    def group_values(self, group: Callable[[Tensor, torch.dtype], Tensor]) -> Tensor:
        return group(self.values, self.out.dtype)

    def weight_in_groups(self, groups: Tensor, weights: Tensor, rows: Rows) -> Tensor:
        if groups.dim() == 3:
            return super().weight_in_groups(groups, weights, rows)
        largest = sum_in_groups(groups[:, :, rows], weights.abs()).amax(-1)  # of each row
        return largest.sum(-1, keepdim=True)


def slim(source: Source) -> Source:
    """The same, holding its weights instead of keys and values, where a few queries look at many keys (a step
    with a cache)."""
    if source.k is None or source.n >= source.m or source.b * source.h * source.n * source.m > source.k.numel():
        return source
    with quiet(source.out):
        weights = source.all_weights(slice(0, source.n))
    kept = RecordedWeights(weights, weights[..., :0], source.out, source.q, None)
    kept.v, kept.numbers, kept.rows, kept.among = None, source.numbers, source.rows, source.among
    return kept


# ── sums of values as they are heard


@dataclass(eq=False)
class Sum:
    """A sum of values: out_β,r = Σ_j w_β,r,j v_β,j, with the weights as they were laid out for it."""

    node: Node  # of the weights
    starts: np.ndarray  # B R: where in their storage the first weight of each sum is
    step: int  # how far apart two neighbouring weights of a sum are
    storage: Tensor  # a tensor in the storage of the weights
    weights: Tensor  # B R m; a copy, perhaps
    values: Tensor  # B m e
    out: Tensor  # B R e
    ends: tuple[Index, Index] | None = None  # the first and the last weight of each sum, in the tensor of the root

    def find_ends(self) -> tuple[Index, Index] | None:
        """B R for each axis; None if they are not known."""
        if self.ends is not None:
            return self.ends
        first = self.node.locate(self.starts)
        last = self.node.locate(self.starts + self.step * (self.values.shape[1] - 1))
        if first is None or last is None:
            return None
        return first, last


def join(parts: list[Sum]) -> Sum | None:
    """Sums of parts of the same weights, head by head or a few rows at a time, as one; None if their sizes
    differ."""
    shapes = {(part.weights.shape[1:], part.values.shape[1:]) for part in parts}
    ends = [part.find_ends() for part in parts]
    known = [each for each in ends if each is not None]
    if len(shapes) != 1 or len(known) != len(parts):
        return None
    first, last = (
        [np.concatenate(axis) for axis in zip(*(each[end] for each in known), strict=True)] for end in (0, 1)
    )
    weights, values, out = (torch.cat([getattr(part, name) for part in parts]) for name in ("weights", "values", "out"))
    changes = tuple(change for part in parts for change in part.node.changes)
    dropped = any(part.node.dropped for part in parts)
    node = replace(parts[0].node, changes=changes, dropped=dropped)
    whole = replace(parts[0], node=node, weights=weights, values=values, out=out)
    return replace(whole, ends=(first, last))


def of_product(node: Node, weights: Tensor, values: Tensor, out: Tensor, *, right: bool) -> Sum:
    """weights @ values, or values @ weights (`right`), of matrices or batches of them."""
    weights, values, out = (x if x.dim() == 3 else x[None] for x in (weights, values, out))
    if right:
        weights, values, out = weights.mT, values.mT, out.mT
    (b, r, _), (sb, sr, sm) = weights.shape, weights.stride()
    starts = int(weights.storage_offset()) + np.arange(b)[:, None] * sb + np.arange(r)[None] * sr
    return Sum(node, starts, sm, weights.detach(), weights.detach(), values, out)


def from_weighted_sum(root: WeightedValues, view: Tensor, axis: int, out: Tensor) -> Sum | None:
    """(weights * values).sum(axis): the last axis along which the weights are all the same is that of the
    channels."""
    laid, values = root.view, root.values.expand(root.view.sizes)
    if tuple(view.shape) != laid.sizes:
        return None
    channels = [a for a in range(len(laid.sizes)) if a != axis and laid.strides[a] == 0 and laid.sizes[a] > 1]
    if not channels:
        return None
    rest = [a for a in range(len(laid.sizes)) if a not in (axis, channels[-1])]
    starts = np.asarray(laid.start)
    for a in rest:
        starts = starts[..., None] + np.arange(laid.sizes[a]) * laid.strides[a]
    order = [*rest, axis, channels[-1]]
    flat = values.permute(order).reshape(-1, laid.sizes[axis], laid.sizes[channels[-1]])
    used = root.weights.expand(laid.sizes).permute(order)[..., 0].reshape(-1, 1, laid.sizes[axis])
    sums = out.reshape([laid.sizes[a] for a in range(len(laid.sizes)) if a != axis])
    kept = [a for a in range(len(laid.sizes)) if a != axis]
    sums = sums.permute([kept.index(a) for a in (*rest, channels[-1])]).reshape(-1, 1, laid.sizes[channels[-1]])
    return Sum(root.node, starts.reshape(-1, 1), laid.strides[axis], root.weights, used, flat, sums)
