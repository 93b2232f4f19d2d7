"""Other graphs with labels, read as a run reads its own data, to evaluate the run on them."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from regard.data.batch import IGNORE
from regard.errors import RegardError
from regard.recipes.graphs.dataset import (
    Graphs,
    GraphsConfig,
    add_reverse_edges,
    features,
    labels_at,
    read_parts,
)
from regard.recipes.graphs.edge_features import match_edge_features
from regard.recipes.graphs.info import GraphsInfo
from regard.recipes.graphs.labels import is_known, is_number, targets, text_of
from regard.runs.run import Run


def config_for(run: Run, path: str) -> GraphsConfig:
    """How a run reads the graphs at a path. Its own table of nodes is for its own edges: other edges may be
    between other nodes, so their table lies beside them, or is named."""
    config = run.section(GraphsConfig, "data")
    same = config.path is not None and os.path.realpath(path) == os.path.realpath(config.path)
    if same or "nodes" in run.asked:
        return replace(config, path=path)
    return replace(config, path=path, nodes=None)


def read_other_graphs(config: GraphsConfig, info: GraphsInfo) -> Graphs:
    """All graphs of a path; the split "test" holds what is evaluated."""
    parts = read_parts(config)
    labels = labels_at(parts, info.level)
    if labels is None:
        raise RegardError(
            f"{parts.what} has no labels of {info.level}s to evaluate on; give a column '{config.label}', or "
            "name it with --data.label"
        )
    edges, edge_starts = add_reverse_edges(parts, config)
    x, scaling = features(parts, edges, config, level=info.level, known=info.scaling)
    if x.shape[1] != info.features:
        raise RegardError(
            f"{parts.what} has {x.shape[1]} features per node, but the model was trained with {info.features}"
        )
    target = _target(list(labels), info, parts.what)
    known = np.flatnonzero(~np.isnan(target) if info.labels is None else target != IGNORE)
    chosen = np.asarray((parts.split or {}).get("test", known), dtype=np.int64)
    chosen = chosen[np.isin(chosen, known)]
    if not len(chosen):
        raise RegardError(f"{parts.what} has no labelled {info.level} to evaluate on; add labels")
    empty = np.zeros(0, dtype=np.int64)
    return Graphs(
        parts=parts,
        x=x,
        edges=edges,
        edge_starts=edge_starts,
        level=info.level,
        target=torch.as_tensor(target),
        labels=info.labels,
        size=info.size or (0.0, 1.0),
        split={"train": chosen, "validation": empty, "test": chosen},
        scaling=scaling,
        edge_x=match_edge_features(parts, edges, config.directed, info.edge_scaling),
        edge_scaling=info.edge_scaling,
    )


def _target(labels: list[Any], info: GraphsInfo, what: str) -> Any:
    """Labels as targets of the model: indices of its classes, or standardised numbers."""
    if info.labels is None:
        for label in labels:
            if is_known(label) and not is_number(label):
                raise RegardError(
                    f"{what} has the label '{label}', but the model predicts numbers; correct it, or name another "
                    "column with --data.label"
                )
        _, numbers, _ = targets(labels, "numbers", what)
        mean, deviation = info.size or (0.0, 1.0)
        return ((np.asarray(numbers) - mean) / deviation).astype(np.float32)
    place = {name: number for number, name in enumerate(info.labels)}
    names = [text_of(label) if is_known(label) else None for label in labels]
    for name in names:
        if name is not None and name not in place:
            known = ", ".join(info.labels[:5]) + ", ..." * (len(info.labels) > 5)
            raise RegardError(
                f"{what} has the class '{name}', but the model knows {known}; remove it, or correct its name"
            )
    return np.array([IGNORE if name is None else place[name] for name in names], dtype=np.int64)
