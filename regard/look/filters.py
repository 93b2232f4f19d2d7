"""Filters of a convolution, as they are learned: what a model looks for in a picture first."""

from __future__ import annotations

from torch import Tensor, nn

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def filters(model: nn.Module) -> tuple[str, Tensor]:
    """Name and weight of the first convolution of a model, in the order in which its modules were made.   o i k k"""
    for name, module in model.named_modules():
        if isinstance(module, CONVOLUTIONS):
            return name, module.weight.detach()
    raise ValueError(f"{type(model).__name__} has no convolution; filters are those of nn.Conv1d, Conv2d and Conv3d")
