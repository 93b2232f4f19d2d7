"""The list of planted bugs: for each a small model that is healthy or sick, the law it breaks, and the module at fault.

The files `planted_*.py` fill it, one theme each; the blocks they share are in `planted_parts.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Case = tuple[nn.Module, dict[str, Tensor], dict[str, Any]]  # the model, its inputs, what else `check` is told


@dataclass(frozen=True)
class Bug:
    """One mistake that can be switched on in a model that is otherwise right."""

    name: str
    made: Callable[[bool], Case]
    law: str  # the law that must be reported broken
    layer: str  # dotted name of the module that holds the mistake; "" is the model itself
    also: tuple[str, ...]  # laws that the same mistake may break, too

    def model(self, *, bug: bool) -> Case:
        """The same weights at every call, whatever was drawn before."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model, inputs, told = self.made(bug)
        return model.eval(), inputs, told


BUGS: list[Bug] = []


def planted(
    law: str, *, at: str, also: tuple[str, ...] = ()
) -> Callable[[Callable[[bool], Case]], Callable[[bool], Case]]:
    """Puts a function of `bug` on the list, under its own name."""

    def plant(made: Callable[[bool], Case]) -> Callable[[bool], Case]:
        BUGS.append(Bug(made.__name__, made, law, at, also))
        return made

    return plant
