"""A file, or the data around a node, as a graph to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import RegardError
from regard.look.model_input import ModelInput
from regard.look.reader import GONE, Control, Reader, at_path
from regard.look.scene import Scene
from regard.recipes.graphs.formats.files import read_graphs
from regard.recipes.graphs.model_input import GraphInput, make_input
from regard.recipes.graphs.neighbours import MappedGraph
from regard.recipes.graphs.parts import Rows
from regard.recipes.graphs.view import GraphView
from regard.recipes.processors import ForeignModel
from regard.recipes.supervised_reader import SupervisedReader
from regard.symmetry.roles import Roles, guess

FILE = Control(name="file", type="file", label="Another graph, from a file (.npz, .csv)", accept=".npz,.csv")
NODE = Control(name="node", type="number")


class AroundNode(Reader):
    """A large graph is drawn around a node, which a person can choose."""

    views = (GraphView(),)
    controls = (FILE, NODE)

    def change(self, given: ModelInput, values: Mapping[str, Any]) -> ModelInput:
        assert isinstance(given, GraphInput)
        return given.centre_on(values["node"]) if "node" in values else given

    def offer(self, scene: Scene) -> tuple[Control, ...]:
        """Another node, where the graph is not drawn whole."""
        figure = scene.view("graph") or {}
        return (FILE, NODE) if figure.get("shown") else (FILE,)


class RunReader(AroundNode, SupervisedReader):
    """The graphs of a run, or others, as it reads them. What is given may also be the name of a node."""

    def _of_data(self, name: str | None) -> ModelInput:
        if not self.processor.is_readable():
            raise FileNotFoundError(f"the data of {self.run.path} was in memory")
        example, graph = self._examples[0], self._examples.about["graphs"]
        if isinstance(graph, MappedGraph):
            node = np.array([graph.find(name or "0")])
            found = self._input_of(example._replace(inputs={**example.inputs, "nodes": node}), None)
            return replace(self._meaning(found), centre=None if name is None else 0)  # type: ignore[call-arg]
        found = self._meaning(self._input_of(example, None))
        assert isinstance(found, GraphInput)
        return found if name is None else found.centre_on_name(name)

    def _of_the_run(self) -> ModelInput:
        """An example of its data; a random graph if that is gone."""
        try:
            return self._of_data(None)
        except (OSError, ValueError):
            roles: Any = self.model.roles
            inputs: Mapping[str, Any] = self.model.sample_inputs()  # type: ignore[operator]
            return self._meaning(make_input(roles, inputs, notes=(GONE,)))

    def _meaning(self, found: ModelInput) -> ModelInput:
        """The rows of the output are classes of nodes or graphs; those of edges have no place on the page."""
        target = self.processor.target
        return found if target.each == "edge" and target.classes else super()._meaning(found)


class GraphReader(AroundNode):
    """A graph for a model that no recipe trained.

    inputs   of the model, which are shown if nothing else is given
    labels   names of their nodes
    truth    classes of their nodes, where known
    classes  names of the classes, for a classifier
    """

    def __init__(
        self,
        roles: Roles,
        inputs: Mapping[str, Any],
        *,
        labels: Sequence[str] | None = None,
        truth: Sequence[str | None] | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self.roles, self.inputs, self.labels, self.truth, self.classes = roles, inputs, labels, truth, classes

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> GraphInput:
        name = given if isinstance(given, str) and not Path(given).exists() else None
        if given is None or name is not None:
            found = make_input(self.roles, self.inputs, self.labels, self.truth)
            found = found if name is None else found.centre_on_name(name)
        else:
            with at_path(given) as path:
                found = self._of_file(path)
        if self.classes is None:
            return found
        called: Callable[[int], str] = self.classes.__getitem__
        return replace(found, answers="classes", called=called)

    def _of_file(self, path: Path) -> GraphInput:
        """The graph of a file, with unscaled features."""
        nodes, edges = str(self.roles.nodes), str(self.roles.edges)
        like: Tensor = self.inputs[nodes]
        parts = read_graphs(str(path))
        if parts.x is None or isinstance(parts.x, Rows) or parts.x.shape[1] != like.shape[1]:
            got = "none" if parts.x is None else parts.x.shape[1]
            raise RegardError(f"{path.name}: each node must have {like.shape[1]} numbers, got {got}")
        inputs = {nodes: torch.from_numpy(parts.x).to(like.dtype), edges: torch.from_numpy(parts.edges)}
        truth = None if parts.node_labels is None else [str(label) for label in parts.node_labels]
        return make_input(self.roles, inputs, parts.names, truth)


def foreign_reader(foreign: ForeignModel) -> Reader | None:
    """The reader of graphs for a model that no recipe trained; None for a model of other inputs."""
    declared = foreign.roles or getattr(foreign.model, "roles", None)
    known = declared if isinstance(declared, Roles) else guess(foreign.model, dict(foreign.inputs))
    if known.nodes is None or known.edges is None or not isinstance(foreign.inputs.get(known.nodes), Tensor):
        return None
    edges = foreign.inputs.get(known.edges)
    if isinstance(edges, Tensor) and edges.shape[0] != 2:  # triangles of a mesh, say
        return None
    return GraphReader(known, foreign.inputs)
