"""float64 all the way: many models cast to float32 on their way (norms, rotations, softmax), whatever dtype they have.

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
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is Tensor.float:
            function = Tensor.double
        named = {name: wide(value) for name, value in (kwargs or {}).items()}
        return function(*map(wide, args), **named)


def wide(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


def widened(model: nn.Module) -> nn.Module:
    """The same module, which now runs inside such a block. For a copy: its forward is another one from now on."""
    forward = model.forward

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        with Widened():
            return forward(*args, **kwargs)

    model.forward = run
    return model
