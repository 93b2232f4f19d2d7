"""What is not real does not exist: padded tokens are cleared before anything is computed from them.

Multiplying by zero would not do: 0 · NaN is NaN, forwards and backwards. Filling does, and its gradient is
zero.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.positions import coordinates
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


# ── tokens lined up by their places, for layers that read slot after slot: recurrent ones and convolutions. So such a layer may
# be given tokens in any order with their places, too, and padding anywhere.


class Lineup:
    """The order of each row's tokens: real ones first, by their places. None: they are so already.   b n"""

    def __init__(self, order: Tensor | None, real: Tensor | None) -> None:
        self.order = order
        self.real = real  # of the lined-up tokens: padding is at the end

    def take(self, x: Tensor) -> Tensor:
        """b n … in this order."""
        return x if self.order is None else torch.take_along_dim(x, self._index(x), 1)

    def put_back(self, x: Tensor) -> Tensor:
        """b n … in the order in which the tokens were given."""
        if self.order is None:
            return x
        return torch.zeros_like(x).scatter(1, self._index(x).expand_as(x), x)

    def _index(self, x: Tensor) -> Tensor:
        assert self.order is not None
        return self.order.view(*self.order.shape, *[1] * (x.dim() - 2))


def line_up(tokens: Tensor, where: Tensor | None, real: Tensor | None) -> Lineup:
    """tokens: b n …   where: places n or b n, None: consecutive; real: bool b n, False for padding"""
    if where is None and (real is None or _padded_at_the_end(real)):
        return Lineup(None, real)
    b, n = tokens.shape[:2]
    if where is None:
        assert real is not None
        order = (~real).to(torch.int8).argsort(dim=1, stable=True)
        return Lineup(order, torch.take_along_dim(real, order, 1))
    places = coordinates(where, 0, n, b, tokens.device, "a recurrent or convolutional model").expand(b, n)
    if real is not None:
        places = places.double().masked_fill(~real, torch.inf)
    if places.is_floating_point() and not torch.compiler.is_compiling() and places.isnan().any():
        raise RegardError("a token without a place (NaN) has no turn in a sequence; give it a place")
    order = places.argsort(dim=1, stable=True)
    return Lineup(order, None if real is None else torch.take_along_dim(real, order, 1))


def _padded_at_the_end(real: Tensor) -> bool:
    """Elsewhere than on the CPU a look would wait for the device, and a compiled model cannot look."""
    if torch.compiler.is_compiling() or real.device.type != "cpu":
        return False
    return not bool((real[:, 1:] & ~real[:, :-1]).any())
