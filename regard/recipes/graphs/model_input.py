"""A graph as the input of a model: nodes and edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.look.model_input import Action, ModelInput, Moved, some_orders

RENAMED = "nodes get other numbers, in the edges too; predictions for graphs stay the same, those for nodes move along"


@dataclass(frozen=True, kw_only=True)
class GraphInput(ModelInput):
    """One graph: the nodes and the edges between them, source → target. It has no rows."""

    kind: ClassVar[str] = "graph"

    nodes: str  # the input that holds the nodes, n d
    edges: Tensor  # 2 e
    labels: tuple[str, ...]  # the name of each node
    classes: tuple[str | None, ...] | None = None  # the true class of each node, as far as it is known
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

    def centre_on(self, node: int) -> GraphInput:
        """The same graph, drawn around another node."""
        count = len(self.labels)
        if not 0 <= node < count:
            raise RegardError(f"nodes are numbered 0 … {count - 1}, got {node}")
        return replace(self, centre=node)
