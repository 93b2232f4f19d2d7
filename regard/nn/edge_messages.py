"""Messages that know the edge they come along: a bond, a distance, a kind of link.   nodes n d, edges e k -> n d'"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.graph import Graph
from regard.nn.sparse import Sparse, through
from regard.shapes import expect
from regard.symmetry.groups import EVERYTHING


class EdgeMessages(nn.Module):
    """y_j = Σ_{i → j} relu(θx_i + φe_ij), as in GINE (Hu et al.), with sum, mean or max over the edges.

    e_ij are the features of an edge, in the order in which the edges are given. A node that no edge leads to gets
    0. Equivariant to relabelling, and the order of edges does not matter.
    """

    keeps = EVERYTHING

    def __init__(
        self, dim: int, out: int, features: int, gather: Literal["sum", "mean", "max"] = "sum"
    ) -> None:
        super().__init__()
        self.gather = gather
        self.others = nn.Linear(dim, out, bias=False)
        self.along = nn.Linear(features, out)

    def forward(self, x: Tensor | Sparse, graph: Graph, features: Tensor) -> Tensor:
        source, target = graph.edges
        messages = F.relu(through(self.others, x).index_select(0, source) + self.along(features))  # e d
        empty = messages.new_zeros(graph.count, messages.shape[1])
        if self.gather == "max":
            return empty.scatter_reduce(
                0, target[:, None].expand_as(messages), messages, "amax"
            )  # none is below 0
        found = empty.index_add(0, target, messages)
        if self.gather == "sum":
            return found
        counts = empty.new_zeros(graph.count).index_add(0, target, torch.ones_like(messages[:, 0]))
        return found / counts.clamp_min(1)[:, None]


def check_edge_features(features: Tensor | None, graph: Graph, width: int) -> Tensor | None:
    """The features of all edges, as a model of this width reads them; a ValueError if they do not fit."""
    if features is None and width:
        raise RegardError(f"this model reads {width} numbers of each edge; give edge_features, e {width}")
    if features is None:
        return None
    if not width:
        raise RegardError("this model was made without features of edges; leave edge_features out")
    expect(features, "e k", name="edge_features", e=graph.edges.shape[1], k=width)
    return features
