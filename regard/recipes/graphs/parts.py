"""Graphs as they are read from files: edges, features and labels of one graph or of many side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.data.tables import Table
from regard.errors import RegardError

MOST = 10**8  # nodes, or graphs, that are read into memory
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Rows:
    """Features that are mostly zero, row by row: those of row i are columns[starts[i]:starts[i + 1]] and
    their values."""

    starts: Array
    columns: Array
    values: Array
    width: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.width

    def __getitem__(self, rows: slice) -> Rows:
        """The rows from one to another."""
        starts = self.starts[rows.start : rows.stop + 1]
        inside = slice(int(starts[0]), int(starts[-1]))
        return Rows(starts - starts[0], self.columns[inside], self.values[inside], self.width)


@dataclass(eq=False, kw_only=True)
class Parts:
    """Graph g has the nodes starts[g] … starts[g + 1] and the edges edge_starts[g] … of `edges` (2 e, nodes
    of all graphs).

    Labels are texts or numbers, as given; None or NaN: unknown. `split` holds the numbers of the labelled
    nodes, edges or graphs.
    """

    what: str  # the source of the data, for messages
    edges: Array
    starts: Array
    edge_starts: Array
    x: Array | Rows | None = None
    columns: Sequence[str] = ()  # names of the features, where they have some
    edge_x: Array | None = None  # e k, features of edges
    notes: tuple[str, ...] = ()  # what was not taken
    names: Sequence[str] | None = None  # of nodes; None: their numbers
    graph_names: Sequence[str] | None = None
    node_labels: Sequence[Any] | Array | None = None
    # what each node is, such as the atom of a molecule: no target, and among the features already
    kinds: Sequence[str] | None = None
    edge_labels: Sequence[Any] | Array | None = None
    graph_labels: Sequence[Any] | Array | None = None
    split: dict[str, Array] = field(default_factory=dict)
    # 2 e, the edges in the direction of messages, and where those of each graph start: see `link`
    links: Array = None  # type: ignore[assignment]
    link_starts: Array = None  # type: ignore[assignment]

    @property
    def nodes(self) -> int:
        return int(self.starts[-1])

    @property
    def graphs(self) -> int:
        return len(self.starts) - 1

    def called(self, level: str, number: int) -> str:
        """The name of a node, an edge or a graph."""
        if level == "edge":
            return "–".join(self.called("node", int(end)) for end in self.edges[:, number])
        names = self.names if level == "node" else self.graph_names
        if names is None:
            return str(number)
        return names[number]


def check_count(count: int, unit: str, what: str) -> None:
    """Raise for a number of nodes or graphs that would fill the memory by itself: it follows from the largest
    number in a file, which may be anything."""
    if count > MOST:
        raise RegardError(
            f"{what} would have {count:,} {unit}, because its largest number is {count - 1:,}; at most "
            f"{MOST:,} are read, numbered from 0 on"
        )


def one(what: str, edges: Array, nodes: int, **more: Any) -> Parts:
    """A single graph."""
    check_count(nodes, "nodes", what)
    return Parts(what=what, edges=edges, starts=np.array([0, nodes]), edge_starts=np.array([0, edges.shape[1]]), **more)


def side_by_side(what: str, graphs: Sequence[Parts], **more: Any) -> Parts:
    """Many graphs as one disconnected graph. All have features of one width, or none has features."""
    widths = {None if g.x is None else int(g.x.shape[1]) for g in graphs if g.nodes and not isinstance(g.x, Rows)}
    if len(widths) > 1:
        raise RegardError(
            f"all graphs of {what} must have the same number of features per node, got {sorted(widths, key=str)}"
        )
    starts = np.cumsum([0, *(g.nodes for g in graphs)])
    edges = [g.edges + start for g, start in zip(graphs, starts, strict=False)]
    width = widths.pop() if widths else None
    empty = None if width is None else np.zeros((0, width), dtype=np.float32)
    return Parts(
        what=what,
        edges=np.concatenate([np.zeros((2, 0), dtype=np.int64), *edges], 1),
        starts=starts,
        edge_starts=np.cumsum([0, *(g.edges.shape[1] for g in graphs)]),
        x=None if empty is None else np.concatenate([empty, *(g.x for g in graphs if g.nodes)]),
        columns=next((g.columns for g in graphs if g.nodes), ()),
        edge_x=_join_edge_features(what, graphs),
        notes=_join_notes(graphs),
        **more,
    )


def _join_notes(graphs: Sequence[Parts]) -> tuple[str, ...]:
    """The notes on all graphs; what is said of many files is said of the first."""
    found: dict[str, list[str]] = {}
    for note in (note for g in graphs for note in g.notes):
        found.setdefault(note.split(": ", 1)[-1], []).append(note)
    more = {key: len(notes) - 1 for key, notes in found.items()}
    return tuple(
        notes[0] + (f"; so have {more[key]:,} more files" if more[key] else "") for key, notes in found.items()
    )


def _join_edge_features(what: str, graphs: Sequence[Parts]) -> Array | None:
    """The features of the edges of all graphs; None if none has any."""
    found = [g.edge_x for g in graphs if g.edges.shape[1]]
    known = [x for x in found if x is not None]
    if not known:
        return None
    widths = {0 if x is None else x.shape[1] for x in found}
    if len(widths) > 1:
        raise RegardError(
            f"all graphs of {what} must have the same number of features per edge, got {sorted(widths)}; use "
            "--data.edge_features none to leave them out"
        )
    return np.concatenate(known)


def check_edge_x(x: Any, edges: Array, what: str) -> Array:
    """Features of edges as e k; a ValueError if they are no numbers, or not as many rows as edges."""
    x = np.asarray(x)
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim != 2 or x.dtype.kind not in "fiub" or len(x) != edges.shape[1]:
        raise RegardError(
            f"features of edges of {what} must be numbers, one row for each of {edges.shape[1]} edges, got "
            f"{x.dtype} {x.shape}"
        )
    if not np.isfinite(x).all():
        row = int(np.argwhere(~np.isfinite(x))[0][0])
        raise RegardError(f"features of edges of {what} must be finite, but those of edge {row} are not")
    return x.astype(np.float32)


def check_edges(edges: Array, nodes: int, what: str | Table) -> None:
    """Raise if an end of an edge is not a node. The error names the edge, or its line in a table."""
    wrong = np.argwhere((edges < 0) | (edges >= nodes))
    if len(wrong):
        end, number = wrong[np.argmin(wrong[:, 1])]
        where = f"edge {number} of {what}" if isinstance(what, str) else what.where(int(number))
        there = f"0 … {nodes - 1}" if nodes else "none"
        raise RegardError(
            f"{where} has the {('source', 'target')[end]} {edges[end, number]}, but the nodes are {there}"
        )


def check_finite(x: Array, what: str) -> None:
    """No feature is NaN or infinite."""
    wrong = np.argwhere(~np.isfinite(x))
    if len(wrong):
        row, column = wrong[0]
        raise RegardError(
            f"{what} has {x[row, column]} in row {row}, column {column}; give a finite number, or remove the node"
        )


def link(parts: Parts, directed: bool) -> Parts:
    """With the edges along which messages go: in both directions, unless theirs counts."""
    links, starts = parts.edges, parts.edge_starts
    if not directed:
        links, starts = symmetric(links, starts, parts.nodes)
    return replace(parts, links=links, link_starts=starts)


def pick(parts: Parts, i: int) -> Parts:
    """Graph i alone."""
    nodes, edges, links = (
        slice(int(starts[i]), int(starts[i + 1])) for starts in (parts.starts, parts.edge_starts, parts.link_starts)
    )
    return replace(
        parts,
        edges=parts.edges[:, edges] - nodes.start,
        starts=np.array([0, nodes.stop - nodes.start]),
        edge_starts=np.array([0, edges.stop - edges.start]),
        links=parts.links[:, links] - nodes.start,
        link_starts=np.array([0, links.stop - links.start]),
        x=None if parts.x is None else parts.x[nodes],
        edge_x=None if parts.edge_x is None else parts.edge_x[edges],
        names=None if parts.names is None else parts.names[nodes],
        kinds=None if parts.kinds is None else parts.kinds[nodes],
    )


def symmetric(edges: Array, edge_starts: Array, nodes: int) -> tuple[Array, Array]:
    """Every edge in both directions, without duplicates; a self-loop once.   2 e, graphs + 1 -> the same"""
    low, high = edges.min(0), edges.max(0)
    of = np.repeat(np.arange(len(edge_starts) - 1), np.diff(edge_starts))
    _, kept = np.unique(low * np.int64(max(nodes, 1)) + high, return_index=True)
    kept = np.sort(kept)
    low, high, of = low[kept], high[kept], of[kept]
    both = np.flatnonzero(low != high)
    ends, of = (
        np.concatenate([np.stack([low, high]), np.stack([high[both], low[both]])], 1),
        np.concatenate([of, of[both]]),
    )
    order = np.argsort(of, kind="stable")
    return ends[:, order], np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(edge_starts) - 1))])
