"""Planted bugs of graphs: a network that knows the numbers of its nodes, though they are only names."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.symmetry.roles import Roles
from tests.symmetry.planted import Case, planted
from tests.symmetry.planted_parts import FEATURES, WIDTH

NODES, EDGES, KINDS = 11, 26, 7


class Messages(nn.Module):
    """x_i' = W₁ x_i + mean over the edges j → i of W₂ x_j.  n d, 2 e -> n d"""

    def __init__(self, bug: bool = False):
        super().__init__()
        self.bug = bug
        self.own, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        sent = self.message(x, source, target)
        heard = torch.zeros_like(x).index_add(0, target, sent)
        count = x.new_zeros(len(x)).index_add(0, target, x.new_ones(len(target)))
        return self.kept(x) + heard / count.clamp(min=1)[:, None]

    def kept(self, x: Tensor) -> Tensor:
        return self.own(x)

    def message(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        return self.other(x[source])


class Graph(nn.Module):
    """Two layers of messages between an embedding and a head, for each node or for the whole graph."""

    def __init__(
        self, first: nn.Module, second: nn.Module, readout: nn.Module | None = None, place: nn.Module | None = None
    ):
        super().__init__()
        self.embed, self.place = nn.Linear(FEATURES, WIDTH), place or nn.Identity()
        self.layers = nn.ModuleList([first, second])
        self.readout, self.head = readout or nn.Identity(), nn.Linear(WIDTH, KINDS)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        x = self.place(self.embed(nodes))
        for layer in self.layers:
            x = functional.gelu(layer(x, edges))
        return self.head(self.readout(x))


def graph() -> dict[str, Tensor]:
    return {"nodes": torch.randn(NODES, FEATURES), "edges": torch.randint(NODES, (2, EDGES))}


GRAPH = {"roles": Roles(nodes="nodes", edges="edges", promises={"relabelling": "equivariant"})}
WHOLE = {"roles": Roles(nodes="nodes", edges="edges", promises={"relabelling": "invariant"})}


class Ranked(Messages):
    """Messages to a node with a larger number count twice."""

    def message(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        weight = 1 + (source < target).to(x.dtype) if self.bug else x.new_ones(len(source))
        return super().message(x, source, target) * weight[:, None]


@planted("relabelling", at="layers.1")
def edges_weighed_by_node_numbers(bug: bool) -> Case:
    return Graph(Messages(), Ranked(bug)), graph(), GRAPH


class Numbered(Messages):
    """A node's own part is scaled with its number."""

    def kept(self, x: Tensor) -> Tensor:
        scale = torch.linspace(0.5, 1.5, len(x)).to(x.dtype)[:, None] if self.bug else 1.0
        return self.own(x) * scale


@planted("relabelling", at="layers.0")
def self_loops_weighed_by_node_number(bug: bool) -> Case:
    return Graph(Numbered(bug), Messages()), graph(), GRAPH


class NodeTable(nn.Module):
    """A learned vector for each node number, where one for all was meant."""

    def __init__(self, bug: bool):
        super().__init__()
        self.table = nn.Parameter(torch.randn(64 if bug else 1, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: len(x)]


@planted("relabelling", at="place")
def learned_vector_for_each_node_number(bug: bool) -> Case:
    return Graph(Messages(), Messages(), place=NodeTable(bug)), graph(), GRAPH


class Root(nn.Module):
    """What the whole graph is: the mean over its nodes, or by mistake node 0."""

    def __init__(self, bug: bool):
        super().__init__()
        self.bug = bug

    def forward(self, x: Tensor) -> Tensor:
        return x[0] if self.bug else x.mean(0)


@planted("relabelling", at="readout")
def node_zero_speaks_for_the_graph(bug: bool) -> Case:
    return Graph(Messages(), Messages(), readout=Root(bug)), graph(), WHOLE


class InOrder(Messages):
    """Neighbours are read one after the other in the order of their numbers, or all at once."""

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        sent, heard = self.other(x).tanh(), [torch.zeros_like(x[0])] * len(x)
        pairs = sorted(set(zip(*edges.tolist(), strict=True)))
        for source, target in pairs:
            heard[target] = (0.5 if self.bug else 1.0) * heard[target] + sent[source]
        return self.own(x) + torch.stack(heard)


@planted("relabelling", at="layers.1")
def neighbours_read_in_the_order_of_their_numbers(bug: bool) -> Case:
    return Graph(Messages(), InOrder(bug)), graph(), GRAPH


class Dense(nn.Module):
    """x' = W₁ x + A W₂ x, with an adjacency matrix; by mistake only with its upper triangle."""

    def __init__(self, bug: bool = False):
        super().__init__()
        self.bug = bug
        self.own, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        adjacency = adjacency.triu() if self.bug else adjacency
        return self.own(x) + adjacency @ self.other(x) / 4


class DenseGraph(Graph):
    def forward(self, nodes: Tensor, adjacency: Tensor) -> Tensor:
        return super().forward(nodes, adjacency)


@planted("relabelling", at="layers.1")
def upper_triangle_of_the_adjacency(bug: bool) -> Case:
    draw = torch.rand(NODES, NODES)
    inputs = {"nodes": torch.randn(NODES, FEATURES), "adjacency": ((draw + draw.T) > 1.2).float()}
    roles = Roles(nodes="nodes", adjacency="adjacency", promises={"relabelling": "equivariant"})
    return DenseGraph(Dense(), Dense(bug)), inputs, {"roles": roles}


class FixedGraph(Messages):
    """Keeps the edges of the first graph it ever saw: nodes are then permuted, and the edges are not."""

    def __init__(self, bug: bool):
        super().__init__(bug)
        self.kept_edges: Tensor | None = None

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        if self.bug and self.kept_edges is None:
            self.kept_edges = edges
        return super().forward(x, self.kept_edges if self.bug else edges)


@planted("relabelling", at="layers.0")
def edges_of_the_first_graph_kept_for_all(bug: bool) -> Case:
    return Graph(FixedGraph(bug), Messages()), graph(), GRAPH


class LastMessage(Messages):
    """By mistake, of the messages to a node the one that is listed last counts twice."""

    def message(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        sent = super().message(x, source, target)
        if not self.bug:
            return sent
        last = torch.zeros(len(x), dtype=torch.long).index_put((target,), torch.arange(len(target)))
        return sent + sent * (last[target] == torch.arange(len(target)))[:, None]


@planted("edge_order", at="layers.1")
def the_last_edge_counts_twice(bug: bool) -> Case:
    return Graph(Messages(), LastMessage(bug)), graph(), GRAPH
