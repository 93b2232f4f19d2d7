"""Softmaxes that wait for values: what is held of them, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from regard.look.recording.lineage import Weights, key_of

MOST = 64  # at once


class Waiting:
    """All of them, in the order in which they ran. `unsummed` is told of those that never met values, if
    queries met keys in them."""

    def __init__(self, unsummed: Callable[[Weights], None]) -> None:
        self.unsummed = unsummed
        self.roots: list[Weights] = []

    def add(self, root: Weights) -> None:
        self.roots.append(root)
        for old in self.roots[:-MOST]:
            self.drop(old)

    def save(self, inputs: list[Tensor]) -> None:
        """Something is about to be written in place: weights that still wait for values are copied before."""
        for root in self.roots:
            if root.tensor is not None and any(key_of(x) == key_of(root.tensor) for x in inputs):
                root.tensor = root.tensor.clone()

    def drop(self, root: Weights) -> None:
        """It waits no longer."""
        self.roots = [other for other in self.roots if other is not root]
        attends = root.scored or root.consumed
        if attends and not root.used and root.tensor is not None and root.tensor.shape[root.axis] > 1:
            self.unsummed(root)
        root.tensor = None
        root.parts.clear()

    def forget(self, ended: Any) -> None:
        """A call has ended: nobody will sum values with the weights that were waiting in it."""
        for root in [root for root in self.roots if root.owner is ended]:
            self.drop(root)
