"""What each token contributes to a prediction, which is not what is attended to: a token may be looked at and
not matter.

Two ways: leave it out and see what changes (leave one out), and how steeply the prediction rises along it
(gradient × input). Both give one number a token and add up to nothing in particular; for a prediction that is
linear in its tokens they agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError

Read = Callable[[Any], Tensor]  # what a model returns -> one number a row: b
TOGETHER = 16  # rows that are asked at once


class Largest:
    """The prediction that is asked about when nothing is said: the largest logit of the last token, the same
    one ever after."""

    def __init__(self) -> None:
        self.chosen: Tensor | None = None

    def __call__(self, out: Any) -> Tensor:
        logits = tensor_of(out)
        if logits.dim() == 3:
            logits = logits[:, -1]
        if logits.dim() != 2:
            raise RegardError(
                f"the model returns {tuple(logits.shape)}; give read=, from its output to one number a row"
            )
        if self.chosen is None:
            self.chosen = logits.detach().argmax(-1)
        # rows that are asked together come row by row again
        chosen = self.chosen.repeat(len(logits) // len(self.chosen))
        return logits.gather(1, chosen[:, None])[:, 0]


def tensor_of(out: Any) -> Tensor:
    """The tensor that counts in what a model returns."""
    for name in ("logits", "last_hidden_state"):
        if getattr(out, name, None) is not None:
            return getattr(out, name)
    while isinstance(out, list | tuple) and out:
        out = out[0]
    if not isinstance(out, Tensor):
        raise RegardError(f"the model returns {type(out).__name__}; give read=, from its output to one number a row")
    return out


def leave_one_out(
    model: nn.Module | Callable[[Tensor], Any], x: Tensor, *, read: Read | None = None, fill: float | None = None
) -> Tensor:
    """c_i = y(x) − y(x without token i): what the prediction loses when a token goes.
    x: b n (ids) or b n d -> b n

    The token is taken out, so that n − 1 are left; with `fill` it is replaced by that id or number instead (a
    mask token, a grey patch, 0), which keeps the places of the others. x may also say how much of each is
    there (`OfPatches`), 1 or 0. `read` makes one number a row of what the model returns; by default it is the
    largest logit (of the last token). Several rows are asked together: all of x without one token, then all
    of x without the next.
    """
    if x.dim() not in (2, 3):
        raise RegardError(f"x must be ids b n or vectors b n d, got {tuple(x.shape)}")
    n = x.shape[1]
    if n < 2 and fill is None:
        raise RegardError("nothing is left when the only token goes; give fill=, what to put in its place")
    answer = Largest() if read is None else read
    with torch.no_grad():
        whole, lost = answer(model(x)), []
        for some in torch.arange(n).split(max(1, TOGETHER // len(x))):
            others = torch.cat([_without(x, i, fill) for i in some.tolist()])
            lost.append(whole - answer(model(others)).view(len(some), -1))
    return torch.cat(lost).mT


def _without(x: Tensor, i: int, fill: float | None) -> Tensor:
    """x without token i, or with something else in its place."""
    if fill is None:
        return torch.cat((x[:, :i], x[:, i + 1 :]), 1)
    other = x.clone()
    other[:, i] = fill
    return other


def gradient_times_input(model: nn.Module, x: Tensor, *, read: Read | None = None) -> Tensor:
    """c_i = ∂y/∂e_i · e_i: what the prediction would lose if token i faded, were it linear.
    x: b n (ids) or b n d -> b n

    e is x itself, or for ids what the model makes of them first (its embedding, before positions are added).
    """
    answer = Largest() if read is None else read
    if x.is_floating_point():
        inputs = x.detach().clone().requires_grad_()
        with torch.enable_grad():
            (grad,) = torch.autograd.grad(answer(model(inputs)).sum(), [inputs])
        return _contracted(grad * inputs.detach())
    found: list[Tensor] = []

    def first_made(module: nn.Module, given: Any, out: Any) -> Tensor | None:
        """The first vectors that a module makes of the ids themselves."""
        ids = given[0] if given and isinstance(given[0], Tensor) else None
        if found or ids is None or not isinstance(out, Tensor) or not out.is_floating_point():
            return None
        if ids.shape != x.shape or ids.is_floating_point() or not torch.equal(ids, x) or out.shape[:-1] != x.shape:
            return None
        found.append(out.detach().requires_grad_())
        return found[0]

    inner = [module for module in model.modules() if module is not model]
    handles = [module.register_forward_hook(first_made) for module in inner]
    try:
        with torch.enable_grad():
            value = answer(model(x)).sum()
    finally:
        for handle in handles:
            handle.remove()
    if not found:
        raise RegardError(
            "no module of the model makes vectors of the ids it is given; give vectors b n d instead of ids"
        )
    (grad,) = torch.autograd.grad(value, found)
    return _contracted(grad * found[0].detach())


def _contracted(product: Tensor) -> Tensor:
    """b n ... -> b n"""
    return product.flatten(2).sum(-1) if product.dim() > 2 else product
