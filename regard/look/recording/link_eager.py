"""Attention written out: scores, a softmax, a sum of values. From where each element came, the three are put
together.

A softmax is attention when its weights are summed with values along the axis that it ran over. How they were
laid out for that (batch and heads in one axis, transposed, groups of heads that share values) is found by
locating elements, not by shapes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.look.recording.provenance import Ancestors, Index, Product, Softmax
from regard.look.recording.weighted_sum import RecordedWeights, Sum

MERGED = "heads cannot be told from the batch here: each is listed as a row of the batch, with one head"
SINK = "the softmax ran over more columns than there are values (attention sinks): weights sum to less than 1"
HEADS, QUERIES = "heads", "queries"
GUESSED = "which axis is that of the batch, of the heads and of the queries was not heard: this order is a guess"
EMPTY = "rows whose weights were all set to zero after the softmax are shown as zeros"


def link(found: Sum) -> RecordedWeights | None:
    """The attention of which this is the sum, or None if its weights are no weights of it."""
    root = found.node.root
    assert isinstance(root, Softmax)
    if root.tensor is None:
        return None
    m = found.values.shape[1]
    ends = found.find_ends()
    if ends is None or not _along(*ends, root.axis, m, root.tensor.shape[root.axis]):
        return None
    first, _ = ends
    layout = Layout.of(root, first, m)
    if layout is None:
        return None
    column = int(first[root.axis].flat[0])
    cells = layout.to_cells(root.tensor)[..., column : column + m]  # L n m
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
    arranged = HeadOrder.of(root, layout, m)
    kept, note, changed = arranged.to_heads(cells), arranged.note, 0.0
    if found.node.changes and not found.node.dropped:
        rows = (found.weights.real if found.weights.is_complex() else found.weights).reshape(-1, m)
        used = (rows if layout.in_order else rows[layout.order]).reshape(cells.shape)
        kept, changed, emptied = _compare(kept, arranged.to_heads(used))
        if emptied:
            note = _joined(note, EMPTY)
    if m < root.tensor.shape[root.axis]:
        note = _joined(note, SINK)
    values, out = (torch.view_as_real(x).flatten(-2) if x.is_complex() else x for x in (values, out))
    laid = arranged.to_heads(values), arranged.to_heads(out)
    return RecordedWeights(kept, *laid, arranged.q, arranged.k, arranged.ancestors, note, changed)


def show_unsummed(root: Softmax) -> RecordedWeights:
    """A softmax of which no sum with values was heard: its weights, laid out as most write them."""
    assert root.tensor is not None
    layout = Layout.usual(root)
    arranged = HeadOrder.of(root, layout, layout.sizes[root.axis])
    weights = arranged.to_heads(layout.to_cells(root.tensor))
    return RecordedWeights.alone(weights, arranged.q, arranged.k, arranged.ancestors, arranged.note)


def find_mixing(found: Sum) -> str | None:
    """Over what weights are summed with each other, if the sum does not run along the axis of the softmax."""
    root = found.node.root
    assert isinstance(root, Softmax) and root.tensor is not None
    first, second = found.node.locate(found.starts), found.node.locate(found.starts + found.step)
    if first is None or second is None or found.weights.shape[-1] < 2:
        return None
    if (first[root.axis] != second[root.axis]).any():
        return None
    rows = max(axis for axis in range(root.tensor.dim()) if axis != root.axis)
    if (first[rows] != second[rows]).any():
        return QUERIES
    return HEADS


def explain_unsummed(root: Softmax) -> str:
    """Why nothing is proved of a softmax whose weights met no values."""
    steps = ", ".join(dict.fromkeys(root.lost))
    if root.mixed == QUERIES:
        return f"the weights were summed along another axis than that of the softmax ({steps}), and with no values along it"
    if root.mixed is not None:
        return (
            f"after the softmax the weights were mixed between {root.mixed} ({steps}), and others than these "
            "were multiplied with the values: these are the weights before that"
        )
    if steps:
        return f"no sum of these weights with values was heard; after the softmax they went through {steps}"
    if root.parts:
        return "these weights were summed with values in parts that could not be put together"
    return "no sum of these weights with values was heard"


def _joined(note: str | None, more: str) -> str:
    return more if note is None else f"{note}; {more}"


def _compare(kept: Tensor, used: Tensor) -> tuple[Tensor, float, bool]:
    """The weights of a softmax and those that were summed with values: how far apart they are beyond
    rounding. Queries with nothing to look at, whose weights were set to zero in all heads, count as zeros;
    whether there are any is the third answer.   b h n m"""
    dtype = min((kept.dtype, used.dtype), key=lambda each: torch.finfo(each).bits)
    known = torch.finfo(dtype)
    widest = torch.promote_types(kept.dtype, used.dtype)
    kept, used = kept.to(widest), used.to(widest)
    allowed = kept.abs() * (known.eps * (16 if known.bits > 16 else 1)) + known.smallest_normal
    apart = (kept - used).abs().masked_fill((kept == used) | (kept.isnan() & used.isnan()), 0)
    apart = apart.nan_to_num(nan=torch.inf).masked_fill(apart <= allowed, 0)
    if not apart.any():
        return kept, 0.0, False
    empty = (used == 0).all(-1).all(1, keepdim=True)  # b 1 n
    empty &= ~empty.all(-1, keepdim=True)
    apart = apart.masked_fill(empty[..., None], 0)
    return kept.masked_fill(empty[..., None], 0), float(apart.max()), bool(empty.any())


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
        return 1 if self.row is None else self.sizes[self.row]

    @classmethod
    def of(cls, root: Softmax, first: Index, m: int) -> Layout | None:
        """From the element with which each sum begins: B R for each axis. If one axis fits the product of
        queries and keys, it is that of the queries."""
        found = cls.with_query_axis(root, first, None)
        if found is None or len(found.sizes) < 3 or first[0].shape[1] > 1 or root.given is None:
            return found
        if Scores.of(root, found, m) is not None:
            return found
        for axis in found.others:
            other = cls.with_query_axis(root, first, axis)
            if other is not None and Scores.of(root, other, m) is not None:
                return other
        return found

    @classmethod
    def with_query_axis(cls, root: Softmax, first: Index, row: int | None) -> Layout | None:
        """With this axis for the queries; None: the one that seems to be theirs."""
        assert root.tensor is not None
        sizes, rank = tuple(root.tensor.shape), root.tensor.dim()
        rest = [a for a in range(rank) if a != root.axis]
        moving = [a for a in rest if (first[a] != first[a][:, :1]).any()]
        usual = rest[-1] if rest else None
        if row is not None or usual is None:
            pass
        elif first[0].shape[1] > 1:
            if usual in moving or not moving or (sizes[usual] == 1 and rank > 4):
                row = usual
            else:
                row = moving[-1]
        else:
            row = usual if rank > 3 or (rank == 3 and sizes[usual] == 1) else None
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
        return cls(sizes, root.axis, row, others, np.arange(count) if in_order else np.argsort(flat), in_order)

    @classmethod
    def usual(cls, root: Softmax) -> Layout:
        """The queries are the last axis over which the softmax did not run."""
        assert root.tensor is not None
        sizes = tuple(root.tensor.shape)
        rest = [a for a in range(len(sizes)) if a != root.axis]
        count = int(np.prod([sizes[a] for a in rest], dtype=np.int64))
        return cls(sizes, root.axis, rest[-1] if rest else None, tuple(rest[:-1]), np.arange(count), in_order=True)

    def to_cells(self, x: Tensor) -> Tensor:
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
    ancestors: Ancestors
    origins: list[Index]  # for each of q and k: where in the projection its first channel came from, L for each axis
    channels: list[int]

    @classmethod
    def of(cls, root: Softmax, layout: Layout, m: int) -> Scores | None:
        product = None if root.given is None else root.given.root
        corner = _located(root, layout.element(0, 0))
        if corner is None or not isinstance(product, Product) or product.left is None or product.right is None:
            return None
        down, across = (_located(root, layout.element(layout.n - 1, 0)), _located(root, layout.element(0, m - 1)))
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
        ancestors = product.ancestors
        if not keys_right:
            sides.reverse()
            ancestors = ancestors[1], ancestors[0]
        batch = corner[0] if len(corner) == 3 else np.zeros_like(corner[0])
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
        return cls(shown[0], shown[1], ancestors, origins, channels)


def _located(root: Softmax, index: Index) -> Index | None:
    """Elements of the softmax, in the product that gave its scores."""
    offsets = root.view.offsets(index)
    if offsets is None or root.given is None:
        return None
    return root.given.locate(offsets)


def _in_order(index: np.ndarray, count: int) -> bool:
    return len(index) == count and bool((index == np.arange(count)).all())


@dataclass(eq=False)
class HeadOrder:
    """Which cell is which row of the batch and which head, and what is known of queries and keys."""

    where: np.ndarray  # b h
    note: str | None
    q: Tensor | None  # b h n c
    k: Tensor | None  # b h m c
    ancestors: Ancestors | None

    @classmethod
    def of(cls, root: Softmax, layout: Layout, m: int) -> HeadOrder:
        scores = Scores.of(root, layout, m)
        where, note = _order_heads(layout, scores)
        found = cls(where, note, None, None, None)
        if scores is not None:
            found.ancestors = scores.ancestors
            found.q, found.k = (None if x is None else found.to_heads(x) for x in (scores.q, scores.k))
        return found

    def to_heads(self, x: Tensor) -> Tensor:
        """L ... -> b h ..."""
        flat = self.where.reshape(-1)
        plain = (flat == np.arange(flat.size)).all()
        return (x if plain else x[flat]).reshape(*self.where.shape, *x.shape[1:])


def _order_heads(layout: Layout, scores: Scores | None) -> tuple[np.ndarray, str | None]:
    """Which cell is which row of the batch and which head.   b h"""
    sizes = [layout.sizes[a] for a in layout.others]
    cells = np.arange(int(np.prod(sizes, dtype=np.int64)))
    if scores is not None:
        for origin, channel in zip(scores.origins, scores.channels, strict=True):
            found = _order_by_token(origin, channel)
            if found is not None:
                return found, None
    if len(sizes) < 2:
        return cells.reshape(-1, 1), MERGED if len(cells) > 1 else None
    # b h n m, as most write it
    return cells.reshape(-1, sizes[-1]), None if scores is not None else GUESSED


def _order_by_token(origin: Index, channel: int) -> np.ndarray | None:
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
