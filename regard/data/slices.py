"""The slice of a global batch that one of several processes works on: consecutive rows, or consecutive graphs.

A slice keeps the padding of the whole batch, so that the slices, put together again, are the batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.data.batch import Batch, Source
from regard.errors import RegardError

BY_ROW = (
    "tokens",
    "target",
    "real",
    "spelling",
    "rank",
    "asked",
    "documents",
)  # whose first axis is the rows


@dataclass(frozen=True, eq=False)
class Slice:
    """Some rows of a global batch."""

    batch: Batch
    counts: bool  # False: this process has no row of its own, and works on the first one for nothing
    # an axis of this size here begins at this place of an axis of this size in the whole batch
    axes: dict[int, tuple[int, int]]


def check_sliceable(source: Source) -> None:
    """Raise if the batches of a source cannot be cut into rows. Such a source says why in `whole`."""
    reason = getattr(source, "whole", None)
    if reason is not None:
        raise RegardError(f"several processes cannot share the work here: {reason}; train with one process")


def slice_rows(rows: int, part: int, parts: int) -> tuple[int, int]:
    """First and last + 1 of the rows of a part: sizes differ by one at most."""
    return rows * part // parts, rows * (part + 1) // parts


def slice_batch(batch: Batch, part: int, parts: int) -> Slice:
    """The slice of this part, of so many."""
    rows = batch.graphs if batch.of is not None else len(batch.tokens)
    if rows is None or (batch.edges is not None and batch.of is None):
        raise RegardError(
            "a batch that is one graph or surface cannot be cut into rows for several processes; train with one process"
        )
    first, last = slice_rows(rows, part, parts)
    counts = first < last
    if not counts:
        first, last = 0, 1
    if batch.of is not None:
        return _slice_graphs(batch, batch.of, first, last, counts)
    parts_of = {name: getattr(batch, name) for name in BY_ROW}
    cut = {name: x[first:last] for name, x in parts_of.items() if x is not None}
    if batch.where is not None and batch.where.dim() > 1:
        cut["where"] = batch.where[first:last]
    axes = {last - first: (first, rows)}
    if batch.real is not None:  # models may work on the real tokens alone
        before, within, total = (
            int(x.sum()) for x in (batch.real[:first], batch.real[first:last], batch.real)
        )
        axes = {within: (before, total)} | axes
    return Slice(replace(batch, **cut), counts, axes)


def _slice_graphs(batch: Batch, of: Tensor, first: int, last: int, counts: bool) -> Slice:
    """Graphs first … last − 1, with their nodes and edges. Nodes lie in the order of their graphs."""
    bounds = torch.searchsorted(of.contiguous(), torch.tensor([first, last]))
    begin, end = (int(each) for each in bounds)
    edges: Tensor = batch.edges
    own = (edges[1] >= begin) & (edges[1] < end)
    if batch.target.shape[:1] == batch.tokens.shape[:1] and len(batch.target) != batch.graphs:
        target = batch.target[begin:end]
    else:
        target = batch.target[first:last]
    cut = replace(
        batch,
        tokens=batch.tokens[begin:end],
        target=target,
        edges=edges[:, own] - begin,
        of=of[begin:end] - first,
        graphs=last - first,
        edge_features=None if batch.edge_features is None else batch.edge_features[own],
    )
    earlier = int((edges[1] < begin).sum())
    axes = {
        int(own.sum()): (earlier, edges.shape[1]),
        end - begin: (begin, len(of)),
        last - first: (first, batch.graphs or 0),
    }
    return Slice(cut, counts, axes)
