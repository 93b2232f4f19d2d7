"""Features of nodes and edges: which there are, how they are filled and scaled, and what models get of them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from regard.config import Amount, Natural, config
from regard.data.array import Array
from regard.data.targets import find_scale
from regard.errors import RegardError
from regard.recipes.graphs.config import GraphsConfig
from regard.recipes.graphs.parts import Parts, Rows

SPARSE_BELOW, WIDE = 0.1, 64  # features with fewer nonzeros and at least this width are stored sparse
MOST_DEGREE = 15  # each degree up to this one is a feature
DEGREES = MOST_DEGREE + 3  # features that follow from the degree of a node
TOLD = 5  # columns that a note names

Of = Literal["given", "degree", "both"]


@config
class Scaling:
    """Which features nodes or edges have and how they are scaled, so that those of other graphs are scaled alike."""

    how: Literal["none", "rows", "columns"]
    of: Of = "given"  # a mean over neighbours or nodes cannot count, so the degree may be a feature, too
    width: Natural  # of what is given
    mean: tuple[float, ...] | None = None
    deviation: tuple[Amount, ...] | None = None
    fill: tuple[float, ...] | None = None  # what a missing feature becomes; None: none may be missing

    @property
    def features(self) -> int:
        """How many the model gets."""
        return {"given": self.width, "degree": DEGREES, "both": self.width + DEGREES}[self.of]

    def standardise(self, x: Array) -> Array:
        """n d -> n d"""
        mean, deviation = (np.array(each, dtype=x.dtype) for each in (self.mean, self.deviation))
        found: Array = (x - mean) / deviation
        return found


# ── of nodes


def fit_features(parts: Parts, config: GraphsConfig, level: str) -> Scaling:
    """Which features the nodes of these graphs have, and their scale."""
    of = _whose(parts, config, level)
    x = _degrees(parts) if of == "degree" else _given(parts)
    if x is None:
        raise RegardError(
            f"{parts.what} has no features of nodes; give columns of numbers ({_beside(parts)}, or with --data.nodes), "
            "or use --data.features degree"
        )
    width = 0 if of == "degree" else int(x.shape[1])
    fill = None
    if of != "degree" and isinstance(x, np.ndarray) and config.missing == "fill":
        fill = _medians(x, parts)
        x = _filled(x, fill)
    sparse = isinstance(x, Rows) or (of == "given" and is_thin(x))
    how = config.scale
    if how == "auto":
        how = "none" if of == "degree" else "rows" if sparse else "columns"
    if sparse:
        _check_sparse(parts, of, how)
    if how != "columns" or isinstance(x, Rows):
        return Scaling(how=how, of=of, width=width, fill=fill)
    mean, deviation = _scale_of(x)
    return Scaling(how=how, of=of, width=width, mean=mean, deviation=deviation, fill=fill)


def check_features(parts: Parts, scaling: Scaling) -> None:
    """Raise if graphs have not the features that a model was trained with."""
    if scaling.of == "degree":
        return
    x = _given(parts)
    if x is None:
        raise RegardError(
            f"{parts.what} has no features of nodes, but the model was trained with features; give them "
            f"{_beside(parts)}, or with --data.nodes"
        )
    if x.shape[1] != scaling.width:
        raise RegardError(
            f"{parts.what} has {x.shape[1]} features per node, but the model was trained with {scaling.width}"
        )
    if isinstance(x, Rows):
        _check_sparse(parts, scaling.of, scaling.how)
    elif scaling.fill is None and np.isnan(x).any():
        raise RegardError(
            f"{parts.what} has {int(np.isnan(x).sum()):,} missing features of nodes, and the model was trained "
            "without --data.missing fill, so it knows no values to fill in; fill in the cells"
        )


def encode_features(parts: Parts, scaling: Scaling) -> Tensor:
    """The scaled features of nodes, sparse if they are mostly zero.   n d"""
    x = _degrees(parts) if scaling.of == "degree" else _given(parts)
    assert x is not None
    if isinstance(x, np.ndarray):
        if scaling.fill is not None:
            x = _filled(x, scaling.fill)
        if scaling.of == "given" and scaling.mean is None and is_thin(x):
            x = _to_rows(x)
    if isinstance(x, Rows):
        return _sparse_tensor(x, scaling.how == "rows")
    if scaling.how == "rows":
        total = np.abs(x).sum(1, keepdims=True)
        x = x / np.where(total > 0, total, 1)
    elif scaling.how == "columns":
        x = scaling.standardise(x)
    if scaling.of == "both":
        x = np.concatenate([x, _degrees(parts)], 1)
    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))


def is_thin(x: Array) -> bool:
    """Is it wide and mostly zero, as the words of a page?"""
    return bool(x.shape[1] >= WIDE and np.count_nonzero(x) < SPARSE_BELOW * x.size)


def note_on_filled(parts: Parts, scaling: Scaling) -> tuple[str, ...]:
    """How many features were missing, and with what they were filled."""
    if scaling.fill is None or not isinstance(parts.x, np.ndarray):
        return ()
    counts = np.isnan(parts.x).sum(0)
    if not counts.any():
        return ()
    names = parts.columns or [str(i + 1) for i in range(len(counts))]
    each = [f"{names[i]} {counts[i]:,} × {scaling.fill[i]:.6g}" for i in np.flatnonzero(counts).tolist()]
    more = f" and {len(each) - TOLD} more columns" if len(each) > TOLD else ""
    return (
        f"filled {int(counts.sum()):,} missing features of nodes with the median of their column: "
        f"{', '.join(each[:TOLD])}{more}",
    )


def _whose(parts: Parts, config: GraphsConfig, level: str) -> Of:
    if config.features != "auto":
        return config.features
    if level != "graph" or isinstance(parts.x, Rows):
        return "given"
    return "degree" if _given(parts) is None else "both"


def _given(parts: Parts) -> Array | Rows | None:
    """What nodes have by themselves; None: nothing."""
    return None if parts.x is None or not parts.x.shape[1] else parts.x


def _beside(parts: Parts) -> str:
    """Where features of nodes may be."""
    where = Path(parts.what)
    return "in nodes.csv in it" if where.is_dir() else f"in {where.stem}.nodes.csv beside it"


def _check_sparse(parts: Parts, of: str, how: str) -> None:
    if of == "both":
        raise RegardError(
            f"the features of {parts.what} are sparse and cannot be combined with degrees; use --data.features given "
            "or degree"
        )
    if how == "columns":
        raise RegardError(
            f"the features of {parts.what} are mostly zero, and columns with mean 0 would make them dense; use "
            "--data.scale rows or none"
        )


def _medians(x: Array, parts: Parts) -> tuple[float, ...]:
    for number, column in enumerate(x.T):
        if len(column) and np.isnan(column).all():
            name = parts.columns[number] if parts.columns else number + 1
            raise RegardError(f"every cell of column '{name}' of {parts.what} is missing; remove the column")
    return tuple((np.nanmedian(x, 0) if len(x) else np.zeros(x.shape[1])).tolist())


def _filled(x: Array, fill: tuple[float, ...]) -> Array:
    return np.where(np.isnan(x), np.array(fill, dtype=np.float32), x)


def _scale_of(x: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and the deviation of each column."""
    mean = x.mean(0) if len(x) else np.zeros(x.shape[1])
    return tuple(mean.tolist()), tuple(find_scale(x).tolist())


def _degrees(parts: Parts) -> Array:
    """1, log(1 + degree), and the degree as one-hot, up to a limit.   n d"""
    degree = np.bincount(parts.links[1], minlength=parts.nodes)
    which = np.eye(MOST_DEGREE + 1, dtype=np.float32)[np.minimum(degree, MOST_DEGREE)]
    return np.concatenate([np.ones((parts.nodes, 1)), np.log1p(degree)[:, None], which], 1).astype(np.float32)


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
    return torch.sparse_coo_tensor(places, torch.from_numpy(values), x.shape, check_invariants=False).coalesce()


# ── of edges


def fit_edge_features(parts: Parts, directed: bool) -> Scaling | None:
    """The scale of the features of edges; None: they have none."""
    x = _of_links(parts, directed)
    if x is None:
        return None
    mean, deviation = _scale_of(x)
    return Scaling(how="columns", width=x.shape[1], mean=mean, deviation=deviation)


def check_edge_features(parts: Parts, scaling: Scaling | None) -> None:
    """Raise if edges have not the features that a model was trained with."""
    if scaling is None:
        return
    if parts.edge_x is None or parts.edge_x.shape[1] != scaling.width:
        got = "none" if parts.edge_x is None else parts.edge_x.shape[1]
        raise RegardError(
            f"{parts.what} has {got} features per edge, but the model was trained with {scaling.width}; give the same "
            "columns"
        )


def encode_edge_features(parts: Parts, directed: bool, scaling: Scaling | None) -> Tensor | None:
    """The scaled features of links; None: the model was trained without.   e k"""
    if scaling is None:
        return None
    x = _of_links(parts, directed)
    assert x is not None
    return torch.from_numpy(np.ascontiguousarray(scaling.standardise(x.astype(np.float64)), dtype=np.float32))


def _of_links(parts: Parts, directed: bool) -> Array | None:
    """The features of links. Without directions, edges between two nodes are one edge in both: it has the mean of their
    features.   e k"""
    if parts.edge_x is None or directed:
        return parts.edge_x
    many = np.int64(max(parts.nodes, 1))
    ends, links = parts.edges, parts.links
    known, place = np.unique(ends.min(0) * many + ends.max(0), return_inverse=True)
    total = np.zeros((len(known), parts.edge_x.shape[1]))
    np.add.at(total, place, parts.edge_x)
    mean = total / np.bincount(place, minlength=len(known))[:, None].clip(1)
    found: Array = mean[np.searchsorted(known, links.min(0) * many + links.max(0))]
    return found
