"""Graphs from Python: objects that look like PyTorch Geometric's, one or many. Nothing of it is imported."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.errors import RegardError
from regard.recipes.graphs.formats.arrays import places
from regard.recipes.graphs.parts import (
    SPLITS,
    Parts,
    check_edge_x,
    check_edges,
    check_finite,
    one,
    side_by_side,
)

MASKS = {"train": "train_mask", "validation": "val_mask", "test": "test_mask"}


def of_object(given: Any) -> Parts:
    """An object with edge_index, x and y (and masks), or a sequence of such objects, each of which is a graph
    with a y."""
    if hasattr(given, "edge_index"):
        return _of_data(given, "the graph")
    if isinstance(given, str | bytes) or not hasattr(given, "__len__") or not hasattr(given, "__getitem__"):
        got = type(given).__name__
        raise RegardError(
            f"data must be a path, an object with edge_index, x and y, or a list of them, got {got}"
        )
    objects = [given[i] for i in range(len(given))]
    if not objects or not hasattr(objects[0], "edge_index"):
        what = type(objects[0]).__name__ if objects else "nothing"
        raise RegardError(f"a list of graphs holds objects with edge_index, x and y, got {what}")
    if len(objects) == 1:
        return _of_data(objects[0], "the graph")
    graphs = [_of_data(each, f"graph {i}") for i, each in enumerate(objects)]
    labels = None
    if all(g.graph_labels is not None for g in graphs):
        labels = [g.graph_labels[0] for g in graphs if g.graph_labels is not None]
    return side_by_side("the graphs", graphs, graph_labels=labels)


def _of_data(data: Any, what: str) -> Parts:
    edges = _array(data.edge_index).astype(np.int64)
    if getattr(data, "x", None) is None:
        x = None
    else:
        x = _array(data.x).astype(np.float32)
    if x is not None:
        count = len(x)
    else:
        count = int(getattr(data, "num_nodes", None) or int(edges.max(initial=-1)) + 1)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise RegardError(f"edge_index of {what} must have the shape 2 e, got {edges.shape}")
    check_edges(edges, count, what)
    if x is not None:
        check_finite(x, f"x of {what}")
    if getattr(data, "y", None) is None:
        y = None
    else:
        y = _array(data.y)
    if y is not None:
        if y.ndim > 1:
            y = y.reshape(len(y), -1)[:, 0]
        else:
            y = y.reshape(-1)
    split = {}
    for name in SPLITS:
        mask = getattr(data, MASKS[name], None)
        if mask is not None:
            split[name] = places(_array(mask), name, what)
    more: dict[str, Any] = {}
    if y is not None and len(y) == count and (count != 1 or split):
        more["node_labels"] = y
    elif y is not None and len(y) == 1:
        more["graph_labels"] = y
    elif y is not None and len(y) == edges.shape[1]:
        more["edge_labels"] = y
    elif y is not None:
        raise RegardError(
            f"y of {what} has {len(y)} values: neither one for each of {count} nodes nor one for the graph"
        )
    if getattr(data, "edge_attr", None) is not None:
        more["edge_x"] = check_edge_x(_array(data.edge_attr), edges, what)
    return one(what, edges, count, x=x, split=split, **more)


def _array(x: Any) -> Any:
    """A tensor or anything like it as numpy."""
    return np.asarray(x.detach().cpu().numpy() if hasattr(x, "detach") else x)
