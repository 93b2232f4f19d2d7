"""Attention written out: scores, a softmax, a sum of values. From where each element came, the three are put
together.

A softmax is attention when its weights are summed with values along the axis that it ran over. How they were
laid out for that (batch and heads in one axis, transposed, groups of heads that share values) is found by
locating elements, not by shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.attention.kernels.reference import heads_of
from regard.look.recording.calls import copy_detached
from regard.look.recording.lineage import Index, Node, Product, Weighted, Weights
from regard.look.recording.source import Rows, Source, both_sums, quiet, wide

MERGED = "heads cannot be told from the batch here: each is listed as a row of the batch, with one head"
EACH_ROW = "bhnm,bhnme->bhne"  # every row has values of its own
SINK = "the softmax ran over more columns than there are values (attention sinks): weights sum to less than 1"


class Kept(Source):
    """Weights that the model itself computed, and the values they were summed with."""

    def __init__(
        self, weights: Tensor, values: Tensor, out: Tensor, q: Tensor | None, k: Tensor | None
    ) -> None:
        self.kept, self.q, self.k, self.out = weights, q, k, out
        self.b, self.h, self.n, self.m = weights.shape
        self.values = values  # b h m e, or b h n m e when every row has values of its own
        self.v = values if values.dim() == 4 else None
        self.slots: Tensor | None = None  # where a row is among those that were held

    def choose(self, heads: Sequence[int] | None, rows: Tensor | None) -> None:
        self.rows = rows
        if heads is None:
            return
        chosen = list(heads)
        self.kept, self.values, self.out = self.kept[:, chosen], self.values[:, chosen], self.out[:, chosen]
        self.q, self.k = (None if x is None else heads_of(x, self.h)[:, chosen] for x in (self.q, self.k))
        self.v = self.values if self.values.dim() == 4 else None
        self.h, self.numbers = len(chosen), tuple(chosen)

    def held(self, shelf: list[Tensor]) -> None:
        super().held(shelf)
        if self.rows is None:
            self.kept = copy_detached(self.kept)
        else:
            self.kept = copy_detached(self.kept[:, :, self.rows])
            self.slots = torch.zeros(self.n, dtype=torch.long).index_put(
                (self.rows,), torch.arange(len(self.rows))
            )
        self.values = self.kept[..., :0]  # the proof is done

    def all_weights(self, rows: Rows) -> Tensor:
        return wide(self.kept[:, :, rows if self.slots is None else self.slots[rows]])

    def sums(self, weights: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        if self.values.dim() == 4:
            return both_sums(weights, self.values.to(weights.dtype))
        values = self.values[:, :, rows].to(weights.dtype)
        sums = [torch.einsum(EACH_ROW, w, v) for w, v in ((weights, values), (weights.abs(), values.abs()))]
        return sums[0], sums[1]

    def spread_values(self, find: Callable[[Tensor, torch.dtype], Tensor]) -> Tensor:
        return find(self.values, self.out.dtype)

    def weight_on(self, chosen: Tensor, weights: Tensor, rows: Rows) -> Tensor:
        if chosen.dim() == 3:
            return super().weight_on(chosen, weights, rows)
        return (weights.abs() * chosen[:, :, rows]).sum((-2, -1))


def slim(source: Source) -> Source:
    """The same, holding its weights instead of keys and values, where a few queries look at many keys (a step
    with a cache)."""
    if (
        source.k is None
        or source.n >= source.m
        or source.b * source.h * source.n * source.m > source.k.numel()
    ):
        return source
    with quiet(source.out):
        weights = source.all_weights(slice(0, source.n))
    kept = Kept(weights, weights[..., :0], source.out, source.q, None)
    kept.v, kept.numbers, kept.rows, kept.among = None, source.numbers, source.rows, source.among
    return kept


@dataclass(eq=False)
class Sum:
    """A sum of values: out_β,r = Σ_j w_β,r,j v_β,j, with the weights as they were laid out for it."""

    node: Node  # of the weights
    starts: np.ndarray  # B R: where in their storage the first weight of each sum is
    step: int  # how far apart two neighbouring weights of a sum are
    values: Tensor  # B m e
    out: Tensor  # B R e


def of_product(node: Node, weights: Tensor, values: Tensor, out: Tensor, *, right: bool) -> Sum:
    """weights @ values, or values @ weights (`right`), of matrices or batches of them."""
    weights, values, out = (x if x.dim() == 3 else x[None] for x in (weights, values, out))
    if right:
        weights, values, out = weights.mT, values.mT, out.mT
    (b, r, _), (sb, sr, sm) = weights.shape, weights.stride()
    starts = int(weights.storage_offset()) + np.arange(b)[:, None] * sb + np.arange(r)[None] * sr
    return Sum(node, starts, sm, values, out)


def from_weighted_sum(root: Weighted, view: Tensor, axis: int, out: Tensor) -> Sum | None:
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
    sums = out.reshape([laid.sizes[a] for a in range(len(laid.sizes)) if a != axis])
    kept = [a for a in range(len(laid.sizes)) if a != axis]
    sums = sums.permute([kept.index(a) for a in (*rest, channels[-1])]).reshape(
        -1, 1, laid.sizes[channels[-1]]
    )
    return Sum(root.node, starts.reshape(-1, 1), laid.strides[axis], flat, sums)


@dataclass(eq=False)
class Linked:
    """Attention that was put together."""

    source: Kept
    kin: tuple[frozenset[int], frozenset[int]] | None  # of queries and keys, where they are known
    note: str | None


def link(found: Sum) -> Linked | None:
    """The attention of which this is the sum, or None if its weights are no weights of it."""
    root = found.node.root
    assert isinstance(root, Weights)
    if root.tensor is None:
        return None
    m = found.values.shape[1]
    first = found.node.locate(found.starts)
    last = found.node.locate(found.starts + found.step * (m - 1))
    if first is None or last is None or not _along(first, last, root.axis, m, root.tensor.shape[root.axis]):
        return None
    layout = Layout.of(root, first)
    if layout is None:
        return None
    column = int(first[root.axis].flat[0])
    cells = layout.laid(root.tensor)[..., column : column + m]  # L n m
    sums = found.out.reshape(-1, found.out.shape[-1])
    out = (sums if layout.in_order else sums[layout.order]).reshape(len(cells), layout.n, -1)
    # which values each row was summed with
    owner = (layout.order // found.out.shape[1]).reshape(len(cells), layout.n)
    if (owner == owner[:, :1]).all():
        if layout.in_order and len(cells) == len(found.values):
            values = found.values
        else:
            values = found.values[owner[:, 0]]
    else:
        values = found.values[owner]
    scores = Scores.of(root, layout, m)
    where, note = _arranged(layout, scores)
    shape = where.shape
    q, k = (None, None) if scores is None else (scores.q, scores.k)

    def put(x: Tensor) -> Tensor:
        plain = (where == np.arange(where.size).reshape(shape)).all()
        return (x if plain else x[where.reshape(-1)]).reshape(*shape, *x.shape[1:])

    source = Kept(
        put(cells), put(values), put(out), None if q is None else put(q), None if k is None else put(k)
    )
    if m < root.tensor.shape[root.axis]:
        note = SINK if note is None else f"{note}; {SINK}"
    return Linked(source, None if scores is None else scores.kin, note)


def _along(first: Index, last: Index, axis: int, m: int, whole: int) -> bool:
    """Does each sum run along the axis of the softmax, and along no other?"""
    for a, (i, j) in enumerate(zip(first, last, strict=True)):
        if (j - i != (m - 1 if a == axis else 0)).any():
            return False
    return (first[axis] == first[axis].flat[0]).all() and (m == whole or m > 1)


@dataclass(eq=False)
class Layout:
    """The axes of a softmax: the one it ran over, that of the queries (None: there is one query), and all
    others."""

    sizes: tuple[int, ...]
    axis: int
    row: int | None
    others: tuple[int, ...]
    order: np.ndarray  # L·n: which sum, in the order of B R, is that of each cell and row
    in_order: bool

    @property
    def n(self) -> int:
        if self.row is None:
            return 1
        return self.sizes[self.row]

    @classmethod
    def of(cls, root: Weights, first: Index) -> Layout | None:
        """From the element with which each sum begins: B R for each axis."""
        assert root.tensor is not None
        sizes, rank = tuple(root.tensor.shape), root.tensor.dim()
        rest = [a for a in range(rank) if a != root.axis]
        moving = [a for a in rest if (first[a] != first[a][:, :1]).any()]
        usual = rest[-1] if rest else None
        if usual is None:
            row = None
        elif first[0].shape[1] > 1:
            if usual in moving or not moving or (sizes[usual] == 1 and rank > 4):
                row = usual
            else:
                row = moving[-1]
        else:
            if rank > 3 or (rank == 3 and sizes[usual] == 1):
                row = usual
            else:
                row = None
        others = tuple(a for a in rest if a != row)
        cell = np.zeros_like(first[0])
        for a in others:
            cell = cell * sizes[a] + first[a]
        n = 1 if row is None else sizes[row]
        flat = (cell * n + (0 if row is None else first[row])).reshape(-1)
        count = int(np.prod([sizes[a] for a in rest], dtype=np.int64))
        # some rows were left out, or used more than once
        if flat.size != count or len(np.unique(flat)) != count:
            return None
        in_order = bool((flat == np.arange(count)).all())
        return cls(
            sizes, root.axis, row, others, np.arange(count) if in_order else np.argsort(flat), in_order
        )

    def laid(self, x: Tensor) -> Tensor:
        """A tensor of the softmax's sizes as L n m."""
        axes = (*self.others, *(() if self.row is None else (self.row,)), self.axis)
        return x.permute(axes).reshape(-1, self.n, self.sizes[self.axis])

    def element(self, row: int, column: int) -> Index:
        """An element of every cell.   L for each axis"""
        sizes = [self.sizes[a] for a in self.others]
        cells = np.indices(sizes).reshape(len(sizes), int(np.prod(sizes, dtype=np.int64)))
        found = [np.zeros(cells.shape[1], dtype=np.int64) for _ in self.sizes]
        for a, index in zip(self.others, cells, strict=True):
            found[a] = index
        if self.row is not None:
            found[self.row] = found[self.row] + row
        found[self.axis] = found[self.axis] + column
        return found


@dataclass(eq=False)
class Scores:
    """The product of queries and keys that a softmax was given."""

    q: Tensor | None  # L n c
    k: Tensor | None  # L m c
    kin: tuple[frozenset[int], frozenset[int]]
    origins: list[
        Index
    ]  # for each of q and k: where in the projection its first channel came from, L for each axis
    channels: list[int]

    @classmethod
    def of(cls, root: Weights, layout: Layout, m: int) -> Scores | None:
        product = None if root.given is None else root.given.root
        corner = _located(root, layout.element(0, 0))
        if (
            corner is None
            or not isinstance(product, Product)
            or product.left is None
            or product.right is None
        ):
            return None
        down, across = (
            _located(root, layout.element(layout.n - 1, 0)),
            _located(root, layout.element(0, m - 1)),
        )
        if down is None or across is None:
            return None
        keys_right = bool((across[-1] - corner[-1] == m - 1).all()) and bool(
            (down[-2] - corner[-2] == layout.n - 1).all()
        )
        keys_left = bool((across[-2] - corner[-2] == m - 1).all()) and bool(
            (down[-1] - corner[-1] == layout.n - 1).all()
        )
        if not keys_right and not keys_left:
            return None
        left, right = product.left, product.right.mT  # ... x c and ... y c
        sides = [(left, product.left_node, corner[-2]), (right, product.right_node, corner[-1])]
        kin = product.kin
        if not keys_right:
            sides.reverse()
            kin = kin[1], kin[0]
        if len(corner) == 3:
            batch = corner[0]
        else:
            batch = np.zeros_like(corner[0])
        shown: list[Tensor | None] = []
        origins: list[Index] = []
        channels: list[int] = []
        for (x, node, start), count in zip(sides, (layout.n, m), strict=True):
            x = x if x.dim() == 3 else x[None]
            fits = x.shape[1] == count and not start.any()
            if not fits:
                shown.append(None)
            else:
                shown.append(x if _in_order(batch, len(x)) else x[batch])
            if node is not None and isinstance(node.root, Product):
                offsets = int(x.storage_offset()) + batch * x.stride(0) + start * x.stride(1)
                origin = node.locate(offsets)
                if origin is not None:
                    origins.append(origin)
                    channels.append(node.root.channel)
        return cls(shown[0], shown[1], kin, origins, channels)


def _located(root: Weights, index: Index) -> Index | None:
    """Elements of the softmax, in the product that gave its scores."""
    offsets = root.view.offsets(index)
    if offsets is None or root.given is None:
        return None
    return root.given.locate(offsets)


def _in_order(index: np.ndarray, count: int) -> bool:
    return len(index) == count and bool((index == np.arange(count)).all())


def _arranged(layout: Layout, scores: Scores | None) -> tuple[np.ndarray, str | None]:
    """Which cell is which row of the batch and which head.   b h"""
    sizes = [layout.sizes[a] for a in layout.others]
    cells = np.arange(int(np.prod(sizes, dtype=np.int64)))
    if scores is not None:
        for origin, channel in zip(scores.origins, scores.channels, strict=True):
            found = _by_token(origin, channel)
            if found is not None:
                return found, None
    if len(sizes) < 2:
        return cells.reshape(-1, 1), MERGED if len(cells) > 1 else None
    return cells.reshape(-1, sizes[-1]), None  # b h n m, as most write it


def _by_token(origin: Index, channel: int) -> np.ndarray | None:
    """Heads are what was projected from one token into channels side by side.   L for each axis -> b h"""
    channel %= len(origin)
    tokens = np.stack([i for a, i in enumerate(origin) if a != channel])
    _, token = np.unique(tokens, axis=1, return_inverse=True)
    token = token.reshape(-1)
    counts = np.bincount(token)
    if (counts != counts[0]).any():
        return None
    # each row: one token, channels in order
    order = np.lexsort((origin[channel], token)).reshape(-1, counts[0])
    if counts[0] > 1 and (np.diff(origin[channel][order], axis=1) == 0).any():
        return None
    return order
