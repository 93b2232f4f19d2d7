"""Graphs as arrays: edges, features, labels and splits by their usual names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError
from regard.recipes.graphs.parts import SPLITS, Parts, Rows, check_count, check_edge_x, check_edges, check_finite, one

ARRAYS = {
    "edges": ("edges", "edge_index"),
    "x": ("x", "features", "feat"),
    "labels": ("labels", "y", "label"),
    "edge_x": ("edge_attr", "edge_features", "edge_x"),
    "of": ("of", "batch", "graph"),
    "train": ("train_idx", "train_mask", "train"),
    "validation": ("val_idx", "validation_idx", "val_mask", "validation_mask", "validation"),
    "test": ("test_idx", "test_mask", "test"),
}


def parts_of_arrays(arrays: Mapping[str, Array], what: str) -> Parts:
    """edges (2 e or e 2), x (n d) or sparse rows (feat_indptr, feat_indices, feat_shape[, feat_values]),
    labels, of, splits.

    With `of` (the graph of each node) labels are those of graphs if there are as many as graphs.
    """
    found = {name: next((arrays[each] for each in called if each in arrays), None) for name, called in ARRAYS.items()}
    if found["edges"] is None:
        raise RegardError(
            f"{what} holds the arrays {', '.join(arrays)}, but no edges; add edges (2 e, sources and targets)"
        )
    edges = check_whole(found["edges"], "edges", what)
    if edges.ndim != 2 or 2 not in edges.shape:
        raise RegardError(f"edges of {what} must have the shape 2 e or e 2, got {edges.shape}")
    if edges.shape[0] != 2:
        edges = edges.T
    if "feat_indptr" in arrays:
        x: Rows | Array | None = _rows_of(arrays, what)
    else:
        x = found["x"]
    labels, of = found["labels"], found["of"]
    if isinstance(x, np.ndarray):
        if x.ndim != 2 or x.dtype.kind not in "fiub":
            raise RegardError(f"x of {what} must be numbers n d, got {x.dtype} {x.shape}")
        check_finite(x, what)
        x = x.astype(np.float32)
    count = next((len(each) for each in (x, of, labels) if each is not None), 0)
    if not count and edges.size:
        count = int(edges.max()) + 1
    check_edges(edges, count, what)
    split = {name: places(mask, name, what) for name in SPLITS if (mask := found[name]) is not None}
    edge_x = None if found["edge_x"] is None else check_edge_x(found["edge_x"], edges, what)
    if of is None:
        labels_for = _label_level(labels, {"node": count, "graph": 1}, what)
        return one(
            what,
            edges,
            count,
            x=x,
            edge_x=edge_x,
            split=split,
            **{f"{labels_for}_labels": labels} if labels is not None else {},
        )
    return separate_graphs(what, edges, check_whole(of, "of", what), x, labels, split, edge_x=edge_x)


def separate_graphs(
    what: str,
    edges: Array,
    of: Array,
    x: Any,
    labels: Any,
    split: dict[str, Array],
    graphs: int = 0,
    edge_x: Array | None = None,
) -> Parts:
    """Many graphs from one disconnected graph: `of` holds the graph of each node, in order."""
    graphs = max(graphs, int(of.max(initial=-1)) + 1)
    check_count(graphs, "graphs", what)
    if len(of) and ((np.diff(of) < 0).any() or of[0] < 0):
        raise RegardError(f"the array 'of' of {what} must not decrease; keep the nodes of a graph together")
    across = np.flatnonzero(of[edges[0]] != of[edges[1]])
    if len(across):
        number = across[0]
        raise RegardError(
            f"edge {number} of {what} leads from graph {of[edges[0, number]]} to graph {of[edges[1, number]]}"
        )
    owner = of[edges[0]]
    order = np.argsort(owner, kind="stable")
    level = _label_level(labels, {"graph": graphs, "node": len(of)}, what)
    counted = [np.concatenate([[0], np.cumsum(np.bincount(each, minlength=graphs))]) for each in (of, owner)]
    more: dict[str, Any] = {} if labels is None else {f"{level}_labels": labels}
    if edge_x is not None:
        more["edge_x"] = edge_x[order]
    return Parts(what=what, edges=edges[:, order], starts=counted[0], edge_starts=counted[1], x=x, split=split, **more)


def _label_level(labels: Any, counts: Mapping[str, int], what: str) -> str:
    """The level of the labels, by their number."""
    if labels is None:
        return "node"
    for level, count in counts.items():
        if len(labels) == count:
            return level
    said = " or ".join(f"{count} {level}s" for level, count in counts.items())
    raise RegardError(f"{what} has {len(labels)} labels for {said}; give one for each")


def _rows_of(arrays: Mapping[str, Array], what: str) -> Rows:
    starts, columns = (check_whole(arrays[f"feat_{name}"], f"feat_{name}", what) for name in ("indptr", "indices"))
    count, width = map(int, arrays["feat_shape"])
    values = arrays.get("feat_values", np.ones(len(columns)))
    inside = not len(columns) or 0 <= columns.min() <= columns.max() < width
    in_order = len(starts) == count + 1 and starts[0] == 0 and (np.diff(starts) >= 0).all()
    if not inside or not in_order or not starts[-1] == len(columns) == len(values):
        raise RegardError(f"the sparse features of {what} do not fit their shape {count} × {width}")
    return Rows(starts, columns, values.astype(np.float32), width)


def check_whole(array: Array, name: str, what: str) -> Array:
    if array.dtype.kind not in "iu":
        raise RegardError(f"{name} of {what} must be whole numbers, got {array.dtype}")
    return array.astype(np.int64)


def places(mask: Array, name: str, what: str) -> Array:
    """Indices, from indices or from a bool mask."""
    return np.flatnonzero(mask) if mask.dtype == bool else check_whole(mask, name, what)


# ── the built-in graph

NEAREST = 5  # links of each digit


def digits() -> Parts:
    """1,797 images of 8 × 8 pixels, the digit as label."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError as error:
        raise RegardError(
            'the graph of digits needs scikit-learn: pip install "regard[look]"; or give --data PATH'
        ) from error
    images = load_digits()
    x = (images.data / 16.0).astype(np.float32)
    square = (x**2).sum(1)
    apart = square[:, None] + square - 2 * x @ x.T
    np.fill_diagonal(apart, np.inf)
    near = np.argsort(apart, axis=1, kind="stable")[:, :NEAREST]
    edges = np.stack([near.ravel(), np.repeat(np.arange(len(x)), NEAREST)])
    return one("digits, linked by likeness", edges, len(x), x=x, node_labels=images.target)
