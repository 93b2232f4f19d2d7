"""Norms: each token is brought to one size. Where a block puts them (before, after, deepnorm) is the block's
matter.

A norm looks at one token at a time, so it keeps whatever may be done to the tokens as a whole.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.shapes import expect


class LayerNorm(nn.Module):
    """scale ⊙ (x − μ) / √(σ² + eps) + shift,  μ = 1/d Σ x,  σ² = 1/d Σ (x − μ)².   ... d -> ... d

    Before scale and shift every token has mean 0 and variance 1 (divided by d, not d − 1); that makes it no
    normal distribution. Nothing changes when a token is multiplied by a positive number (up to eps), or when
    a number is added to all its channels.
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

    Before scale every token has mean square 1; the mean is left as it is. Nothing changes when a token is
    multiplied by a positive number (up to eps).
    """

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        expect(x, "... d", name="x", d=self.dim)
        if Fast.suits(x, self.scale):
            return Fast.apply(x, self.scale, self.eps)[0]
        # torch warns of two dtypes, as in autocast
        return F.rms_norm(x, (self.dim,), self.scale.to(x.dtype), self.eps)

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps}"


class Fast(torch.autograd.Function):
    """RMSNorm on the CPU, where torch builds the gradient of its own from many passes over memory: four times
    as fast.

    y = scale ⊙ x·r with r = (1/d Σ x² + eps)^(−½). For the gradient, layer norm's kernel is told that the
    mean is 0; it then subtracts the mean of scale ⊙ ∂y, times r, which is given back.
    """

    generate_vmap_rule = True

    @staticmethod
    def suits(x: Tensor, scale: Tensor) -> bool:
        """Only where a gradient is wanted and nobody traces."""
        plain = x.device.type == "cpu" and x.dtype is scale.dtype and x.dtype in (torch.float32, torch.float64)
        wanted = torch.is_grad_enabled() and (x.requires_grad or scale.requires_grad)
        return plain and wanted and not torch.compiler.is_compiling()

    @staticmethod
    def forward(x: Tensor, scale: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        r = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square().div(x.shape[-1]).add(eps).rsqrt()
        return (x * scale).mul_(r), r

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: tuple[Tensor, Tensor]) -> None:
        x, scale, ctx.eps = inputs
        ctx.save_for_backward(x, scale, output[1])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, _: None) -> tuple[Tensor | None, Tensor | None, None]:
        if dy is None:
            return None, None, None
        x, scale, r = ctx.saved_tensors
        d = x.shape[-1]
        # the gradient of a gradient is asked for: the same by steps that can be followed
        if torch.is_grad_enabled():
            r = (x.square().mean(-1, keepdim=True) + ctx.eps).rsqrt()
            dn = dy * scale
            return (r * dn - x * r**3 * (dn * x).mean(-1, keepdim=True), (dy * x * r).flatten(0, -2).sum(0), None)
        mask = [True, True, False]
        dx, dscale, _ = torch.ops.aten.native_layer_norm_backward(
            dy, x, (d,), torch.zeros_like(r), r, scale, None, mask
        )
        return dx.add_((dy @ scale).unsqueeze(-1).mul_(r).div_(d)), dscale, None


NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layernorm": LayerNorm, "rmsnorm": RMSNorm}
