"""One linear map for each expert: the rows of a matrix lie sorted by expert, and each group of rows has its own
weights."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.linear import map_rows, suits

ALIGNED = 16  # bytes, of which every row of x and of a weight must be a multiple for torch's grouped product
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


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
