"""The slice of a global batch that one of several processes works on: consecutive rows, or consecutive graphs.

A slice keeps the padding of the whole batch, so that the slices, put together again, are the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.data.batch import Batch, Source
from regard.errors import RegardError


@dataclass(frozen=True, eq=False)
class Slice:
    """Some rows of a global batch."""

    batch: Batch
    counts: bool  # False: this process has no row of its own, and works on the first one for nothing
    size: int  # of the whole batch, see Batch.size


def check_sliceable(source: Source) -> None:
    """Raise if the batches of a source cannot be cut into rows. Such a source says why in `whole`."""
    reason = getattr(source, "whole", None)
    if reason is not None:
        raise RegardError(f"several processes cannot share the work here: {reason}; train with one process")


def slice_rows(rows: int, part: int, parts: int) -> tuple[int, int, bool]:
    """First and last + 1 of the rows of a part, and whether they count; sizes differ by one at most. A part
    for which there is no row gets the first one, which does not count."""
    first, last = rows * part // parts, rows * (part + 1) // parts
    if first < last:
        return first, last, True
    return 0, 1, False


def read_slice(source: Source, step: int, part: int, parts: int) -> Slice:
    """The slice of a step's batch for this part, of so many. A source that can reads these rows alone."""
    own: Callable[[int, int, int], Slice] | None = getattr(source, "slice", None)
    if own is None:
        return slice_batch(source.batch(step), part, parts)
    return own(step, part, parts)


def take_slice(take: Callable[[int, int], Batch], rows: int, part: int, parts: int) -> Slice:
    """The slice of a batch of so many rows without padding. take: the batch of rows first … last − 1"""
    first, last, counts = slice_rows(rows, part, parts)
    found = take(first, last)
    return Slice(found, counts, size=found.size * rows // (last - first))


def slice_batch(batch: Batch, part: int, parts: int) -> Slice:
    """The slice of this part, of so many."""
    if batch.cut is not None:
        cut: Slice = batch.cut(batch, part, parts)
        return cut
    first, last, counts = slice_rows(batch.rows, part, parts)
    own = {name: x[first:last] if isinstance(x, Tensor) else x for name, x in batch.items()}
    size = batch.size * (last - first) // batch.rows
    mine = replace(batch, inputs=own, target=batch.target[first:last], rows=last - first, size=size)
    return Slice(mine, counts, batch.size)


def refuse_slice(batch: Batch, part: int, parts: int) -> Slice:
    """One graph or surface has no slices."""
    raise RegardError(
        "a batch that is one graph or surface cannot be cut into rows for several processes; train with one process"
    )


def slice_graphs(batch: Batch, part: int, parts: int) -> Slice:
    """Some graphs or meshes of a batch, with their nodes and edges or faces. Nodes lie in the order of their
    graphs."""
    of: Tensor = batch["of"]
    graphs = batch.rows
    first, last, counts = slice_rows(graphs, part, parts)
    bounds = torch.searchsorted(of.contiguous(), torch.tensor([first, last]))
    begin, end = (int(each) for each in bounds)
    if len(batch.target) == len(of) != graphs:
        target = batch.target[begin:end]
    else:
        target = batch.target[first:last]
    nodes = next(iter(batch))
    cut: dict[str, Any] = {**batch, nodes: batch[nodes][begin:end], "of": of[begin:end] - first}
    for name in ("edges", "faces"):
        corners: Tensor | None = batch.get(name)
        if corners is None:
            continue
        own = (corners[1] >= begin) & (corners[1] < end)
        cut[name] = corners[:, own] - begin
        if name == "edges" and "edge_features" in batch:
            cut["edge_features"] = batch["edge_features"][own]
    cut |= {name: last - first for name, count in batch.items() if isinstance(count, int)}  # how many there are
    found = replace(batch, inputs=cut, target=target, rows=last - first, size=end - begin)
    return Slice(found, counts, batch.size)
