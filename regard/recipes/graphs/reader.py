"""A file, or the data around a node, as a graph to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.look.model_input import ModelInput, Tokens
from regard.look.reader import NAMED, Control, Reader, at_path
from regard.look.scene import Scene
from regard.recipes.graphs.files import read_graphs
from regard.recipes.graphs.model_input import GraphInput
from regard.recipes.graphs.parts import Rows
from regard.recipes.graphs.view import GraphView
from regard.symmetry.roles import Roles


@dataclass(frozen=True, eq=False)
class GraphExample:
    """A graph as the inputs of a model, by name. labels: names of nodes; truth: their classes, where known;
    kinds: what each is, where that is no target; kind_names: what nodes of all graphs can be"""

    inputs: Mapping[str, Any]
    labels: Sequence[str] | None = None
    truth: Sequence[str | None] | None = None
    notes: tuple[str, ...] = field(default=())
    kinds: Sequence[str] | None = None
    kind_names: Sequence[str] = ()


FILE = Control(name="file", type="file", label="Another graph, from a file (.npz, .csv)", accept=".npz,.csv")
NODE = Control(name="node", type="number")


class GraphReader(Reader):
    """A graph. The input is a file, or the name of the node around which to draw a large graph.

    example  returns the graph to show; it gets the name of that node, if one was given
    read     returns the graph of a file
    classes  names of the classes, for a classifier
    numbers  names of predicted numbers, and the numbers in their own units
    """

    views = (GraphView(),)
    controls = (FILE, NODE)

    def __init__(
        self,
        roles: Roles,
        example: Callable[[str | None], GraphExample],
        *,
        read: Callable[[Path], GraphExample] | None = None,
        classes: Sequence[str] | None = None,
        numbers: Callable[[Tensor], Sequence[tuple[str, float]]] | None = None,
    ) -> None:
        assert roles.nodes is not None and roles.edges is not None
        self.numbers = numbers
        self.nodes, self.edges, self.example, self.opened, self.classes = (
            roles.nodes,
            roles.edges,
            example,
            read,
            classes,
        )

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> GraphInput:
        if isinstance(given, str) and not Path(given).exists():
            name = given
        else:
            name = None
        if given is None or name is not None:
            found = self.example(name)
        else:
            with at_path(given) as path:
                if self.opened is None:
                    found = self.of_file(path)
                else:
                    found = self.opened(path)
        count = len(found.inputs[self.nodes])
        if not count:
            raise RegardError(
                "the graph has no nodes, so there is nothing to show; give a graph with at least one node"
            )
        labels = tuple(found.labels or map(str, range(count)))
        if name is not None and name not in labels:
            raise RegardError(
                f"there is no file and no node {name!r}; nodes are called {', '.join(labels[:3])}, …"
            )
        edges = found.inputs[self.edges]
        return GraphInput(
            inputs=dict(found.inputs),
            streams=(Tokens("nodes", labels, "items"),) if count <= NAMED else (),
            nodes=self.nodes,
            edges=getattr(edges, "edges", edges),  # a Graph has them
            labels=labels,
            classes=None if found.truth is None else tuple(found.truth),
            kinds=None if found.kinds is None else tuple(found.kinds),
            kind_names=tuple(found.kind_names),
            centre=None if name is None else labels.index(name),
            answers=None if self.classes is None else "classes",
            called=None if self.classes is None else self.classes.__getitem__,
            notes=found.notes,
            read_numbers=self.numbers,
        )

    def change(self, given: ModelInput, values: Mapping[str, Any]) -> ModelInput:
        assert isinstance(given, GraphInput)
        if "node" not in values:
            return given
        return given.centre_on(values["node"])

    def offer(self, scene: Scene) -> tuple[Control, ...]:
        """Another node to draw a graph around, where it is not drawn whole."""
        shown = scene.view("graph") or {"numbers": [], "count": 0}
        if len(shown["numbers"]) < shown["count"]:
            return (FILE, NODE)
        return (FILE,)

    def of_file(self, path: Path) -> GraphExample:
        """The graph of a file, with unscaled features."""
        like: Tensor = self.example(None).inputs[self.nodes]
        parts = read_graphs(str(path))
        if parts.x is None or isinstance(parts.x, Rows) or parts.x.shape[1] != like.shape[1]:
            if parts.x is None:
                got = "none"
            else:
                got = f"{parts.x.width if isinstance(parts.x, Rows) else parts.x.shape[1]}"
            raise RegardError(f"{path.name}: each node must have {like.shape[1]} numbers, got {got}")
        inputs = {
            self.nodes: torch.from_numpy(parts.x).to(like.dtype),
            self.edges: torch.from_numpy(parts.edges),
        }
        if parts.node_labels is None:
            truth = None
        else:
            truth = [str(label) for label in parts.node_labels]
        return GraphExample(inputs, parts.names, truth)
