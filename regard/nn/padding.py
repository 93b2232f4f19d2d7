"""What is not real does not exist: padded tokens are cleared before anything is computed from them.

Multiplying by zero would not do: 0 · NaN is NaN, forwards and backwards. Filling does, and its gradient is
zero.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.shapes import expect


def zero_padding(x: Tensor, real: Tensor | None, fill: float = 0.0) -> Tensor:
    """x with `fill` in every slot that is not real.   x: b n d, real: bool b n, True = real, or None when all
    are"""
    if real is None:
        return x
    check_real(real, "b n", b=x.shape[0], n=x.shape[1])
    return x.masked_fill(~real[..., None], fill)


def check_real(real: Tensor, pattern: str, **sizes: int) -> None:
    """A ValueError if real is no bool tensor of these sizes."""
    if not isinstance(real, Tensor) or real.dtype != torch.bool:
        if isinstance(real, Tensor):
            given = f"{real.dtype} {tuple(real.shape)}"
        else:
            given = type(real).__name__
        raise RegardError(
            f"real must be a bool tensor '{pattern}', True = real, got {given}; "
            f"lengths become one by torch.arange(n) < lengths[:, None], numbers by real != 0"
        )
    expect(real, pattern, name="real", **sizes)
