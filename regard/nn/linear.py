"""Linear maps. nn.Linear, with the faster of the two libraries that PyTorch brings for large products on a
processor.

PyTorch gives float32 to MKL, which was seen to be a tenth to a quarter slower than oneDNN on a processor of
AMD's, and writes the bias in a pass of its own. oneDNN adds it to what is still in registers, and can apply
gelu there, too. It lays a weight out anew for every product, unless it is told that the weight stays as it is
(`fixed`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.kernels.precision import CPU_MULTIPLIES

# products of two numbers, from which on it pays to ask; what decodes one token at a time has fewer
LARGE = 2**22
LARGE_WITH_GRADIENT = 2**26  # the same where Python must also carry the gradient
OPERATORS = ("_linear_pointwise", "_reorder_linear_weight")
KNOWN = torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in OPERATORS)
ALIGNED = 16  # bytes, of which every row of x and of a weight must be a multiple for torch's grouped product
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class Linear(nn.Linear):
    """θᵀx + b.   ... d -> ... outputs"""

    laid: Laid | None = None  # inside `fixed`

    def forward(self, x: Tensor) -> Tensor:
        if not suits(x, self.weight):
            return F.linear(x, self.weight, self.bias)
        if torch.is_grad_enabled():
            return Mapped.apply(x, self.weight, self.bias)
        return _mapped(x, self.laid_out(x), self.bias)

    def gelu(self, x: Tensor) -> Tensor | None:
        """gelu(θᵀx + b) in one pass; None where that cannot be, or a gradient may be wanted."""
        if torch.is_grad_enabled() or not suits(x, self.weight):
            return None
        return _mapped(x, self.laid_out(x), self.bias, "gelu")

    def laid_out(self, x: Tensor) -> Tensor:
        """The weight, as a product with x wants it where that is known."""
        if self.laid is None:
            return self.weight
        return self.laid.of(self.weight, x.numel() // x.shape[-1])


class Shared(nn.Module):
    """θᵀx by a matrix that is another layer's, such as an embedding.   ... d -> ... outputs"""

    laid: Laid | None = None  # inside `prepacked`

    def map(self, x: Tensor, weight: Tensor) -> Tensor:
        if torch.is_grad_enabled() or not suits(x, weight) or not weight.is_contiguous():
            return F.linear(x, weight)
        if self.laid is None:
            return _mapped(x, weight, None)
        return _mapped(x, self.laid.of(weight, x.numel() // x.shape[-1]), None)


def map_rows(x: Tensor, weight: Tensor) -> Tensor:
    """θᵀx by the faster library, without a module.   r d, o d -> r o"""
    if not suits(x, weight):
        return F.linear(x, weight)
    if torch.is_grad_enabled():
        out: Tensor = Mapped.apply(x, weight, None)
        return out
    return _mapped(x, weight, None)


class Laid:
    """A weight laid out as a large product wants it: when it is first asked for, and anew after a change."""

    def __init__(self) -> None:
        self.given: Tensor | None = None  # is kept, so that no other weight can come to lie where it lay
        self.version = 0
        self.weight: Tensor | None = None

    def of(self, weight: Tensor, rows: int) -> Tensor:
        if weight.is_inference():  # whose changes PyTorch does not count
            return weight
        if self.weight is None or not self.is_of(weight):
            self.given, self.version = weight.detach(), weight._version
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.given, rows)
        return self.weight

    def is_of(self, weight: Tensor) -> bool:
        """Is it the weight that was laid out, and as it was?"""
        same = (
            self.given is not None and self.given.data_ptr() == weight.data_ptr() and self.given.dtype is weight.dtype
        )
        return same and self.version == weight._version

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """A copy of the layer is not inside `fixed`."""


@contextmanager
def prepacked(model: nn.Module) -> Iterator[None]:
    """Inside, weights stay as they are: each is laid out for large products once, and takes its room twice.

    A change of a weight is seen all the same, if PyTorch counts it; one through `.data` is not.
    """
    layers = [each for each in model.modules() if isinstance(each, Linear | Shared) and each.laid is None]
    for each in layers:
        each.laid = Laid()
    try:
        yield
    finally:
        for each in layers:
            each.laid = None


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


def _mapped(x: Tensor, weight: Tensor, bias: Tensor | None, then: str = "none") -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, then, [], "none")


class Mapped(torch.autograd.Function):
    """θᵀx + b, and for x the gradient by the same library."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _mapped(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad
        rows = grad.reshape(-1, grad.shape[-1])
        dx = None
        if for_x:  # (the gradient of a gradient is asked for where gradients are enabled)
            dx = grad @ weight if torch.is_grad_enabled() else _mapped(grad, weight.mT, None)
        return (dx, rows.mT @ x.reshape(-1, x.shape[-1]) if for_weight else None, rows.sum(0) if for_bias else None)


# ── one linear map for each expert


class ExpertLinear(nn.Module):
    """y_r = θ_e x_r for the rows r of expert e.   r d, ends e -> r outputs

    ends: where the rows of each expert end, so that those of expert e are x[ends[e − 1] : ends[e]]. No biases.
    """

    def __init__(self, experts: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.experts, self.inputs, self.outputs = experts, inputs, outputs
        self.weight = nn.Parameter(torch.rand(experts, outputs, inputs).mul_(2).sub_(1).mul_(inputs**-0.5))

    def forward(self, x: Tensor, ends: Tensor) -> Tensor:
        return multiply_groups(x, self.weight, ends)

    def extra_repr(self) -> str:
        return f"{self.experts} × ({self.inputs} -> {self.outputs})"


def multiply_groups(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """θ_e x_r for the rows of each expert, by one call of torch where it has one that fits, else one by one.
    x r d, weight e o d, ends e (int32) -> r o"""
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weight = x.to(dtype), weight.to(dtype)
    if torch.compiler.is_compiling():
        return _multiply_compiled(x, weight, ends)
    return _multiply(x, weight, ends)


def _multiply(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    if not _fits(x, weight) or _loop_is_faster(x, weight):
        return loop_over_groups(x, weight, ends)
    y = F.grouped_mm(x, weight.mT, offs=ends)
    if y.requires_grad:
        y.register_hook(Tensor.contiguous)  # the backward of the grouped product takes no other gradient
    return y


def loop_over_groups(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """The same, one expert after another: the definition."""
    sizes = [rows.stop - rows.start for rows in _groups(ends)]
    return torch.cat([map_rows(*pair) for pair in zip(x.split(sizes), weight.unbind(), strict=True)])


def _groups(ends: Tensor) -> list[slice]:
    """The rows of each expert."""
    return [slice(first, last) for first, last in pairwise([0, *ends.tolist()])]


def _fits(x: Tensor, weight: Tensor) -> bool:
    """Has torch one call for these sizes and numbers, and are there rows at all?"""
    if not hasattr(F, "grouped_mm") or x.dtype not in DTYPES or x.dtype is not weight.dtype:
        return False
    sizes = (weight.shape[1] * x.element_size(), weight.shape[2] * x.element_size())
    return len(x) > 0 and all(size % ALIGNED == 0 for size in sizes)


def _loop_is_faster(x: Tensor, weight: Tensor) -> bool:
    """Are groups so large that the library which `map_rows` takes is worth a loop? torch's grouped product takes the
    other one."""
    return suits(x[: len(x) // len(weight)], weight[0])


# ── compiled: an operator that a compiler does not look into, because it knows no grouped product of float32


@torch.library.custom_op("regard::multiply_groups", mutates_args=())
def _multiply_compiled(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    return _multiply(x, weight, ends)


@_multiply_compiled.register_fake
def _(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    return x.new_empty(len(x), weight.shape[1])


@torch.library.custom_op("regard::outer_groups", mutates_args=())
def _outer(grad: Tensor, x: Tensor, ends: Tensor) -> Tensor:
    """Σ grad_r x_rᵀ over the rows of each expert.   r o, r d -> e o d"""
    return torch.stack([grad[rows].mT @ x[rows] for rows in _groups(ends)])


@_outer.register_fake
def _(grad: Tensor, x: Tensor, ends: Tensor) -> Tensor:
    return x.new_empty(len(ends), grad.shape[1], x.shape[1])


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
    x, weight, ends = ctx.saved_tensors
    grad = grad.contiguous()
    return _multiply_compiled(grad, weight.mT.contiguous(), ends), _outer(grad, x, ends), None


_multiply_compiled.register_autograd(_backward, setup_context=_save)
