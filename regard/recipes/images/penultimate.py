"""The embedding of an image: what the last layer of a model reads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.look.contribution import tensor_of
from regard.nn.group_conv import GroupConvolution

ROWS = 64  # images at once


@torch.no_grad()
def penultimate(model: nn.Module, name: str, x: Tensor) -> tuple[Tensor, Tensor]:
    """What the last layer with weights reads of each image, and what the model then says.
    n c h w -> n d, n classes

    Where it reads maps, their mean over all places; of maps with poses, the largest pose of each channel.
    """
    last: list[tuple[nn.Module, Tensor]] = []

    def reads(module: nn.Module, given: tuple[Any, ...]) -> None:
        if given and isinstance(given[0], Tensor):
            last[:] = [(module, given[0])]

    weighty = [module for module in model.modules() if any(True for _ in module.parameters(recurse=False))]
    handles = [module.register_forward_pre_hook(reads) for module in weighty]
    try:
        points, said = [], []
        for rows in x.split(ROWS):
            said.append(tensor_of(model(**{name: rows})))
            points.append(_summed_up(*last[0]))
    finally:
        for handle in handles:
            handle.remove()
    return torch.cat(points).float().cpu(), torch.cat(said).float().cpu()


def _summed_up(module: nn.Module, x: Tensor) -> Tensor:
    """b d, b n d or b c h w -> b d"""
    if x.dim() == 4:
        x = x.mean((-2, -1))
        if isinstance(module, GroupConvolution):
            return x.unflatten(1, (-1, module.before)).amax(2)
        return x
    if x.dim() == 3:
        return x.mean(1)
    return x
