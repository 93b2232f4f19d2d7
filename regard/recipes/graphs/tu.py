"""The TU format: many graphs in a few text files, NAME_A.txt and others beside it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.data.array import Array
from regard.data.columns import Columns, read_columns
from regard.errors import RegardError
from regard.recipes.graphs.arrays import separate_graphs
from regard.recipes.graphs.parts import Parts


def read_tu(folder: Path, name: str, ways: str | None) -> Parts:
    """NAME_A.txt and NAME_graph_indicator.txt, counted from 1, with labels and attributes of nodes and graphs
    beside them."""

    def table(what: str) -> Columns | None:
        path = folder / f"{name}_{what}.txt"
        if path.exists():
            return read_columns(str(path), header=False)
        return None

    ends, of = table("A"), table("graph_indicator")
    if ends is None or of is None:
        raise RegardError(
            f"{folder} has {name}_graph_indicator.txt but no {name}_A.txt; the TU format needs both"
        )
    graph_of = _whole_column(of, 0) - 1
    edges = np.zeros((2, 0), dtype=np.int64)
    if ends.rows:
        edges = np.stack([_whole_column(ends, i) - 1 for i in (0, 1)])
    wrong = np.flatnonzero(((edges < 0) | (edges >= len(graph_of))).any(0))
    if len(wrong):
        given = ", ".join(ends.rows[wrong[0]])
        line = ends.lines[wrong[0]]
        raise RegardError(
            f"line {line} of {ends.path} is the edge {given}, but the nodes are 1 … {len(graph_of)}"
        )
    features: list[Array] = []
    if (numbers := table("node_attributes")) is not None:
        features.append(numbers.numbers(range(len(numbers.rows[0])), ways=ways))
    kinds = None
    if (node_labels := table("node_labels")) is not None:
        kinds = node_labels.texts(0)
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
    known_labels = None if labels is None else labels.texts(0)
    edge_x = _tu_edge_features(table, edges, str(folder))
    parts = separate_graphs(str(folder), edges, graph_of, x, known_labels, {}, graphs, edge_x)
    return replace(parts, names=_counted(parts.nodes), graph_names=_counted(parts.graphs), kinds=kinds)


def _tu_edge_features(table: Callable[[str], Columns | None], edges: Array, what: str) -> Array | None:
    """NAME_edge_attributes.txt, and NAME_edge_labels.txt with one column for each label."""
    found: list[Array] = []
    if (numbers := table("edge_attributes")) is not None and numbers.rows:
        found.append(numbers.numbers(range(len(numbers.rows[0]))))
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


def _whole_column(table: Columns, column: int) -> Array:
    for line, row in zip(table.lines, table.rows, strict=True):
        if len(row) <= column or not re.fullmatch(r"\s*-?\d+\s*", row[column]):
            raise RegardError(f"line {line} of {table.path} has '{' '.join(row)}' , expected a whole number")
    return np.array([int(row[column]) for row in table.rows], dtype=np.int64)
