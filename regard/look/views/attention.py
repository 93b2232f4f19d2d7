"""Every head of every layer: small maps, and the largest weights of each row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.look import encode_arrays, measure, plot
from regard.look.model_input import Window
from regard.look.recording.entry import Entry
from regard.look.token_streams import Streams, sizes
from regard.look.view import View

if TYPE_CHECKING:
    from regard.look.scene import Scene


Windows = Mapping[str, Sequence[Window]]

MOST_NODES = 2048  # of a graph whose edges are drawn as a matrix
UNNAMED = 64  # windows, or rows of a batch, of which it is not known what they are
LONGEST = 16_384  # queries or keys of a matrix, and
LARGEST = 2**26  # weights of one head: more cannot be looked at


class AttentionView(View):
    """All heads of all layers. Every page has it, where anything attends."""

    name, order = "attention", 20

    def build(self, scene: Scene) -> dict[str, Any] | None:
        return attention(scene.seen, scene.streams, scene.given.windows(scene.model, scene.seen))

    def still(self, scene: Scene, title: str) -> Any:
        return plot.heads(scene.seen, title=title)


def attention(seen: Iterable[Entry], streams: Streams, windows: Windows | None = None) -> dict[str, Any] | None:
    """The view, or None if nothing was heard. Only proved weights are shown.

    windows  what those of a layer are called and what is in them, as far as that is known, by the name of the
             layer
    """
    every = list(seen)
    entries = [entry for entry in every if _fits(entry)]
    if not entries:
        return None
    rows = sum(len(entry.heads) * sizes(entry)[0] * count_of(entry) for entry in entries if entry.proved)
    few = f"{len(every) - len(entries)} of {len(every)} attentions are too large to be drawn as a matrix."
    note = few if len(entries) < len(every) else None
    layers = [_layer(entry, streams, rows, (windows or {}).get(entry.name)) for entry in entries]
    return {"view": "attention", "layers": layers, "note": note}


def _fits(entry: Entry) -> bool:
    n, m = sizes(entry)
    if entry.kind == "edges":
        return n <= MOST_NODES
    return max(n, m) <= LONGEST and n * m <= LARGEST


def count_of(entry: Entry) -> int:
    """In how many windows a layer looks: of one input, they are the rows of its batch."""
    return 1 if entry.kind == "edges" else entry.shape[0]


def _layer(entry: Entry, streams: Streams, rows: int, windows: Sequence[Window] | None) -> dict[str, Any]:
    if windows is None:
        queries, keys = streams.of(entry)
    else:
        queries, keys = (streams.window(windows[0].labels),) * 2
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
        "error": encode_arrays.round_digits(float(entry.error), 2),
        "note": _noted(entry, windows),
        "implied": entry.implied is not None,
        "entropy": None,
        "distance": None,
        "small": None,
        "largest": None,
        "windows": None,
    }
    if not entry.proved:
        return found
    kept = encode_arrays.kept_of_each_row(rows, m)
    exact = rows * kept <= encode_arrays.EXACT
    if count_of(entry) == 1:
        in_line = entry.kind == "self" and n == m and windows is None and streams.found[queries].kind != "patches"
        return found | _weighed(matrix(entry), kept, exact, ordered=in_line)
    if windows is not None:
        named = [(window.name, streams.window(window.labels), streams.window(window.labels)) for window in windows]
    else:
        named = [(f"row {k + 1} of its batch", queries, keys) for k in range(min(count_of(entry), UNNAMED))]
    found["windows"] = [
        {"name": name, "rows": looking, "columns": seen} | _weighed(matrix(entry, k), kept, exact, ordered=False)
        for k, (name, looking, seen) in enumerate(named)
    ]
    return found


def _noted(entry: Entry, windows: Sequence[Window] | None) -> str | None:
    """What a reader should know: how it was computed, and what is left out."""
    count = count_of(entry)
    if windows is None and count > UNNAMED:
        more = f"the first {UNNAMED} of {count} rows of its batch are shown"
    else:
        more = None
    return "; ".join(each for each in (entry.note, more) if each) or None


def _weighed(weights: Tensor, kept: int, exact: bool, *, ordered: bool) -> dict[str, Any]:
    """What is shown of the weights of a layer, or of one window of it.   h n m

    ordered  queries and keys lie along one line, so that it means something how far they are apart
    """
    return {
        "entropy": encode_arrays.round_digits(measure.entropy(weights[None])[0].mean(-1)),
        "distance": encode_arrays.round_digits(measure.distance(weights[None])[0].mean(-1)) if ordered else None,
        "small": encode_arrays.thumbnails(weights),
        "largest": encode_arrays.largest(weights, kept, exact=exact),
    }


def matrix(entry: Entry, window: int = 0) -> Tensor:
    """Weights of one row of the batch, which is a window; those along edges are laid out, target by source.
    h n m"""
    if entry.kind != "edges":
        return entry.weights[window]
    weights, edges = entry.weights, entry.edges
    assert edges is not None
    count = sizes(entry)[0]
    dense = torch.zeros(weights.shape[0], count * count, dtype=weights.dtype)
    return dense.index_add_(1, (edges[1] * count + edges[0]).cpu(), weights.cpu()).view(-1, count, count)
