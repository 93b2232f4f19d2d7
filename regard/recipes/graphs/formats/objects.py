"""Graphs from Python: objects of PyTorch Geometric or networkx, one or many, and tables. Neither is imported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from regard.data.tables import table_of
from regard.errors import RegardError
from regard.recipes.graphs.formats.arrays import places
from regard.recipes.graphs.formats.edge_list import GraphTables, join_tables
from regard.recipes.graphs.parts import SPLITS, Parts, check_edge_x, check_edges, check_finite, one, side_by_side

TAKEN = "a path, an object with edge_index, x and y, a graph of networkx, a list of them, or a table of edges and one of nodes"
MASKS = {"train": "train_mask", "validation": "val_mask", "test": "test_mask"}


def of_object(given: Any, label: str, config: GraphTables) -> Parts:
    """A graph or a sequence of graphs, each an object of PyTorch Geometric or of networkx; or a table of edges, or two
    tables: of edges and of nodes."""
    if _is_graph(given):
        return _of_graph(given, "the graph", label, config)
    pair = isinstance(given, tuple) and len(given) == 2  # of tables, not rows of one
    table = None if pair else table_of(given, config)
    if table is not None:
        return replace(join_tables(table, None, label, config), what="the graph")
    if isinstance(given, str | bytes) or not hasattr(given, "__len__") or not hasattr(given, "__getitem__"):
        raise RegardError(f"data must be {TAKEN}, got {type(given).__name__}")
    objects = [given[i] for i in range(len(given))]
    if len(objects) == 2 and not _is_graph(objects[0]):
        edges, nodes = (table_of(each, config) for each in objects)
        if edges is not None and nodes is not None:
            return replace(join_tables(edges, nodes, label, config), what="the graph")
    if not objects or not all(map(_is_graph, objects)):
        what = next((type(each).__name__ for each in objects if not _is_graph(each)), "nothing")
        raise RegardError(f"data must be {TAKEN}, got a list of {what}")
    if len(objects) == 1:
        return _of_graph(objects[0], "the graph", label, config)
    graphs = [_of_graph(each, f"graph {i}", label, config) for i, each in enumerate(objects)]
    labels = None
    if all(g.graph_labels is not None for g in graphs):
        labels = [g.graph_labels[0] for g in graphs if g.graph_labels is not None]
    return side_by_side("the graphs", graphs, graph_labels=labels)


def _is_graph(given: Any) -> bool:
    return hasattr(given, "edge_index") or _is_network(given)


def _is_network(given: Any) -> bool:
    """Does it look like a graph of networkx?"""
    return all(hasattr(given, name) for name in ("nodes", "edges", "adj"))


def _of_graph(given: Any, what: str, label: str, config: GraphTables) -> Parts:
    return _of_network(given, what, label, config) if _is_network(given) else _of_data(given, what)


def _of_network(network: Any, what: str, label: str, config: GraphTables) -> Parts:
    """Attributes of nodes and edges are columns; those of the graph may have its label."""
    nodes = [{"id": str(name), **more} for name, more in network.nodes(data=True)]
    edges = [{"source": str(a), "target": str(b), **more} for a, b, more in network.edges(data=True)]
    if not edges:
        raise RegardError(f"{what} has no edges; a graph of networkx needs one at least")
    tables = [table_of(rows, config) for rows in (edges, nodes)]
    assert tables[0] is not None and tables[1] is not None
    parts = replace(join_tables(tables[0], tables[1], label, config), what=what)
    return replace(parts, graph_labels=[network.graph[label]]) if label in network.graph else parts


def _of_data(data: Any, what: str) -> Parts:
    edges = _array(data.edge_index).astype(np.int64)
    x = None if getattr(data, "x", None) is None else _array(data.x).astype(np.float32)
    if x is not None:
        count = len(x)
    else:
        count = int(getattr(data, "num_nodes", None) or int(edges.max(initial=-1)) + 1)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise RegardError(f"edge_index of {what} must have the shape 2 e, got {edges.shape}")
    check_edges(edges, count, what)
    if x is not None:
        check_finite(x, f"x of {what}")
    y = None if getattr(data, "y", None) is None else _array(data.y)
    if y is not None:
        y = y.reshape(len(y), -1)[:, 0] if y.ndim > 1 else y.reshape(-1)
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
