"""Filters of the first layer that reads an image, as they are learned: what a model looks for first."""

from __future__ import annotations

from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.group_conv import GroupConvolution
from regard.nn.patches import PatchEmbedding

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def filters(model: nn.Module) -> tuple[str, Tensor]:
    """Name and weight of the first convolution of a model, in the order in which its modules were made.
    o i k k

    An embedding of patches is one, too, with a stride as long as its sides. Filters in poses come one pose
    after the other.
    """
    for name, module in model.named_modules():
        if isinstance(module, CONVOLUTIONS):
            return name, module.weight.detach()
        if isinstance(module, GroupConvolution):
            return name, module.filters().detach()
        if isinstance(module, PatchEmbedding):
            return name, module.linear.weight.detach().unflatten(
                1, (module.colours, module.patch, module.patch)
            )
    raise RegardError(
        f"{type(model).__name__} has no convolution; filters are those of nn.Conv1d, Conv2d and Conv3d"
    )
