"""Correct layers and networks of PyTorch Geometric: nodes have no order, so numbering them anew moves the output along."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.symmetry.groups import Permutations
from regard.symmetry.roles import Roles
from tests.symmetry.correct import EVERY, Made, Table, adder

LIBRARY = "PyTorch Geometric"
TABLE: Table = {}
add = adder(TABLE)
NODES, WIDTH = 11, 6
HOLDS = f"{EVERY} relabelling"


def graph(nodes: int = NODES, edges: int = 26) -> tuple[Tensor, Tensor]:
    """Features, and edges in one direction only, without loops or repetitions; node 0 gets none."""
    pairs = [(i, j) for i in range(nodes) for j in range(1, nodes) if i != j]
    chosen = torch.randperm(len(pairs))[:edges]
    return torch.randn(nodes, WIDTH), torch.tensor(pairs)[chosen].T.contiguous()


@add(HOLDS, name="GCNConv", of="GCNConv")
@add(HOLDS, name="GATConv", of="GATConv", heads=2, dropout=0.1)
@add(HOLDS, name="GATv2Conv", of="GATv2Conv", heads=2)
@add(HOLDS, name="SAGEConv", of="SAGEConv")
@add(HOLDS, name="SAGEConv, largest", of="SAGEConv", aggr="max")
@add(HOLDS, name="GraphConv", of="GraphConv")
@add(HOLDS, name="TransformerConv", of="TransformerConv", heads=2)
@add(HOLDS, name="ChebConv", of="ChebConv", K=3)
def layer(of: str, **options: Any) -> Made:
    from torch_geometric import nn as geometric

    return getattr(geometric, of)(WIDTH, 8, **options), graph(), {"symmetry": Permutations()}


@add(HOLDS)
def GINConv() -> Made:
    from torch_geometric.nn import GINConv

    inside = nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 8))
    return GINConv(inside, train_eps=True), graph(), {"symmetry": Permutations()}


@add(HOLDS, name="three layers of GCN")
def network() -> Made:
    from torch_geometric.nn import GCN

    return GCN(WIDTH, 16, 3, 4, dropout=0.2, norm="LayerNorm"), graph(), {"symmetry": Permutations()}


class WholeGraph(nn.Module):
    """Two layers and the mean of all nodes: an answer for a graph.   n d, 2 e -> c"""

    def __init__(self) -> None:
        super().__init__()
        from torch_geometric.nn import GraphConv

        self.one, self.two = GraphConv(WIDTH, 16), GraphConv(16, 5)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.two(torch.relu(self.one(x, edge_index)), edge_index).mean(0)


@add(HOLDS, name="answer for a whole graph")
def whole_graph() -> Made:
    roles = Roles(nodes="x", edges="edge_index", promises={"relabelling": "invariant"})
    return WholeGraph(), graph(), {"roles": roles}
