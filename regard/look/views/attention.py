"""Every head of every layer: small maps, and the largest weights of each row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from regard.look import measure, pack
from regard.look.entry import Entry
from regard.look.streams import Streams, sizes

MOST_NODES = 2048  # of a graph whose edges are drawn as a matrix
LONGEST = 16_384  # queries or keys of a matrix, and
LARGEST = 2**26  # weights of one head: more cannot be looked at


def attention(seen: Iterable[Entry], streams: Streams) -> dict[str, Any] | None:
    """The view, or None if nothing was heard. Only proved weights are shown."""
    every = list(seen)
    entries = [entry for entry in every if fits(entry)]
    if not entries:
        return None
    rows = sum(len(entry.heads) * sizes(entry)[0] for entry in entries if entry.proved)
    few = f"{len(every) - len(entries)} of {len(every)} attentions are too large to be drawn as a matrix."
    note = few if len(entries) < len(every) else None
    return {"view": "attention", "layers": [layer(entry, streams, rows) for entry in entries], "note": note}


def fits(entry: Entry) -> bool:
    n, m = sizes(entry)
    return n <= MOST_NODES if entry.kind == "edges" else max(n, m) <= LONGEST and n * m <= LARGEST


def layer(entry: Entry, streams: Streams, rows: int) -> dict[str, Any]:
    queries, keys = streams.of(entry)
    n, m = sizes(entry)
    found: dict[str, Any] = {
        "layer": entry.layer,
        "name": entry.name,
        "call": entry.call,
        "kind": "self" if entry.kind == "edges" else entry.kind,
        "operator": entry.operator,
        "rows": queries,
        "columns": keys,
        "n": n,
        "m": m,
        "heads": list(entry.heads),
        "proved": entry.proved,
        "reason": entry.reason,
        "error": pack.rounded(float(entry.error), 2),
        "note": noted(entry),
        "entropy": None,
        "distance": None,
        "small": None,
        "largest": None,
    }
    if entry.proved:
        weights = matrix(entry)
        found["entropy"] = pack.rounded(measure.entropy(weights[None])[0].mean(-1))
        if entry.kind == "self" and n == m:
            found["distance"] = pack.rounded(measure.distance(weights[None])[0].mean(-1))
        found["small"] = pack.thumbnails(weights)
        found["largest"] = pack.largest(weights, pack.kept_of_each_row(rows, m))
    return found


def noted(entry: Entry) -> str | None:
    """What a reader should know: how it was computed, and that several windows, of which the first is shown, share a name."""
    windows = entry.shape[0] if entry.kind != "edges" else 1
    more = f"the first of {windows} windows is shown" if windows > 1 else None
    return "; ".join(each for each in (entry.note, more) if each) or None


def matrix(entry: Entry) -> Tensor:
    """Weights of the first row of the batch; those along edges are laid out, target by source.   h n m"""
    if entry.kind != "edges":
        return entry.weights[0]
    weights, edges = entry.weights, entry.edges
    assert edges is not None
    count = sizes(entry)[0]
    dense = torch.zeros(weights.shape[0], count * count, dtype=weights.dtype)
    return dense.index_add_(1, (edges[1] * count + edges[0]).cpu(), weights.cpu()).view(-1, count, count)
