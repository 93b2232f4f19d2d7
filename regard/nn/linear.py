"""Linear maps. nn.Linear, with the faster of the two libraries that PyTorch brings for large products on a processor.

PyTorch gives float32 to MKL, which was seen to be a tenth to a quarter slower than oneDNN on a processor of AMD's, and writes
the bias in a pass of its own. oneDNN adds it to what is still in registers, and can apply gelu there, too.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.kernels.precision import CPU_MULTIPLIES

LARGE = 2**22  # products of two numbers, from which on it pays to ask; what decodes one token at a time has fewer
LARGE_WITH_GRADIENT = 2**26  # the same where Python must also carry the gradient
KNOWN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Linear(nn.Linear):
    """θᵀx + b.   ... d -> ... outputs"""

    def forward(self, x: Tensor) -> Tensor:
        if not suits(x, self.weight):
            return F.linear(x, self.weight, self.bias)
        if torch.is_grad_enabled():
            return Mapped.apply(x, self.weight, self.bias)
        return mapped(x, self.weight, self.bias)

    def gelu(self, x: Tensor) -> Tensor | None:
        """gelu(θᵀx + b) in one pass; None where that cannot be, or a gradient may be wanted."""
        if torch.is_grad_enabled() or not suits(x, self.weight):
            return None
        return mapped(x, self.weight, self.bias, "gelu")


def suits(x: Tensor, weight: Tensor) -> bool:
    """Is the product large, on a processor, and nobody follows what is done?"""
    if x.device.type != "cpu" or x.dtype is not weight.dtype or torch.compiler.is_compiling() or not KNOWN:
        return False
    gradient = torch.is_grad_enabled()
    if x.dtype is torch.bfloat16:  # where the two differ by the bias alone
        known = CPU_MULTIPLIES[torch.bfloat16] and not gradient
    else:
        known = x.dtype is torch.float32
    size = x.numel() * weight.shape[0]
    return (
        known
        and size >= (LARGE_WITH_GRADIENT if gradient else LARGE)
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()
    )


def mapped(x: Tensor, weight: Tensor, bias: Tensor | None, then: str = "none") -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, then, [], "none")


class Mapped(torch.autograd.Function):
    """θᵀx + b, and for x the gradient by the same library."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return mapped(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad
        rows = grad.reshape(-1, grad.shape[-1])
        dx = None
        if for_x:  # (the gradient of a gradient is asked for where gradients are enabled)
            dx = grad @ weight if torch.is_grad_enabled() else mapped(grad, weight.mT, None)
        return dx, rows.mT @ x.reshape(-1, x.shape[-1]) if for_weight else None, rows.sum(0) if for_bias else None
