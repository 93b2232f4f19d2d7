"""The TU format: many graphs in a few text files, NAME_A.txt and others beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.data.array import Array
from regard.data.dialect import TableConfig
from regard.data.tables import Table, read_table
from regard.errors import RegardError
from regard.recipes.graphs.formats.arrays import separate_graphs
from regard.recipes.graphs.formats.edge_list import WAYS, GraphTables
from regard.recipes.graphs.parts import Parts


def read_tu(folder: Path, name: str, config: GraphTables) -> Parts:
    """NAME_A.txt and NAME_graph_indicator.txt, counted from 1, with labels and attributes of nodes and graphs
    beside them."""

    def table(what: str) -> Table | None:
        path = folder / f"{name}_{what}.txt"
        if path.exists() and path.stat().st_size:
            return read_table(path, TableConfig(header=False))
        return None

    ends, of = table("A"), table("graph_indicator")
    if of is None or not (folder / f"{name}_A.txt").exists():
        raise RegardError(f"{folder} has {name}_graph_indicator.txt but no {name}_A.txt; the TU format needs both")
    graph_of = _whole_column(of, 0) - 1
    edges = np.zeros((2, 0), dtype=np.int64)
    if ends is not None:
        edges = np.stack([_whole_column(ends, i) - 1 for i in (0, 1)])
        wrong = np.flatnonzero(((edges < 0) | (edges >= len(graph_of))).any(0))
        if len(wrong):
            given = ", ".join(str(end + 1) for end in edges[:, wrong[0]])
            raise RegardError(f"{ends.where(int(wrong[0]))} is the edge {given}, but the nodes are 1 … {len(graph_of)}")
    features: list[Array] = []
    if (numbers := table("node_attributes")) is not None:
        features.append(_numbers(numbers, config))
    kinds = None
    if (node_labels := table("node_labels")) is not None:
        kinds = [text or "" for text in node_labels.texts(node_labels.names[0])]
        known, place = np.unique(_whole_column(node_labels, 0), return_inverse=True)
        features.append(np.eye(len(known), dtype=np.float32)[place])
    for each in features:
        if len(each) != len(graph_of):
            raise RegardError(
                f"{folder} has {len(graph_of)} nodes but features of {len(each)}; give one row for each node"
            )
    labels = table("graph_labels") or table("graph_attributes")
    graphs = max(int(graph_of.max(initial=-1)) + 1, 0 if labels is None else len(labels))
    x = np.concatenate(features, 1) if features else None
    known_labels = None if labels is None else [text or "" for text in labels.texts(labels.names[0])]
    edge_x = _tu_edge_features(table, edges, str(folder), config)
    parts = separate_graphs(str(folder), edges, graph_of, x, known_labels, {}, graphs, edge_x)
    return replace(parts, names=_counted(parts.nodes), graph_names=_counted(parts.graphs), kinds=kinds)


def _tu_edge_features(
    table: Callable[[str], Table | None], edges: Array, what: str, config: GraphTables
) -> Array | None:
    """NAME_edge_attributes.txt, and NAME_edge_labels.txt with one column for each label."""
    found: list[Array] = []
    if (numbers := table("edge_attributes")) is not None:
        found.append(_numbers(numbers, config))
    if (labels := table("edge_labels")) is not None:
        known, place = np.unique(_whole_column(labels, 0), return_inverse=True)
        found.append(np.eye(len(known), dtype=np.float32)[place])
    for each in found:
        if len(each) != edges.shape[1]:
            raise RegardError(
                f"{what} has {edges.shape[1]} edges but features of {len(each)}; give one row for each edge"
            )
    return np.concatenate(found, 1) if found else None


def _counted(count: int) -> list[str]:
    """Names 1, 2, 3 …: this format counts from 1."""
    return [str(number) for number in range(1, count + 1)]


def _numbers(table: Table, config: GraphTables) -> Array:
    advice = "attributes are numbers"
    if config.missing == "fill":
        return table.numbers(table.names, advice).astype(np.float32)
    return table.numbers(table.names, advice, WAYS).astype(np.float32)


def _whole_column(table: Table, column: int) -> Array:
    if len(table.names) <= column:
        raise RegardError(f"{table.where(0)} has one value, expected two whole numbers")
    found = table.numbers([table.names[column]], "expected a whole number", "fill them in")[:, 0]
    wrong = np.flatnonzero(found != np.round(found))
    if len(wrong):
        raise RegardError(f"{table.where(int(wrong[0]))} has '{found[wrong[0]]}', expected a whole number")
    return found.astype(np.int64)
