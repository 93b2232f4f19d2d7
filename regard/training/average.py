"""An exponential moving average of the weights: often better than the weights, which change at each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """a ← a + (1 − β_t)·(w − a) after each step, β_t = min(β, (1 + t)/(10 + t)): so that the start is soon
    forgotten.

    Buffers are not averaged: the model's own go with the average.
    """

    def __init__(self, model: nn.Module, beta: float) -> None:
        self.beta = beta
        self.parameters = [p for p in model.parameters() if p.requires_grad and p.is_floating_point()]
        self.values = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def add(self, step: int) -> None:
        """Take in the weights after a step, counted from 0."""
        torch._foreach_lerp_(self.values, list(self.parameters), 1 - min(self.beta, (1 + step) / (10 + step)))

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model with the averaged weights, for a while. Only pointers are exchanged."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def load(self, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
        """Go on from the state_dict that the model had `in_place`."""
        with self.in_place(), torch.no_grad():
            named = dict(model.named_parameters())
            for name, tensor in tensors.items():
                if name in named:
                    named[name].copy_(tensor)

    def _exchange(self) -> None:
        for i, parameter in enumerate(self.parameters):
            parameter.data, self.values[i] = self.values[i], parameter.data
