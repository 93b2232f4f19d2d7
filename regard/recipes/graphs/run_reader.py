"""How a run reads graphs: as it read its training data. It shows an example of that data."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import IGNORE, generator
from regard.errors import RegardError
from regard.look.reader import GONE, Reader, readable
from regard.recipes.graphs.dataset import GraphsConfig, add_reverse_edges, features, read_parts
from regard.recipes.graphs.edge_features import match_edge_features
from regard.recipes.graphs.info import GraphsInfo
from regard.recipes.graphs.labels import is_known, targets
from regard.recipes.graphs.neighbours import MappedGraph, looks_mapped
from regard.recipes.graphs.other_data import config_for
from regard.recipes.graphs.parts import Parts
from regard.recipes.graphs.reader import GraphExample, GraphReader
from regard.runs.run import Run

DENSE = 2**27  # the largest number of features that are stored dense


def run_reader(run: Run, network: Any) -> Reader:
    """The reader of a run on graphs. If the data of the run is gone, it shows a random graph."""
    config, info = run.section(GraphsConfig, "data"), run.section(GraphsInfo, "corpus")
    level, labels, model, roles = info.level, info.labels, network.config, network.roles
    inputs = network.sample_inputs()

    def linked(parts: Parts) -> GraphExample:
        """A graph as the model was trained on it; the first of many."""
        edges, edge_starts = add_reverse_edges(parts, config)
        x, _ = features(parts, edges, config, known=info.scaling)
        if x.shape[1] != model.features:
            raise RegardError(
                f"{parts.what} has {x.shape[1]} features per node, but the model was trained with "
                f"{model.features}"
            )
        if x.layout is not torch.strided and x.numel() <= DENSE:
            x = x.to_dense()
        if level == "graph":
            stop, last = int(parts.starts[1]), int(edge_starts[1])
        else:
            stop, last = parts.nodes, edges.shape[1]
        if stop != len(x):
            x = x.index_select(0, torch.arange(stop))
        found: dict[str, Any] = {"x": x, "edges": torch.from_numpy(np.ascontiguousarray(edges[:, :last]))}
        edge_x = match_edge_features(parts, edges, config.directed, info.edge_scaling)
        if edge_x is not None:
            found["edge_features"] = edge_x[:last]
        if level == "edge":
            found["pairs"] = torch.from_numpy(np.ascontiguousarray(parts.edges))
        if level == "graph" and parts.graphs > 1:
            more = first_of(parts)
        else:
            more = None
        if parts.names is None:
            names = None
        else:
            names = list(parts.names[:stop])
        return GraphExample(
            found,
            names,
            truth_of(parts) if level == "node" else None,
            (more,) if more else (),
            None if parts.kinds is None else parts.kinds[:stop],
            sorted(set(parts.kinds or ())),
        )

    def first_of(parts: Parts) -> str:
        if parts.graph_labels is None:
            label = None
        else:
            label = parts.graph_labels[0]
        if label is not None and is_known(label):
            truth = f"; target {label}"
        else:
            truth = ""
        return f"Graph {parts.called('graph', 0)}, the first of {parts.graphs:,}, is shown{truth}."

    def truth_of(parts: Parts) -> list[str | None] | None:
        if parts.node_labels is None or labels is None:
            return None
        names, _, target = targets(list(parts.node_labels), config.asks, parts.what)
        if names is None:
            return None
        return [None if place == IGNORE else names[place] for place in target.tolist()]

    @cache
    def whole() -> GraphExample:
        return linked(read_parts(config))

    def example(name: str | None) -> GraphExample:
        if looks_mapped(config.path):
            return _of_large(str(config.path), config, model.depth, name)
        if there:
            return whole()
        return GraphExample(inputs, notes=(GONE,))

    def read(path: Path) -> GraphExample:
        return linked(read_parts(config_for(run, str(path))))

    def numbers(out: Tensor) -> list[tuple[str, float]]:
        mean, deviation = info.size or (0.0, 1.0)
        return [(info.label or "value", float(out[0]) * deviation + mean)]

    there = looks_mapped(config.path) or readable(whole)
    return GraphReader(
        roles,
        example,
        read=read,
        classes=labels if level in ("node", "graph") else None,
        numbers=numbers if labels is None else None,
    )


def _of_large(path: str, config: GraphsConfig, hops: int, name: str | None) -> GraphExample:
    """The input for a prediction of one node of a large graph: sampled neighbours, as in training."""
    graph = MappedGraph.open(path, neighbours=config.neighbours, validation=0.0, test=0.0, seed=0)
    count = len(graph.starts) - 1
    if name is not None and not (name.isdecimal() and len(name) < 20 and int(name) < count):
        raise RegardError(f"there is no file and no node {name!r}; nodes are called 0 … {count - 1}")
    node = 0 if name is None else int(name)
    nodes, edges = graph.around(np.array([node]), hops, generator(0, 7, node))
    x: Tensor = torch.from_numpy(np.asarray(graph.x[nodes], dtype=np.float32))
    truth = [
        graph.labels[place] if place >= 0 else None for place in np.asarray(graph.classes[nodes]).tolist()
    ]
    note = (
        f"The model predicts node {node} from these nodes: neighbours drawn at random among {count:,} nodes."
    )
    return GraphExample(
        {"x": x, "edges": torch.from_numpy(edges)}, [str(each) for each in nodes.tolist()], truth, (note,)
    )
