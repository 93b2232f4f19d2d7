"""Where to draw the nodes of a graph: neighbours near each other, all others apart. The layout of a graph is
always the same."""

from __future__ import annotations

import math

import torch
from torch import Tensor

ROUNDS = 240
GOLDEN = math.pi * (3 - math.sqrt(5))


def laid_out(edges: Tensor, count: int) -> Tensor:
    """Places in −1 … 1 for so many nodes.   2 e -> n 2

    Fruchterman and Reingold: nodes push each other away with 1/d, edges pull with d², and steps become
    smaller. A weak pull to the middle keeps parts together that no edge connects. It starts from a spiral in
    the order in which a walk meets the nodes, which needs no eigenvectors (their signs differ between
    machines) and no random numbers.
    """
    if count < 2:
        return torch.zeros(count, 2)
    source, target = edges[:, edges[0] != edges[1]]
    joined = torch.zeros(count, count, dtype=torch.float64)
    joined[source, target] = 1
    joined = torch.maximum(joined, joined.T)
    at = _spiral(_met(joined))
    near = 1 / math.sqrt(count)  # the preferred distance between neighbours
    for step in range(ROUNDS):
        between = at[:, None] - at[None]  # n n 2
        away = between.norm(dim=-1).clamp_min(1e-4)
        force = near**2 / away**2 - joined * away / near
        moved = (between * force[..., None]).sum(1) - at * 0.4
        length = moved.norm(dim=-1, keepdim=True).clamp_min(1e-9)
        at = at + moved / length * length.clamp_max(0.12 * (1 - step / ROUNDS) ** 1.5 + 1e-3)
    at = at - (at.max(0).values + at.min(0).values) / 2
    return (at / at.abs().max().clamp_min(1e-9)).float()


def _met(joined: Tensor) -> list[int]:
    """All nodes, each soon after its neighbours: breadth first from the one with most, part by part."""
    order: list[int] = []
    left = set(range(len(joined)))
    degrees = joined.sum(1)
    neighbours = [row.nonzero()[:, 0].tolist() for row in joined]
    for start in degrees.argsort(descending=True, stable=True).tolist():
        front = [start] if start in left else []
        left -= set(front)
        while front:
            order += front
            following = [other for node in front for other in neighbours[node] if other in left]
            front = list(dict.fromkeys(following))
            left -= set(front)
    return order


def _spiral(order: list[int]) -> Tensor:
    """Places on the spiral of a sunflower, from the middle outward, in this order.   n 2"""
    k = torch.arange(len(order), dtype=torch.float64)
    radius = ((k + 0.5) / len(order)).sqrt()
    places = torch.stack((radius * (k * GOLDEN).cos(), radius * (k * GOLDEN).sin()), 1)
    found = torch.empty_like(places)
    found[order] = places
    return found


def around(edges: Tensor, count: int, centre: int, hops: int, most: int) -> Tensor:
    """The nodes nearest to `centre`, itself first: at most `hops` edges away and at most `most` nodes. Among
    equally near nodes, those with most edges to nearer nodes come first.   2 e -> m"""
    found = torch.full((count,), -1)
    found[centre] = 0
    kept = torch.tensor([centre])
    for hop in range(1, hops + 1):
        inside = found >= 0
        links = torch.zeros(count, dtype=torch.long)
        for source, target in (edges, edges.flip(0)):
            links.index_add_(0, target[inside[source]], torch.ones_like(target[inside[source]]))
        links[inside] = 0
        new = links.argsort(descending=True, stable=True)[: int((links > 0).sum())][: most - len(kept)]
        found[new] = hop
        kept = torch.cat((kept, new))
    return kept
