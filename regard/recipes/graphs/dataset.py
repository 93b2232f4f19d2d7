"""Graphs for training: from what was read to features, edges in both directions, targets, splits and
batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from regard.config import check_sizes
from regard.data.array import Array
from regard.data.batch import IGNORE, Batch, Epochs, Source
from regard.data.progress import Note
from regard.data.slices import refuse_slice, slice_graphs
from regard.data.splits import SplitConfig, check_splits
from regard.data.targets import Asks, explain_asks, find_scale
from regard.errors import RegardError, nearest
from regard.recipes.graphs.digits import digits
from regard.recipes.graphs.edge_features import scale_edge_features
from regard.recipes.graphs.edge_list import GraphTables, Missing
from regard.recipes.graphs.files import read_graphs, stamp
from regard.recipes.graphs.fill import find_fill
from regard.recipes.graphs.info import GraphsInfo, Scaling
from regard.recipes.graphs.labels import is_known, targets
from regard.recipes.graphs.objects import of_object
from regard.recipes.graphs.parts import SPLITS, Parts, Rows, symmetric
from regard.recipes.graphs.splits import check_split, draw_split, no_folds

SPARSE_BELOW, WIDE = 0.1, 64  # features with fewer nonzeros and at least this width are stored sparse
MOST_DEGREE = 15  # each degree up to this one is a feature

Level = Literal["auto", "node", "edge", "graph"]
Features = Literal["auto", "given", "degree", "both"]
Scale = Literal["auto", "none", "rows", "columns"]


@dataclass(frozen=True, kw_only=True)
class GraphsConfig(GraphTables, SplitConfig):
    """Which graphs to read, their task, and their splits."""

    paths: ClassVar[tuple[str, ...]] = ("path", "nodes")

    # an edge list, a .npz, or a folder; None: digits, each linked to the most similar ones
    path: str | None = None
    nodes: str | None = None  # the table of nodes of an edge list: .csv (id, label, split, features) or .npz
    label: str = "label"  # the column with the labels of nodes, edges or graphs
    level: Level = "auto"  # what has targets; auto: the task level follows from where the labels are
    # what labels are; auto: numbers if some have a fraction, or if they are over ten whole numbers with gaps
    asks: Asks = "auto"
    # features of edges: columns of numbers of an edge list, edge_attr of an .npz or object, TU files; none: left out
    edge_features: Literal["auto", "none"] = "auto"
    directed: bool = False  # keep the direction of edges; otherwise every edge is added in both directions
    # features of nodes: given, degree, or both; auto: given, but both for the level graph
    features: Features = "auto"
    # rows: each sums to 1; columns: mean 0, deviation 1; auto: rows if sparse, else columns
    scale: Scale = "auto"
    # examples of each class in the train split; None: all that are in no other split
    train: int | None = None
    validation: float = 0.1  # share of each class in the validation split, if the data has no split
    # share of each class in the test split, evaluated once, at the end, if the data has no split; None: a tenth
    test: float | None = None
    neighbours: int = 10  # neighbours drawn for each node and layer, in graphs too large for one batch

    def __post_init__(self) -> None:
        check_sizes(self)
        for name, known in (
            ("level", Level),
            ("asks", Asks),
            ("features", Features),
            ("scale", Scale),
            ("edge_features", Literal["auto", "none"]),
            ("missing", Missing),
        ):
            if getattr(self, name) not in get_args(known):
                raise RegardError(
                    f"{name} must be one of {', '.join(get_args(known))}, got {getattr(self, name)!r}"
                )
        check_splits(self, "examples")
        if (self.train is not None and self.train < 1) or self.neighbours < 1:
            raise RegardError(
                f"train and neighbours must be at least 1, got {self.train} and {self.neighbours}"
            )


def prepare_graphs(config: GraphsConfig, *, seed: int, given: Any = None, note: Note | None = None) -> Graphs:
    """Graphs from the path of the config, or from an object such as PyTorch Geometric's."""
    if note is not None:
        note("reading", None)
    if given is not None:
        parts = keep_edge_features(of_object(given), config)
    else:
        parts = read_parts(config)
    return _build_graphs(parts, config, seed)


def keep_edge_features(parts: Parts, config: GraphsConfig) -> Parts:
    """The same graphs, without features of edges if the config says so."""
    if config.edge_features == "auto":
        return parts
    return replace(parts, edge_x=None, notes=())


def read_parts(config: GraphsConfig) -> Parts:
    if config.path is None:
        return digits()
    how = GraphTables(**{each.name: getattr(config, each.name) for each in fields(GraphTables)})
    found = _read(config.path, config.nodes, config.label, how, stamp(config.path, config.nodes))
    return keep_edge_features(found, config)


# the task of a graph decides the defaults of its training: the cache reads the graph once for both
@lru_cache(maxsize=1)
def _read(path: str, nodes: str | None, label: str, config: GraphTables, _: Any) -> Parts:
    return read_graphs(path, nodes=nodes, label=label, config=config)


@dataclass(frozen=True, eq=False, kw_only=True)
class Graphs:
    """Graphs side by side, with a target for each node, edge or graph (IGNORE or NaN: unknown)."""

    parts: Parts
    x: Tensor  # n d, dense or sparse
    edges: Array  # 2 e, in the direction of messages
    edge_starts: Array
    level: str
    target: Tensor  # classes, or numbers with mean 0 and deviation 1
    labels: tuple[str, ...] | None  # the classes; None: the targets are numbers
    size: tuple[float, float]  # mean and standard deviation of the numbers
    split: dict[str, Array]  # numbers of nodes, edges or graphs
    scaling: Scaling
    edge_x: Tensor | None = None  # e k, features of `edges`
    edge_scaling: Scaling | None = None
    notes: tuple[str, ...] = ()  # how labels are read, and what was left out

    @property
    def outputs(self) -> int:
        if self.labels is None:
            return 1
        return len(self.labels)

    def info(self, column: str) -> GraphsInfo:
        """A summary in numbers, for people and for later commands. column: the name of the labels"""
        return GraphsInfo(
            path=self.parts.what,
            graphs=self.parts.graphs,
            nodes=self.parts.nodes,
            edges=int(self.edges.shape[1]),
            features=int(self.x.shape[1]),
            level=self.level,
            train=len(self.split["train"]),
            validation=len(self.split["validation"]),
            test=len(self.split["test"]),
            labels=self.labels,
            label=column if self.labels is None else None,
            size=self.size,
            scaling=self.scaling,
            edge_scaling=self.edge_scaling,
        )

    def source(self, batch: int, seed: int) -> GraphSource:
        return GraphSource(self, batch, seed)


def _build_graphs(parts: Parts, config: GraphsConfig, seed: int) -> Graphs:
    """Turn what was read into training data."""
    level = level_of(parts, config)
    labels = labels_at(parts, level)
    if labels is None:
        near = nearest(config.label, parts.columns)
        hint = f" (did you mean '{near}'?)" if near else ""
        held = f" (features are {', '.join(parts.columns)})" if parts.columns else ""
        raise RegardError(
            f"{parts.what} has no labels of {level}s to train on{held}; give a column '{config.label}', or "
            f"another --data.label or --data.level{hint}"
        )
    edges, edge_starts = add_reverse_edges(parts, config)
    classes, numbers, target = targets(list(labels), config.asks, parts.what)
    if parts.split and config.folds is not None:
        raise no_folds(parts.what, config)
    split = parts.split or draw_split(parts, level, classes, target, config, seed)
    split = check_split(split, target, parts.what)
    learned = target[split["train"]]
    if numbers is None:
        size = (0.0, 1.0)
    else:
        size = (float(learned.mean()), float(find_scale(learned)))
    x, scaling = features(parts, edges, config, level=level)
    edge_x, edge_scaling = scale_edge_features(parts, edges, config.directed)
    if numbers is None:
        final = torch.as_tensor(target)
    else:
        final = torch.as_tensor((target - size[0]) / size[1]).float()
    return Graphs(
        parts=parts,
        x=x,
        edges=edges,
        edge_starts=edge_starts,
        level=level,
        target=final,
        labels=classes,
        size=size,
        split=split,
        scaling=scaling,
        edge_x=edge_x,
        edge_scaling=edge_scaling,
        notes=(*parts.notes, *explain_asks(list(filter(is_known, labels)), config.asks, config.label)),
    )


def add_reverse_edges(parts: Parts, config: GraphsConfig) -> tuple[Array, Array]:
    if config.directed:
        return (parts.edges, parts.edge_starts)
    return symmetric(parts.edges, parts.edge_starts, parts.nodes)


def level_of(parts: Parts, config: GraphsConfig) -> str:
    if config.level != "auto":
        return config.level
    found = [level for level in ("graph", "node", "edge") if getattr(parts, f"{level}_labels") is not None]
    if found:
        return found[0]
    return "node"


def labels_at(parts: Parts, level: str) -> Any:
    return {"node": parts.node_labels, "edge": parts.edge_labels, "graph": parts.graph_labels}[level]


# ── features


def features(
    parts: Parts, edges: Array, config: GraphsConfig, *, level: str = "node", known: Scaling | None = None
) -> tuple[Tensor, Scaling]:
    """The scaled features of nodes as a tensor, sparse if they are mostly zero. known: the scaling of a
    run"""
    if known is None or known.of is None:
        of = _whose(parts, config, level)
    else:
        of = known.of
    x = parts.x
    if of == "degree":
        x = _degrees(edges, parts.nodes)
    if x is None or (isinstance(x, np.ndarray) and not x.shape[1]):
        where = Path(parts.what)
        if where.is_dir():
            beside = "in nodes.csv in it"
        else:
            beside = f"in {where.stem}.nodes.csv beside it"
        if known is not None:
            raise RegardError(
                f"{parts.what} has no features of nodes, but the model was trained with features; give "
                f"them {beside}, or with --data.nodes"
            )
        raise RegardError(
            f"{parts.what} has no features of nodes; give columns of numbers ({beside}, or with "
            "--data.nodes), or use --data.features degree"
        )
    fill = None
    if of != "degree" and isinstance(x, np.ndarray):
        fill = find_fill(x, parts, config.missing, known)
        x = x if fill is None else np.where(np.isnan(x), np.array(fill, dtype=np.float32), x)
    if of == "given" and isinstance(x, np.ndarray) and (known is None or known.mean is None) and is_thin(x):
        x = _to_rows(x)
    if isinstance(x, Rows):
        sparse, width = True, x.width
    else:
        sparse, width = False, x.shape[1]
    # numpy would broadcast one column to all
    if known is not None and known.mean is not None and len(known.mean) != width:
        raise RegardError(
            f"{parts.what} has {width} features per node, but the model was trained with {len(known.mean)}"
        )
    how = config.scale if known is None else known.how
    if how == "auto":
        how = "rows" if sparse else "columns"
        if of == "degree":
            how = "none"
    if isinstance(x, Rows):
        if of == "both":
            raise RegardError(
                f"the features of {parts.what} are sparse and cannot be combined with degrees; use "
                "--data.features given or degree"
            )
        if how == "columns":
            raise RegardError(
                f"the features of {parts.what} are mostly zero, and columns with mean 0 would make them "
                "dense; use --data.scale rows or none"
            )
        return _sparse_tensor(x, how == "rows"), Scaling(of="given", how=how, fill=fill)
    if how == "rows":
        total = np.abs(x).sum(1, keepdims=True)
        x = x / np.where(total > 0, total, 1)
    scaling = Scaling(of=of, how=how, fill=fill) if known is None else known
    if how == "columns":
        if known is None:
            mean = x.mean(0) if len(x) else np.zeros(x.shape[1])
            scaling = Scaling(
                of=of,
                how=how,
                mean=tuple(mean.tolist()),
                deviation=tuple(find_scale(x).tolist()),
                fill=fill,
            )
        x = (x - np.array(scaling.mean, dtype=np.float32)) / np.array(scaling.deviation, dtype=np.float32)
    if of == "both":
        x = np.concatenate([x, _degrees(edges, parts.nodes)], 1)
    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)), scaling


def is_thin(x: Array) -> bool:
    return bool(x.shape[1] >= WIDE and np.count_nonzero(x) < SPARSE_BELOW * x.size)


def _whose(parts: Parts, config: GraphsConfig, level: str) -> Literal["given", "degree", "both"]:
    """Which features nodes have. A mean over neighbours or nodes cannot count, so whole graphs get degrees
    too."""
    if config.features != "auto":
        return config.features
    if level != "graph" or isinstance(parts.x, Rows):
        return "given"
    if parts.x is None or not parts.x.shape[1]:
        return "degree"
    return "both"


def _degrees(edges: Array, nodes: int) -> Array:
    """1, log(1 + degree), and the degree as one-hot, up to a limit.   n d"""
    degree = np.bincount(edges[1], minlength=nodes)
    which = np.eye(MOST_DEGREE + 1, dtype=np.float32)[np.minimum(degree, MOST_DEGREE)]
    return np.concatenate([np.ones((nodes, 1)), np.log1p(degree)[:, None], which], 1).astype(np.float32)


def _to_rows(x: Array) -> Rows:
    row, column = np.nonzero(x)
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(x)))])
    return Rows(starts, column, x[row, column], x.shape[1])


def _sparse_tensor(x: Rows, rows_sum_to_one: bool) -> Tensor:
    values, row = x.values, np.repeat(np.arange(len(x)), np.diff(x.starts))
    if rows_sum_to_one and len(values):
        total = np.bincount(row, np.abs(values), minlength=len(x))
        values = (values / np.where(total > 0, total, 1)[row]).astype(np.float32)
    places = torch.from_numpy(np.stack([row, x.columns]))
    return torch.sparse_coo_tensor(
        places, torch.from_numpy(values), (len(x), x.width), check_invariants=False
    ).coalesce()


# ── batches


class GraphSource(Source):
    """Batches of graphs. One graph: the whole graph at every step, with the targets of the split. Many
    graphs: some of them, as one disconnected graph.

    The graphs of a step depend on (seed, step) alone.
    """

    def __init__(self, graphs: Graphs, batch: int, seed: int) -> None:
        self.graphs = graphs
        self.many = graphs.level == "graph"
        # why several processes cannot share a batch
        self.whole = None if self.many else "the data is one graph, which every step reads as a whole"
        if self.many:
            self._epochs = Epochs(graphs.split["train"], batch, seed)
            if graphs.x.layout is torch.strided:
                self._dense = graphs.x
            else:
                self._dense = graphs.x.to_dense()
        else:
            self._edges = torch.from_numpy(np.ascontiguousarray(graphs.edges))
            self._pairs: Tensor | None = None
            if graphs.level == "edge":
                self._pairs = torch.from_numpy(np.ascontiguousarray(graphs.parts.edges))
            self._whole = {name: self._whole_batch(name) for name in SPLITS}

    def batch(self, step: int) -> Batch:
        if self.many:
            return self.some(self._epochs.rows(step))
        return self._whole["train"]

    def validation(self) -> Iterator[Batch]:
        return self.of("validation")

    def of(self, split: str) -> Iterator[Batch]:
        """All of a split, in the same order every time."""
        rows = self.graphs.split[split]
        if not self.many:
            yield from [self._whole[split]] if len(rows) else []
            return
        for start in range(0, len(rows), self._epochs.batch):
            yield self.some(rows[start : start + self._epochs.batch])

    def rows(self, split: str) -> Array:
        """The numbers of the nodes, edges or graphs of a split, in the order of its batches: those of one
        graph in the order of its nodes."""
        found: Array = self.graphs.split[split]
        if self.graphs.level == "node":
            found = np.sort(found)
        return found

    def _whole_batch(self, split: str) -> Batch:
        """The whole graph; only the split has targets."""
        graphs, rows = self.graphs, torch.from_numpy(self.graphs.split[split])
        target = torch.full_like(graphs.target, torch.nan if graphs.labels is None else IGNORE)
        target[rows] = graphs.target[rows]
        if self._pairs is not None:  # the batch holds only the pairs of the split
            target, pairs = graphs.target[rows], self._pairs[:, rows]
        else:
            pairs = None
        inputs = {"x": graphs.x, "edges": self._edges, "pairs": pairs, "edge_features": graphs.edge_x}
        return Batch(inputs, target, rows=len(target), size=len(graphs.x), cut=refuse_slice)

    def some(self, which: Sequence[int] | Array) -> Batch:
        """These graphs as one disconnected graph."""
        which = np.asarray(which, dtype=np.int64)
        graphs = self.graphs
        nodes, of = _ranges(graphs.parts.starts, which)
        along, of_edge = _ranges(graphs.edge_starts, which)
        begins = np.concatenate([[0], np.cumsum(np.diff(graphs.parts.starts)[which])])[:-1]
        moved = graphs.edges[:, along] - graphs.parts.starts[which][of_edge] + begins[of_edge]
        inputs = {
            "x": self._dense[torch.from_numpy(nodes)],
            "edges": torch.from_numpy(moved),
            "of": torch.from_numpy(of),
            "graphs": len(which),
            "edge_features": None if graphs.edge_x is None else graphs.edge_x[torch.from_numpy(along)],
        }
        target = graphs.target[torch.from_numpy(which)]
        return Batch(inputs, target, rows=len(which), size=len(nodes), cut=slice_graphs)


def _ranges(starts: Array, which: Array) -> tuple[Array, Array]:
    """starts[w] … starts[w + 1] for each w of `which`, concatenated, and the index of w for each number."""
    counts = np.diff(starts)[which]
    of = np.repeat(np.arange(len(which)), counts)
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - (ends - counts)[of] + starts[which][of], of
