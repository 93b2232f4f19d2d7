"""float64 all the way: many models cast to float32 on their way (norms, rotations, softmax), whatever dtype
they have.

In a copy whose rounding is to be a billion times smaller, such a cast would bring float32's back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Widened(TorchFunctionMode):
    """Inside the block, whoever asks torch for float32 gets float64."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if function is Tensor.float:
            function = Tensor.double
        named = {name: _wide(value) for name, value in (kwargs or {}).items()}
        return function(*map(_wide, args), **named)


def _wide(value: Any) -> Any:
    if value is torch.float32:
        return torch.float64
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


def widen(model: nn.Module) -> nn.Module:
    """The same module, with another forward from now on: for a copy."""
    model.forward = Inside(model.forward)
    return model
