"""Features of edges for training: both directions of an edge share them, and columns are standardised."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from regard.data.array import Array
from regard.data.targets import find_scale
from regard.errors import RegardError
from regard.recipes.graphs.info import Scaling
from regard.recipes.graphs.parts import Parts

Found = tuple[Tensor | None, Scaling | None]


def scale_edge_features(parts: Parts, edges: Array, directed: bool, known: Scaling | None = None) -> Found:
    """The features of `edges`, which were made from those of the parts, and their scaling. known: the scaling of a
    run   e k"""
    if parts.edge_x is None:
        return None, None
    if directed:
        x = parts.edge_x
    else:
        x = _share(parts.edges, parts.edge_x, edges, parts.nodes)
    if known is None:
        known = Scaling(
            of="given",
            how="columns",
            mean=tuple((x.mean(0) if len(x) else np.zeros(x.shape[1])).tolist()),
            deviation=tuple(find_scale(x).tolist()),
        )
    scaled = (x - np.array(known.mean)) / np.array(known.deviation)
    return torch.from_numpy(np.ascontiguousarray(scaled, dtype=np.float32)), known


def match_edge_features(parts: Parts, edges: Array, directed: bool, known: Scaling | None) -> Tensor | None:
    """The same for other graphs, as a run was trained: none if it was trained without."""
    if known is None:
        return None
    width = len(known.mean or ())
    if parts.edge_x is None or parts.edge_x.shape[1] != width:
        got = "none" if parts.edge_x is None else parts.edge_x.shape[1]
        raise RegardError(
            f"{parts.what} has {got} features per edge, but the model was trained with {width}; give the same "
            "columns"
        )
    return scale_edge_features(parts, edges, directed, known)[0]


def _share(given: Array, x: Array, edges: Array, nodes: int) -> Array:
    """Edges between two nodes are one edge in both directions: it has the mean of their features.
    e k -> e′ k"""
    many = np.int64(max(nodes, 1))
    known, place = np.unique(given.min(0) * many + given.max(0), return_inverse=True)
    total = np.zeros((len(known), x.shape[1]))
    np.add.at(total, place, x)
    mean = total / np.bincount(place, minlength=len(known))[:, None].clip(1)
    found: Array = mean[np.searchsorted(known, edges.min(0) * many + edges.max(0))]
    return found
