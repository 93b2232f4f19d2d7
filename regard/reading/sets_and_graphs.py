"""How runs of ours read sets and graphs: as the data that they learned from, of which they show an example."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.config import from_dict
from regard.data.batch import IGNORE, generator
from regard.data.clouds import find_clouds
from regard.data.graph_parts import Parts
from regard.data.graph_targets import targets
from regard.data.graphs import GraphsConfig, Scaling, both_ways, features, read_parts
from regard.data.neighbours import MappedGraph, looks_mapped
from regard.data.sets import SetsConfig, SetsForm, draw, sets_in
from regard.reading.reader import Reader
from regard.reading.things import Array, Linked, Nodes, Points
from regard.run import Run
from regard.symmetry.roles import Roles

GONE = "The data of this run cannot be read any more, so what is shown was drawn at random; --input shows something of yours."
DENSE = 2**27  # features of a graph that are laid out, zeros and all


def reader_of_run(run: Run, model: Any, inputs: Mapping[str, Any]) -> Reader | None:
    """What reads for a run on sets or graphs; `inputs` are shown if its data is gone. None for any other run."""
    about, roles = run.config.get("corpus", {}), getattr(model, "roles", None)
    if not isinstance(roles, Roles):
        return None
    if "form" in about and roles.stream is not None:
        return own_sets(run, roles, inputs)
    if "scaling" in about and roles.nodes is not None:
        return own_graphs(run, roles, model.config, inputs)
    return None


# ---- sets


def own_sets(run: Run, roles: Roles, inputs: Mapping[str, Any]) -> Reader:
    config, form = run.section(SetsConfig, "data"), from_dict(SetsForm, run.config["corpus"]["form"])
    folder = config.path is not None and Path(config.path).expanduser().is_dir()

    def read(path: Path) -> Array:
        """The only cloud of a file, or the first set of a table."""
        return next(sets_in(str(path), config, form))[1]

    @cache
    def example() -> Array:
        if config.path is None:
            return draw(config, 1, generator(run.config["train"]["seed"], 9)).points
        return read(Path(find_clouds(config.path)[0].path if folder else config.path).expanduser())

    how: dict[str, Any] = {"read": read, "taken": form.read, "columns": form.features}
    if form.asks == "classes":
        how["classes"] = form.answers
    there = readable(example)
    return Points(roles, inputs, example=example if there else None, notes=() if there else (GONE,), **how)


def readable(example: Callable[[], Any]) -> bool:
    try:
        example()
    except (OSError, ValueError):
        return False
    return True


# ---- graphs


def own_graphs(run: Run, roles: Roles, model: Any, inputs: Mapping[str, Any]) -> Reader:
    config, about = run.section(GraphsConfig, "data"), run.config["corpus"]
    level, labels = about["level"], about["labels"]

    def linked(parts: Parts) -> Linked:
        """A graph as it was learned from; of many the first."""
        edges, edge_starts = both_ways(parts, config)
        x, _ = features(parts, edges, config, known=Scaling(**about["scaling"]))
        if x.shape[1] != model.features:
            raise ValueError(f"{parts.what} has {x.shape[1]} numbers a node, but the model learned from {model.features}")
        if x.layout is not torch.strided and x.numel() <= DENSE:
            x = x.to_dense()
        stop, last = (int(parts.starts[1]), int(edge_starts[1])) if level == "graph" else (parts.nodes, edges.shape[1])
        x = x if stop == len(x) else x.index_select(0, torch.arange(stop))
        found: dict[str, Any] = {"x": x, "edges": torch.from_numpy(np.ascontiguousarray(edges[:, :last]))}
        if level == "edge":
            found["pairs"] = torch.from_numpy(np.ascontiguousarray(parts.edges))
        more = f"The first of {parts.graphs:,} graphs is shown." if level == "graph" and parts.graphs > 1 else None
        names = None if parts.names is None else list(parts.names[:stop])
        return Linked(found, names, truth_of(parts) if level == "node" else None, (more,) if more else ())

    def truth_of(parts: Parts) -> list[str | None] | None:
        if parts.node_labels is None or labels is None:
            return None
        names, _, target = targets(list(parts.node_labels), config.target, parts.what)
        return None if names is None else [None if place == IGNORE else names[place] for place in target.tolist()]

    @cache
    def whole() -> Linked:
        return linked(read_parts(config))

    def example(name: str | None) -> Linked:
        if looks_mapped(config.path):
            return of_large(str(config.path), config, model.depth, name)
        return whole() if there else Linked(inputs, notes=(GONE,))

    def read(path: Path) -> Linked:
        return linked(read_parts(replace(config, path=str(path), nodes=None)))

    there = looks_mapped(config.path) or readable(whole)
    return Nodes(roles, example, read=read, classes=labels if level in ("node", "graph") else None)


def of_large(path: str, config: GraphsConfig, hops: int, name: str | None) -> Linked:
    """What a model sees of a large graph when it answers for one node: neighbours that are drawn, as in training."""
    graph = MappedGraph.open(path, neighbours=config.neighbours, validation=config.validation, test=config.test, seed=0)
    count = len(graph.starts) - 1
    if name is not None and not (name.isdecimal() and int(name) < count):
        raise ValueError(f"there is no file and no node {name!r}; nodes are called 0 … {count - 1}")
    node = 0 if name is None else int(name)
    nodes, edges = graph.around(np.array([node]), hops, generator(0, 7, node))
    x: Tensor = torch.from_numpy(np.asarray(graph.x[nodes], dtype=np.float32))
    truth = [graph.labels[place] if place >= 0 else None for place in np.asarray(graph.classes[nodes]).tolist()]
    note = f"Of {count:,} nodes those are shown that the model is given to answer for node {node}: neighbours, drawn at random."
    return Linked({"x": x, "edges": torch.from_numpy(edges)}, [str(each) for each in nodes.tolist()], truth, (note,))
