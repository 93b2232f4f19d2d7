"""Attention among nodes, with what the spectrum of their graph says about two of them added to the scores."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.biases import Bias
from regard.attention.mask import Mask
from regard.shapes import expect
from regard.symmetry.groups import EVERYTHING

# stands for the eigenvalue of nodes that are padding: above all others, which lie between 0 and 2
LEFT_OUT = 3.0
SMALL = 1e-4  # below this an eigenvalue may be 0 and rounding


class Kernels(NamedTuple):
    """κ_h(i, j) = Σ_r f_h(λ_r) v_ir v_jr, kept as two factors: the same for every choice of the
    eigenvectors."""

    here: Tensor  # b h n k: v_ir f_h(λ_r)
    there: Tensor  # b n k: v_jr


class NodeAttention(nn.Module):
    """mix(softmax(q·k/√c + κ + bias) v), multi-head.   b n d -> b n d

    κ comes in as more channels of queries and keys, so that scores stay dot products and every kernel can
    compute them.
    """

    keeps = EVERYTHING

    def __init__(self, dim: int, heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dim, self.heads, self.dropout = dim, heads, dropout
        self.to_q, self.to_k, self.to_v, self.mix = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x: Tensor, *, mask: Mask | None, bias: Bias | None, kernels: Kernels | None) -> Tensor:
        expect(x, "b n d", name="x", d=self.dim)
        q, k, v = (to(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for to in (self.to_q, self.to_k, self.to_v))
        scale = q.shape[-1] ** -0.5
        if kernels is not None:
            q = torch.cat((q, (kernels.here / scale).to(q.dtype)), -1)
            k = torch.cat((k, kernels.there[:, None].expand(-1, self.heads, -1, -1).to(k.dtype)), -1)
        dropout = self.dropout if self.training else 0.0
        out = attend(q, k, v, mask=mask, bias=bias, scale=scale, dropout=dropout)
        mixed: Tensor = self.mix(out.transpose(1, 2).flatten(2))
        return mixed


# ── positions of nodes that do not depend on their numbers: distances, returns of random walks, and the Laplacian
#
# Eigenvectors are not unique. If v is one, so is −v; if several share an eigenvalue, any rotation of them is as
# good. So no eigenvector is used as a feature. The sums Σ_r f(λ_r) v_ir v_jr are used instead. They are the
# same for every choice, because f gives the same factor to all eigenvectors of one eigenvalue. Only the first k
# eigenvectors are kept. If some eigenvectors of an eigenvalue were kept and others not, the sums would depend
# on the choice again. So a factor falls to zero at the first eigenvalue that is left out.
#
# All functions take adjacency matrices b n n and need n² memory or more. They are for graphs of up to some
# thousands of nodes.


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
    """The probability that a random walk, in any direction along edges, is back after 2, 3, … steps.
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

    Vectors have the length √n, so that their numbers do not shrink in large graphs. Edges count in both
    directions. real: bool b n, False for padding. The factor of an eigenvalue λ is (λ′ − λ)/λ′, where λ′ is
    the first eigenvalue that is left out.
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
