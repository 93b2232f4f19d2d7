"""Graphs as examples: which nodes, edges or graphs have targets, what they are called, and what came with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from regard.data.array import Array
from regard.data.splits import NOWHERE
from regard.data.splits import SPLITS as NUMBERS
from regard.data.tables import is_missing
from regard.errors import RegardError, nearest
from regard.recipes.example import Examples
from regard.recipes.graphs.config import GraphsConfig
from regard.recipes.graphs.neighbours import MappedGraph
from regard.recipes.graphs.parts import SPLITS, Parts, link, pick
from regard.recipes.processor import Want
from regard.recipes.target import Target, number_of, word_of

LEVELS = ("graph", "node", "edge")


def level_of(parts: Parts, config: GraphsConfig) -> str:
    """What has targets: what was asked for, or what has labels."""
    if config.level != "auto":
        return config.level
    return next((level for level in LEVELS if labels_at(parts, level) is not None), "node")


def labels_at(parts: Parts, level: str) -> Sequence[Any] | Array | None:
    """The labels of nodes, edges or graphs, as they were read."""
    return {"node": parts.node_labels, "edge": parts.edge_labels, "graph": parts.graph_labels}[level]


def examples_of(
    parts: Parts, config: GraphsConfig, want: Want, level: str, target: Target | None = None, in_memory: bool = False
) -> Examples:
    """Each graph is an example; or all of them are one, each node or edge of which is asked for."""
    parts = link(parts, config.directed)
    labels = labels_at(parts, level)
    if labels is None and want != "use":
        raise _no_labels(parts, config, level, want)
    cells = None if labels is None else _cells(labels)
    count = {"node": parts.nodes, "edge": int(parts.edges.shape[1]), "graph": parts.graphs}[level]
    splits = None
    if parts.split and want != "use":
        known = np.ones(count, dtype=bool) if cells is None else np.array([cell is not None for cell in cells])
        splits = check_splits(parts.split, known, parts.what)
    shared: dict[str, Any] = {
        "what": parts.what,
        "cells": cells,
        "target_names": (config.label,),
        "part": level,
        "rows": _rows(parts, level, cells, config.label, target) if want == "use" else None,
        "splits": splits,
        "places": lambda asked: f"{level} {parts.called(level, asked)} of {parts.what}",
        "about": {"graphs": parts, "in_memory": in_memory},
        "notes": parts.notes,
    }
    if level == "graph":
        several, kinds = parts.graphs > 1, sorted(set(parts.kinds or ()))
        return Examples(
            count=parts.graphs,
            inputs=lambda i: {
                "graph": pick(parts, i),
                "called": parts.called("graph", i),
                "of": parts.graphs,
                "kinds": kinds,
            },
            names=lambda i: f"{parts.what}: {parts.called('graph', i)}" if several else parts.what,
            **shared,
        )
    return Examples(
        count=1,
        inputs=lambda i: {"graph": parts, "kinds": sorted(set(parts.kinds or ()))},
        names=lambda i: parts.what,
        starts=np.array([0, count]),
        part_names=lambda asked: parts.called(level, asked),
        **shared,
    )


def mapped_examples(graph: MappedGraph, want: Want) -> Examples:
    """A graph that stays in its files; each of its nodes is asked for."""
    count = len(graph.starts) - 1
    labels = np.asarray(graph.classes)
    return Examples(
        what=graph.path,
        count=1,
        inputs=lambda i: {"graph": graph},
        names=lambda i: graph.path,
        cells=None if want == "use" else pa.array(labels, mask=labels < 0),
        target=Target(classes=graph.labels, each="node"),
        starts=np.array([0, count]),
        part="node",
        part_names=str,
        splits=check_splits(graph.split, labels >= 0, graph.path) if graph.split and want != "use" else None,
        about={"graphs": graph},
    )


def check_splits(split: Mapping[str, Array], known: Array, what: str) -> Array:
    """The split of each node, edge or graph by the numbers of each split; NOWHERE if its target is unknown."""
    found = np.full(len(known), NOWHERE, dtype=np.uint8)
    for name in SPLITS:
        rows = np.asarray(split.get(name, ()), dtype=np.int64)
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(known):
            raise RegardError(
                f"the {name} split of {what} has the number {rows.max()}, but there are {len(known)}, 0 … "
                f"{len(known) - 1}"
            )
        rows = rows[known[rows]]
        if (found[rows] != NOWHERE).any() or len(np.unique(rows)) < len(rows):
            raise RegardError(f"the splits of {what} overlap; put each node, edge or graph in one split only")
        found[rows] = NUMBERS[name]
    return found


def _no_labels(parts: Parts, config: GraphsConfig, level: str, want: Want) -> RegardError:
    near = nearest(config.label, parts.columns)
    hint = f" (did you mean '{near}'?)" if near else ""
    held = f" (features are {', '.join(parts.columns)})" if parts.columns else ""
    to = "train on" if want == "learn" else "compare with"
    return RegardError(
        f"{parts.what} has no labels of {level}s to {to}{held}; give a column '{config.label}', or "
        f"another --data.label{' or --data.level' * (want == 'learn')}{hint}"
    )


def _cells(labels: Sequence[Any] | Array) -> Array:
    """Labels as values of Python; None: unknown, as are a missing cell and the whole number −1."""
    found = np.empty(len(labels), dtype=object)
    for i, label in enumerate(labels):
        cell = label.item() if isinstance(label, np.generic) else label
        unknown = is_missing(cell) or (isinstance(cell, int) and cell == -1)
        found[i] = None if unknown else cell
    return found


def _rows(parts: Parts, level: str, cells: Array | None, column: str, target: Target | None) -> pa.Table:
    """The columns that say which node, edge or graph it is, and its label as the model predicts it."""
    if level == "edge":
        found: dict[str, Any] = {
            name: [parts.called("node", int(end)) for end in ends]
            for name, ends in zip(("source", "target"), parts.edges, strict=True)
        }
    else:
        count = parts.nodes if level == "node" else parts.graphs
        found = {level: [parts.called(level, i) for i in range(count)]}
    if cells is not None:
        show: Any = word_of if target is None or not target.numbers else number_of
        found[column] = [None if cell is None else show(cell) for cell in cells]
    return pa.table(found)
