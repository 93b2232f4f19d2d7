"""A graph as layers read it: nodes, the edges between them, and what follows from those, found out once."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from regard.attention.edges import Edges
from regard.attention.links import Links


class Graph:
    """`count` nodes and edges 2 e, source → target. Several graphs are one, side by side.

    Edges stay as they are given: one that is there twice counts twice, and loops are loops.
    """

    def __init__(self, edges: Tensor, count: int) -> None:
        self.mask = Edges(edges)
        self.mask.fits(1, 1, count, count)
        self.count = count

    @property
    def edges(self) -> Tensor:
        return self.mask.edges

    @cached_property
    def links(self) -> Links:
        """The edges in the order of their targets."""
        return self.mask.links(self.count, self.count, self.edges.device, once=False)

    @cached_property
    def looped(self) -> Graph:
        """The same graph with one loop at every node, in the place of those it may have."""
        ends = torch.arange(self.count, device=self.edges.device)
        others = self.edges[:, self.edges[0] != self.edges[1]]
        return Graph(torch.cat((others, ends.expand(2, -1)), 1), self.count)

    @cached_property
    def degree(self) -> Tensor:
        """How many edges lead to each node.   n"""
        return self.links.starts.diff()

    @cached_property
    def even(self) -> Tensor:
        """1 / √(degree of source · degree of target) for each edge, in the order of `links`.   e"""
        root = self.degree.clamp_min(1).rsqrt()
        return root[self.links.source] * root[self.links.target] * (self.degree[self.links.source] > 0)

    @cached_property
    def mean(self) -> Tensor:
        """1 / degree of target for each edge, in the order of `links`.   e"""
        return self.degree.reciprocal()[self.links.target]
