"""A graph as the input of a model: nodes and edges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.look.model_input import Action, ModelInput, Moved, Removal, TokenGroups, Tokens, kept_places, some_orders
from regard.look.reader import NAMED
from regard.symmetry.roles import Roles

CLASSES = 24  # of nodes that have a colour each
UNKNOWN = "not known"
TAKEN_OUT = "The nodes are taken out, with all edges that begin or end there."
RENAMED = "nodes get other numbers, in the edges too; predictions for graphs stay the same, those for nodes move along"


@dataclass(frozen=True, kw_only=True)
class GraphInput(ModelInput):
    """One graph: the nodes and the edges between them, source → target. It has no rows."""

    kind: ClassVar[str] = "graph"
    ordered: ClassVar[bool] = False

    nodes: str  # the input that holds the nodes, n d
    edges: Tensor  # 2 e
    labels: tuple[str, ...]  # the name of each node
    classes: tuple[str | None, ...] | None = None  # the true class of each node, as far as it is known
    # what the data says each node is, where that is no target; and all that nodes of the data can be
    kinds: tuple[str, ...] | None = None
    kind_names: tuple[str, ...] = ()
    # the node around which a large graph is drawn; None: one with a dozen neighbours
    centre: int | None = None

    def actions(self, model: nn.Module) -> Iterator[Action]:
        """Other names of the nodes."""
        orders = some_orders(len(self.inputs[self.nodes]))
        yield Action(
            "other names of the nodes", RENAMED, [Moved(label, self.rename(order), order) for label, order in orders]
        )

    def removal(self) -> Removal | None:
        """A group of nodes; where pairs of nodes have the predictions, it is not known which."""
        if "pairs" in self.inputs:
            return None
        return Removal("group", (len(self.labels),), "node", TAKEN_OUT)

    def without(self, region: Sequence[int]) -> GraphInput:
        """The graph without some nodes, and without the edges that began or ended there."""
        n, count = len(self.labels), self.edges.shape[1]
        kept = kept_places(region, n, "node")
        now = torch.full((n,), -1)
        now[kept] = torch.arange(len(kept))
        ends = now.to(self.edges.device)[self.edges]
        stays = (ends >= 0).all(0)
        inputs = dict(self.inputs)
        for name, x in self.inputs.items():
            if getattr(x, "edges", x) is self.edges:
                inputs[name] = ends[:, stays]
            elif not isinstance(x, Tensor) or not x.dim():
                continue
            elif len(x) == count and (count != n or "edge" in name):
                inputs[name] = x[stays]
            elif len(x) == n:
                inputs[name] = x.index_select(0, kept.to(x.device))
        return replace(self, inputs=inputs)

    def rename(self, order: list[int]) -> GraphInput:
        """Node i becomes what node order[i] was, in the edges and in all inputs with one row per node."""
        n, now = len(order), torch.empty(len(order), dtype=torch.long)
        now[order] = torch.arange(n)
        tensors = {name: x for name, x in self.inputs.items() if isinstance(x, Tensor) and x.dim()}
        of_nodes: dict[str, Any] = {
            name: x[order] for name, x in tensors.items() if len(x) == n and name != "edge_features"
        }
        (edges,) = (name for name, x in self.inputs.items() if getattr(x, "edges", x) is self.edges)
        inputs = self.inputs | of_nodes | {edges: now[self.edges]}
        return replace(self, inputs=inputs, streams=self.move_labels(order))

    def token_groups(self, tokens: int) -> TokenGroups | None:
        """What each node is in the data, or its true class, in the colours that the graph has."""
        given = self.kinds or self.classes
        if given is None or tokens != len(given) or not any(given):
            return None
        others = self.kind_names if self.kinds else ()
        names = {each for each in (*given, *others) if each}
        if len(names) > CLASSES:
            return None
        return TokenGroups([each or UNKNOWN for each in given], sort_names(names))

    def centre_on(self, node: int) -> GraphInput:
        """The same graph, drawn around another node."""
        count = len(self.labels)
        if not 0 <= node < count:
            raise RegardError(f"nodes are numbered 0 … {count - 1}, got {node}")
        return replace(self, centre=node)

    def centre_on_name(self, name: str) -> GraphInput:
        """The same graph, drawn around the node of this name."""
        if name not in self.labels:
            raise RegardError(
                f"there is no file and no node {name!r}; nodes are called {', '.join(self.labels[:3])}, …"
            )
        return replace(self, centre=self.labels.index(name))


def make_input(
    roles: Roles,
    inputs: Mapping[str, Any],
    labels: Sequence[str] | None = None,
    truth: Sequence[str | None] | None = None,
    kinds: Sequence[str] | None = None,
    kind_names: Sequence[str] = (),
    notes: tuple[str, ...] = (),
) -> GraphInput:
    """The inputs of a model, by name, as a graph. labels: names of nodes; truth: their classes, where known; kinds: what
    each is, where that is no target; kind_names: what nodes of all graphs can be"""
    assert roles.nodes is not None and roles.edges is not None
    count, edges = len(inputs[roles.nodes]), inputs[roles.edges]
    if not count:
        raise RegardError("the graph has no nodes, so there is nothing to show; give a graph with at least one node")
    names = tuple(labels or map(str, range(count)))
    return GraphInput(
        inputs=dict(inputs),
        streams=(Tokens("nodes", names, "items"),) if count <= NAMED else (),
        nodes=roles.nodes,
        edges=getattr(edges, "edges", edges),  # a Graph has them
        labels=names,
        classes=None if truth is None else tuple(truth),
        kinds=None if kinds is None else tuple(kinds),
        kind_names=tuple(kind_names),
        notes=notes,
    )


def sort_names(names: Iterable[str]) -> list[str]:
    """Names of classes in the order of a person, 2 before 10, which decides their colours in every run."""
    return sorted(set(names), key=_by_parts)


def _by_parts(name: str) -> list[tuple[int, int, str]]:
    parts = [part for part in re.split(r"(\d+)", name) if part]
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
