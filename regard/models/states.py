"""What a model without attention keeps of the past: a fixed number of tensors, however long the text."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import RegardError


class States:
    """Tensors by their names, each with a row for each sequence. Empty before the first token.

    As a cache of attention it is for writing, not for training: it refuses gradients.
    """

    def __init__(self) -> None:
        self.held: dict[str, Tensor] = {}

    def take(self, rows: Tensor) -> None:
        """Row i goes on from what row rows[i] has read."""
        self.held = {name: x.index_select(0, rows) for name, x in self.held.items()}

    def keep(self, **tensors: Tensor) -> None:
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors.values()):
            raise RegardError(
                "a cache carries no gradients, so training through it would be wrong in silence; use torch.no_grad()"
            )
        self.held |= tensors
