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
        q, k, v = (
            to(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for to in (self.to_q, self.to_k, self.to_v)
        )
        scale = q.shape[-1] ** -0.5
        if kernels is not None:
            q = torch.cat((q, (kernels.here / scale).to(q.dtype)), -1)
            k = torch.cat((k, kernels.there[:, None].expand(-1, self.heads, -1, -1).to(k.dtype)), -1)
        dropout = self.dropout if self.training else 0.0
        out = attend(q, k, v, mask=mask, bias=bias, scale=scale, dropout=dropout)
        mixed: Tensor = self.mix(out.transpose(1, 2).flatten(2))
        return mixed
