"""Predictions for nodes, edges or whole graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.data.array import Array
from regard.data.batch import Batch, generator
from regard.data.slices import refuse_slice
from regard.errors import RegardError
from regard.recipes.graphs.dataset import (
    GraphsConfig,
    add_reverse_edges,
    features,
    labels_at,
    read_parts,
)
from regard.recipes.graphs.edge_features import match_edge_features
from regard.recipes.graphs.fill import note_on_filled
from regard.recipes.graphs.info import GraphsInfo
from regard.recipes.graphs.job import open_mapped
from regard.recipes.graphs.labels import is_known, text_of
from regard.recipes.graphs.neighbours import MappedGraph, SampledSource, looks_mapped
from regard.recipes.graphs.other_data import config_for
from regard.recipes.graphs.parts import Parts
from regard.recipes.prediction import Prediction, predict_each
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.training.tasks import call

AT_ONCE = 1024  # nodes of a large graph in one forward pass


@torch.no_grad()
def predict(run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
    """For each file, predictions for its nodes, its edges or its graphs."""
    model, config, info = (
        load_model(run),
        run.section(GraphsConfig, "data"),
        run.section(GraphsInfo, "corpus"),
    )

    def predict_file(path: str) -> list[Prediction]:
        if looks_mapped(path):
            return [_of_large(model, open_mapped(config, path, 0), info)]
        parts = read_parts(config_for(run, path))
        notes = note_on_filled(parts, info.scaling)
        found = _of_parts(model, parts, config, info)
        return [*found[:-1], *(replace(last, notes=notes) for last in found[-1:])]

    yield from predict_each(inputs, predict_file)


def _of_parts(model: Any, parts: Parts, config: GraphsConfig, info: GraphsInfo) -> list[Prediction]:
    edges, _ = add_reverse_edges(parts, config)
    x, _ = features(parts, edges, config, known=info.scaling)
    if x.shape[1] != model.config.features:
        raise RegardError(
            f"{parts.what} has {x.shape[1]} features per node, but the model was trained with "
            f"{model.config.features}"
        )
    of = torch.repeat_interleave(torch.arange(parts.graphs), torch.from_numpy(parts.starts).diff())
    level = info.level
    if level == "edge":
        pairs = torch.from_numpy(parts.edges)
    else:
        pairs = None
    inputs = {
        "x": x,
        "edges": torch.from_numpy(edges),
        "of": of,
        "graphs": parts.graphs,
        "pairs": pairs,
        "edge_features": match_edge_features(parts, edges, config.directed, info.edge_scaling),
    }
    batch = Batch(inputs, torch.zeros(0), cut=refuse_slice)
    each = _format_outputs(
        call(model, batch), info, [parts.called(level, i) for i in range(_count(parts, level))]
    )
    each = _with_truths(each, parts, config, info)
    if level != "graph":
        return [Prediction(input=parts.what, each=tuple(each))]
    several = parts.graphs > 1
    return [replace(found, input=f"{parts.what}: {found.input}" if several else parts.what) for found in each]


def _with_truths(
    each: list[Prediction], parts: Parts, config: GraphsConfig, info: GraphsInfo
) -> list[Prediction]:
    """Predictions with the columns that identify a node, an edge or a graph, and its label if there is one."""
    labels = labels_at(parts, info.level)
    found = []
    for number, prediction in enumerate(each):
        if info.level == "edge":
            ends = [parts.called("node", int(end)) for end in parts.edges[:, number]]
            row: dict[str, Any] = dict(zip(("source", "target"), ends, strict=True))
        else:
            row = {info.level: prediction.input}
        truth = None if labels is None else _truth(labels[number], info)
        if labels is not None:
            row[config.label] = truth
        found.append(replace(prediction, row=row, truth=truth))
    return found


def _truth(label: Any, info: GraphsInfo) -> str | float | None:
    """A label as training reads it; None: unknown"""
    if not is_known(label):
        return None
    if info.labels is not None:
        return text_of(label)
    try:
        return float(label)
    except (TypeError, ValueError):
        return None


def _count(parts: Parts, level: str) -> int:
    return {"node": parts.nodes, "edge": int(parts.edges.shape[1]), "graph": parts.graphs}[level]


def _of_large(model: Any, graph: MappedGraph, info: GraphsInfo) -> Prediction:
    """Predictions for all nodes of a large graph, each with sampled neighbours."""
    source = SampledSource(graph, AT_ONCE, 0, model.config.depth)
    found: list[Prediction] = []
    for rows in torch.arange(len(graph.starts) - 1).split(AT_ONCE):
        nodes: Array = rows.numpy()
        out = call(model, source.some(nodes, generator(0, 7, int(nodes[0]))))[: len(nodes)]
        found += _format_outputs(out, info, map(str, nodes.tolist()))
    return Prediction(input=graph.path, each=tuple(found))


def _format_outputs(out: Tensor, info: GraphsInfo, called: Iterable[str]) -> list[Prediction]:
    """Probabilities of classes, the highest first, or numbers in the units of the data, with their column
    name."""
    if info.labels is None:
        mean, deviation = info.size or (0.0, 1.0)
        numbers = (out[:, 0].double() * deviation + mean).tolist()
        column = info.label or "value"
        return [
            Prediction(input=name, values={column: number})
            for name, number in zip(called, numbers, strict=True)
        ]
    return [
        Prediction.of_classes(name, shares, info.labels)
        for name, shares in zip(called, out.softmax(-1), strict=True)
    ]
