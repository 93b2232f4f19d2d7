"""A copy of a model in another dtype, and in float64 all the way: many models cast to float32 or less on
their way (norms, rotations, softmax), whatever dtype they have.

In a copy whose rounding is to be a billion times smaller, such a cast would bring the rounding back. Complex
numbers stay complex.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

WIDER = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
    "torch.FloatTensor": "torch.DoubleTensor",
    "torch.HalfTensor": "torch.DoubleTensor",
    "torch.BFloat16Tensor": "torch.DoubleTensor",
    torch.FloatTensor: torch.DoubleTensor,
    torch.HalfTensor: torch.DoubleTensor,
    torch.BFloat16Tensor: torch.DoubleTensor,
}
CASTS = {
    Tensor.float: Tensor.double,
    Tensor.half: Tensor.double,
    Tensor.bfloat16: Tensor.double,
    getattr(Tensor, "cfloat"): getattr(Tensor, "cdouble"),  # noqa: B009  (not in the stubs)
}


def cast(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy in this dtype. Its weights are made at once in it, so that large ones are not copied twice."""
    weights: dict[int, Any] = {
        id(p): nn.Parameter(cast_tensor(p.detach(), dtype).clone(), p.requires_grad)
        for p in model.parameters()
        if type(p) is nn.Parameter and (p.is_floating_point() or p.is_complex())
    }
    copied = copy.deepcopy(model, weights)
    copied._apply(lambda x: cast_tensor(x, dtype))
    if dtype == torch.float64:
        copied.forward = Inside(copied.forward)
    return copied


def cast_tensor(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Real numbers in this dtype, complex ones in the complex dtype that goes with it, others as they are."""
    if x.is_complex():
        return x.to(torch.complex128 if dtype == torch.float64 else torch.complex64)
    if x.is_floating_point():
        return x.to(dtype)
    return x


class Widened(TorchFunctionMode):
    """Inside the block, whoever asks torch for float32 or less gets float64."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = {name: _wide(value) for name, value in (kwargs or {}).items()}
        return CASTS.get(function, function)(*map(_wide, args), **named)


def _wide(value: Any) -> Any:
    if isinstance(value, torch.dtype | str | type):
        return WIDER.get(value, value)
    return value


class Inside:
    """A forward that runs inside such a block. Copied along with its module, it belongs to the copy, as a
    closure would not."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        functools.update_wrapper(self, forward)  # its signature is read by others
        self.forward = forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with Widened():
            return self.forward(*args, **kwargs)
