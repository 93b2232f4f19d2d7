"""A graph as the input of a model: nodes and edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.look.model_input import Action, ModelInput, Moved, Removal, TokenGroups, kept_places, some_orders
from regard.recipes.graphs.class_names import CLASSES, UNKNOWN, sort_names

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
            "other names of the nodes",
            RENAMED,
            [Moved(label, self.rename(order), order) for label, order in orders],
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
