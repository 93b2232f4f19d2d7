"""How runs of ours read sets and graphs: as the data that they learned from, of which they show an example."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
from regard.data.graph_targets import is_known, targets
from regard.data.graphs import GraphsConfig, Scaling, both_ways, features, read_parts
from regard.data.long_tables import LongTable, read_long
from regard.data.neighbours import MappedGraph, looks_mapped
from regard.data.sets import SetsConfig, SetsForm, draw, files_of, sets_in
from regard.reading.reader import Reader
from regard.reading.things import Array, Example, Linked, Nodes, Points
from regard.run import Run
from regard.symmetry.roles import Roles

GONE = "The data of this run cannot be read any more, so what is shown was drawn at random; --input shows something of yours."
READABLE = 50  # things of a set that can be looked at one by one
DENSE = 2**27  # features of a graph that are laid out, zeros and all


def reader_of_run(run: Run, model: Any, inputs: Mapping[str, Any]) -> Reader | None:
    """What reads for a run on sets or graphs; `inputs` are shown if its data is gone. None for any other run."""
    about, roles = run.config.get("corpus", {}), getattr(model, "roles", None)
    if not isinstance(roles, Roles):
        return None
    if "form" in about and roles.stream is not None:
        return own_sets(run, model, roles, inputs)
    if "scaling" in about and roles.nodes is not None:
        return own_graphs(run, roles, model.config, inputs)
    return None


# ---- sets


def own_sets(run: Run, model: Any, roles: Roles, inputs: Mapping[str, Any]) -> Reader:
    config, form = run.section(SetsConfig, "data"), from_dict(SetsForm, run.config["corpus"]["form"])

    def read(path: Path) -> Array:
        """The only cloud of a file, the first one of a folder, or the first set of a table."""
        return next(sets_in(files_of(str(path), config, form)[0], config, form))[1]

    @cache
    def example() -> Example:
        if config.path is None:
            return made(1)
        path = Path(config.path).expanduser()
        if path.is_dir():
            first = find_clouds(str(path))[0]
            return Example(read(Path(first.path)), Path(first.path).name, None if form.each else first.label)
        return of_table(table(), path.name, form)

    def made(number: int) -> Example:
        drawn = draw(config, 1, generator(run.config["train"]["seed"], 9, number))
        asked = np.ravel(drawn.target[0]).tolist()
        truth = {
            "classes": lambda: form.answers[int(asked[0])],
            "numbers": lambda: numbers_in_words(asked, form),
        }
        return Example(
            drawn.points,
            f"Set {number:,} of those made for {config.task}",
            truth.get(form.asks, lambda: None)(),
        )

    @cache
    def table() -> LongTable:
        return read_long(str(Path(str(config.path)).expanduser()), config.id, config.target, form.features)

    def named(name: str) -> Example:
        """A set of the data by what it is called there; of a made task, by its number."""
        if config.path is None:
            if not (name.isdecimal() and int(name)):
                raise ValueError(
                    f"there is no file {name!r}; sets made for {config.task} are called 1, 2, 3 …"
                )
            return told(made(int(name)))
        return told(of_table(table(), Path(config.path).name, form, name))

    def told(found: Example) -> Example:
        return found._replace(said=introduced(found, model, form))

    folder = (
        config.path is not None and Path(config.path).expanduser().is_dir()
    )  # of files, which are called by their paths
    how: dict[str, Any] = {"read": read, "taken": form.read, "columns": form.features}
    if form.asks == "classes":
        how["classes"] = form.answers
    if not readable(example):
        return Points(roles, inputs, notes=(GONE,), **how)
    return Points(roles, inputs, example=lambda: told(example()), named=None if folder else named, **how)


def of_table(table: LongTable, file: str, form: SetsForm, name: str | None = None) -> Example:
    """The set of this name; without one, a set of usual size, if that can be read: a thing alone tells nothing of sets."""
    sizes = np.diff(table.starts)
    number = int(np.abs(sizes - min(float(np.median(sizes)), READABLE)).argmin())
    if name is not None:
        if name not in table.sets:
            first = ", ".join(table.sets[:3]) + " …" * (len(table.sets) > 3)
            raise ValueError(f"there is no file and no set {name!r} in {file}; sets are called {first}")
        number = table.sets.index(name)
    start, stop = table.starts[number], table.starts[number + 1]
    truth = None
    if table.target is not None and not form.each:
        word = table.target[start]
        truth = word if form.asks == "classes" else numbers_in_words([float(word)], form)
    return Example(table.points[start:stop], f"Set {table.sets[number]} of {file}", truth)


def introduced(example: Example, model: Any, form: SetsForm) -> str:
    """Set 17 of baskets.csv: the model says total 35.2; true is total 34.9."""
    if form.each or form.asks == "clusters":
        return f"{example.name}."
    with torch.no_grad():
        out = model(torch.from_numpy(form.read(example.rows))[None])[0]
    if form.asks == "classes":
        share, best = out.softmax(-1).max(-1)
        says = f"{form.answers[best]} ({share:.0%})"
    else:
        says = numbers_in_words(
            out.double().numpy() * np.array(form.target_scale) + np.array(form.target_centre), form
        )
    return f"{example.name}: the model says {says}{'' if example.truth is None else f'; true is {example.truth}'}."


def numbers_in_words(numbers: Iterable[float], form: SetsForm) -> str:
    return ", ".join(f"{name} {number:.6g}" for name, number in zip(form.answers, numbers, strict=True))


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
            raise ValueError(
                f"{parts.what} has {x.shape[1]} numbers a node, but the model learned from {model.features}"
            )
        if x.layout is not torch.strided and x.numel() <= DENSE:
            x = x.to_dense()
        stop, last = (
            (int(parts.starts[1]), int(edge_starts[1])) if level == "graph" else (parts.nodes, edges.shape[1])
        )
        x = x if stop == len(x) else x.index_select(0, torch.arange(stop))
        found: dict[str, Any] = {"x": x, "edges": torch.from_numpy(np.ascontiguousarray(edges[:, :last]))}
        if level == "edge":
            found["pairs"] = torch.from_numpy(np.ascontiguousarray(parts.edges))
        more = first_of(parts) if level == "graph" and parts.graphs > 1 else None
        names = None if parts.names is None else list(parts.names[:stop])
        return Linked(found, names, truth_of(parts) if level == "node" else None, (more,) if more else ())

    def first_of(parts: Parts) -> str:
        label = None if parts.graph_labels is None else parts.graph_labels[0]
        truth = f"; true is {label}" if label is not None and is_known(label) else ""
        return f"Graph {parts.called('graph', 0)}, the first of {parts.graphs:,}, is shown{truth}."

    def truth_of(parts: Parts) -> list[str | None] | None:
        if parts.node_labels is None or labels is None:
            return None
        names, _, target = targets(list(parts.node_labels), config.target, parts.what)
        return (
            None
            if names is None
            else [None if place == IGNORE else names[place] for place in target.tolist()]
        )

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
    graph = MappedGraph.open(
        path, neighbours=config.neighbours, validation=config.validation, test=config.test, seed=0
    )
    count = len(graph.starts) - 1
    if name is not None and not (name.isdecimal() and int(name) < count):
        raise ValueError(f"there is no file and no node {name!r}; nodes are called 0 … {count - 1}")
    node = 0 if name is None else int(name)
    nodes, edges = graph.around(np.array([node]), hops, generator(0, 7, node))
    x: Tensor = torch.from_numpy(np.asarray(graph.x[nodes], dtype=np.float32))
    truth = [
        graph.labels[place] if place >= 0 else None for place in np.asarray(graph.classes[nodes]).tolist()
    ]
    note = f"Of {count:,} nodes those are shown that the model is given to answer for node {node}: neighbours, drawn at random."
    return Linked(
        {"x": x, "edges": torch.from_numpy(edges)}, [str(each) for each in nodes.tolist()], truth, (note,)
    )
