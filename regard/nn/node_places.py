"""Where a node is in its graph, as numbers that do not depend on names: steps apart, walks that return, and
the Laplacian.

Eigenvectors are known up to their sign, and where an eigenvalue is repeated up to a rotation among them, so
no single one of them is ever used as a feature. What is used are sums Σ_r f(λ_r) v_ir v_jr, which are the
same for every choice of the eigenvectors: f gives all vectors of one eigenvalue the same factor, and those
sums are then entries of a projection onto its space. If only the first k eigenvectors are kept, f must not
cut through such a space; so there is a factor that falls to zero at the first eigenvalue left out.

All take adjacency matrices b n n, and cost n² memory or more: they are for graphs of up to some thousands of
nodes.
"""

from __future__ import annotations

import torch
from torch import Tensor

# stands for the eigenvalue of nodes that are padding: above all others, which lie between 0 and 2
LEFT_OUT = 3.0
SMALL = 1e-4  # below this an eigenvalue may be 0 and rounding


def adjacency(edges: Tensor, of: Tensor, place: Tensor, shape: tuple[int, int]) -> Tensor:
    """Which node has an edge to which: [g, target, source] is 1. Loops and repetitions do not count.   b n n

    of, place: the graph of each node, and its place in it; shape: b, n.
    """
    b, n = shape
    source, target = edges
    cell = (of[target] * n + place[target]) * n + place[source]
    cell = torch.where(source == target, b * n * n, cell)  # a loop goes behind the end
    linked = torch.zeros(b * n * n + 1, dtype=torch.bool, device=edges.device).index_fill(0, cell, True)
    return linked[:-1].view(b, n, n)


def steps_apart(linked: Tensor, farthest: int) -> Tensor:
    """The fewest steps along edges from one node (last axis) to another: 0, 1, …, and farthest + 1 for all
    beyond.   b n n"""
    n = linked.shape[-1]
    link = linked.float()
    reached = torch.eye(n, dtype=torch.bool, device=linked.device).expand_as(linked)
    apart = torch.where(reached, 0, farthest + 1)
    for step in range(1, farthest + 1):
        near = (link @ reached.float() > 0) | reached
        apart = torch.where(near & ~reached, step, apart)
        reached = near
    return apart


def returns(linked: Tensor, steps: int, dtype: torch.dtype) -> Tensor:
    """How likely a walk along edges, forgetting their direction, is back after 2, 3, … steps.
    b n n -> b n steps"""
    both = (linked | linked.mT).to(dtype)
    walk = both / both.sum(-1, keepdim=True).clamp_min(1)
    power, found = walk, []
    for _ in range(steps):
        power = power @ walk
        found.append(power.diagonal(dim1=-2, dim2=-1))
    return torch.stack(found, -1)


def spectrum(linked: Tensor, real: Tensor, k: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """The first k eigenvectors of I − D^(−½) A D^(−½), as b n k, their eigenvalues b k, and the factors b k
    that go with them.

    Vectors have the length √n, so that numbers do not shrink with the graph. Edges lead both ways. real: bool
    b n, False for padding. The factor of an eigenvalue is (λ′ − λ)/λ′, λ′ being the first one left out.
    """
    both = (linked | linked.mT).to(torch.float64)
    root = both.sum(-1).clamp_min(1).rsqrt()
    isolated = both.sum(-1) == 0  # such a node has the eigenvalue 0, as a component of its own
    laplacian = torch.diag_embed((~isolated).double()) - root[..., None] * both * root[..., None, :]
    laplacian = laplacian + torch.diag_embed((~real).double() * LEFT_OUT)
    values, vectors = torch.linalg.eigh(laplacian)
    n = values.shape[-1]
    if n <= k:
        pad = (0, k + 1 - n)
        values = torch.nn.functional.pad(values, pad, value=LEFT_OUT)
        vectors = torch.nn.functional.pad(vectors, pad)
    cut = values[:, k : k + 1]
    factor = ((cut - values[:, :k]) / cut.clamp_min(SMALL)).clamp_min(0)
    size = real.sum(-1).clamp_min(1).double().sqrt()
    return (vectors[..., :k] * size[:, None, None]).to(dtype), values[:, :k].to(dtype), factor.to(dtype)
