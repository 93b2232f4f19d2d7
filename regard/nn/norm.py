"""Norms: each token is brought to one size. Where a block puts them (before, after, deepnorm) is the block's matter.

A norm looks at one token at a time, so it keeps whatever may be done to the tokens as a whole.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.shapes import expect


class LayerNorm(nn.Module):
    """scale ⊙ (x − μ) / √(σ² + eps) + shift,  μ = 1/d Σ x,  σ² = 1/d Σ (x − μ)².   ... d -> ... d

    Before scale and shift every token has mean 0 and variance 1 (divided by d, not d − 1); that makes it no normal
    distribution. Nothing changes when a token is multiplied by a positive number (up to eps), or when a number is added
    to all its channels.
    """

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps
        self.scale = nn.Parameter(torch.ones(dim))
        self.shift = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        expect(x, "... d", name="x", d=self.dim)
        return F.layer_norm(x, (self.dim,), self.scale, self.shift, self.eps)

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps}"


class RMSNorm(nn.Module):
    """scale ⊙ x / √(1/d Σ x² + eps).   ... d -> ... d

    Before scale every token has mean square 1; the mean is left as it is. Nothing changes when a token is multiplied by
    a positive number (up to eps).
    """

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        expect(x, "... d", name="x", d=self.dim)
        return F.rms_norm(x, (self.dim,), self.scale.to(x.dtype), self.eps)  # torch warns of two dtypes, as in autocast

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps}"


NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layernorm": LayerNorm, "rmsnorm": RMSNorm}
