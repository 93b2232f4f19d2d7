"""The part of a block that looks at one token at a time, so it keeps whatever may be done to the tokens as a
whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.errors import RegardError, nearest
from regard.nn.linear import Linear
from regard.shapes import expect


def relu2(x: Tensor) -> Tensor:
    """max(x, 0)²"""
    if x.device.type == "cpu" and x.requires_grad and torch.is_grad_enabled() and not torch.compiler.is_compiling():
        return Relu2.apply(x)[0]
    return F.relu(x).square()


def gelu_tanh(x: Tensor) -> Tensor:
    """x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2"""
    return F.gelu(x, approximate="tanh")


class Relu2(torch.autograd.Function):
    """y = r², r = max(x, 0), and r: on the CPU its gradient 2·r·∂y is one pass over memory, where autograd
    makes three."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        r = F.relu(x)
        return r * r, r

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dr: Tensor | None) -> Tensor | None:
        (r,) = ctx.saved_tensors
        dx = None if dy is None else torch.addcmul(dy.new_zeros(()), dy, r, value=2)
        if dr is None:  # r is used by nobody, but for the gradient of this gradient
            return dx
        through = dr * (r > 0)
        if dx is None:
            return through
        return dx + through


LARGE = 2**25  # bytes of hidden numbers, beyond which glibc asks the system for memory anew each time
PIECE = 2**20  # hidden numbers at once where there are more

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "leaky": F.leaky_relu,  # x / 100 below zero
    "gelu": F.gelu,  # x Φ(x), exact
    "gelu_tanh": gelu_tanh,  # the same with tanh for Φ, as GPT-2 has it
    "relu2": relu2,
}


class MLP(nn.Module):
    """down(activation(up x)).   ... d -> ... d, hidden channels in between, 4 d unless given

    Dropout falls on the hidden channels. Each token by itself: mlp(P x) = P mlp(x) for every order P of the
    tokens.
    """

    def __init__(
        self, dim: int, hidden: int | None = None, activation: str = "gelu", dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise _unknown("activation", activation, list(ACTIVATIONS))
        self.dim = dim
        self.hidden = 4 * dim if hidden is None else hidden
        self.activation = activation
        self.up = Linear(dim, self.hidden, bias=bias)
        self.down = Linear(self.hidden, dim, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        expect(x, "... d", name="x", d=self.dim)
        if self.in_pieces(x):
            return torch.cat([self.whole(part) for part in x.flatten(0, -2).split(PIECE // self.hidden + 1)]).view(
                x.shape
            )
        return self.whole(x)

    def whole(self, x: Tensor) -> Tensor:
        hidden = self.up.gelu(x) if self.activation == "gelu" and not self.heard() else None
        return self.down(self.dropout(ACTIVATIONS[self.activation](self.up(x)) if hidden is None else hidden))

    def in_pieces(self, x: Tensor) -> bool:
        """Are there many tokens, on the CPU, and does nobody want a gradient, or listen to what is inside?"""
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or x.device.type != "cpu":
            return False
        return x.numel() // self.dim * self.hidden * x.element_size() > LARGE and not self.heard()

    def heard(self) -> bool:
        """Does anybody listen to what is inside?"""
        return any(each._forward_hooks or each._forward_pre_hooks for each in (self.up, self.down))

    def extra_repr(self) -> str:
        return f"activation={self.activation}"


class SwiGLU(nn.Module):
    """down(silu(gate x) ⊙ up x), silu(z) = z σ(z).   ... d -> ... d

    Three matrices instead of two, so `hidden` is the multiple of 8 nearest to 8/3 d unless given: as many
    parameters as an MLP of 4 d. Dropout falls on the hidden channels. Each token by itself: mlp(P x) = P
    mlp(x) for every order P.
    """

    def __init__(self, dim: int, hidden: int | None = None, dropout: float = 0.0, bias: bool = False) -> None:
        super().__init__()
        self.dim = dim
        if hidden is None:
            self.hidden = max(8, 8 * round(dim / 3))
        else:
            self.hidden = hidden
        self.gate = Linear(dim, self.hidden, bias=bias)
        self.up = Linear(dim, self.hidden, bias=bias)
        self.down = Linear(self.hidden, dim, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        expect(x, "... d", name="x", d=self.dim)
        return self.down(self.dropout(F.silu(self.gate(x)) * self.up(x)))


MLPS = (*ACTIVATIONS, "swiglu")


def make_mlp(name: str, dim: int, hidden: int | None = None, dropout: float = 0.0) -> MLP | SwiGLU:
    """The one with this name: relu, leaky, gelu, gelu_tanh, relu2 or swiglu."""
    if name == "swiglu":
        return SwiGLU(dim, hidden, dropout=dropout)
    if name not in ACTIVATIONS:
        raise _unknown("mlp", name, list(MLPS))
    return MLP(dim, hidden, activation=name, dropout=dropout)


def _unknown(what: str, name: str, known: list[str]) -> ValueError:
    near = nearest(name, known)
    hint = f"; did you mean {near!r}?" if near else ""
    return RegardError(f"{what} must be one of {', '.join(known)}, got {name!r}{hint}")
