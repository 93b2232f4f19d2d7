"""Feature maps: what convolutions put out over an image, and what each block makes of its patches, channel
by channel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.look.contribution import tensor_of
from regard.look.recording.calls import State, copy_detached
from regard.nn.group_conv import GroupConvolution
from regard.recipes.images.windows import grid_of


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """What one layer put out for one image.   (channels poses) rows columns"""

    name: str
    value: Tensor
    poses: int = 1


@contextmanager
def record_feature_maps(model: nn.Module) -> Iterator[list[FeatureMap]]:
    """Inside the block, what each convolution puts out for the first image of a batch."""
    found: list[FeatureMap] = []
    handles = []

    def hear(name: str, poses: int) -> Any:
        def heard(module: nn.Module, given: Any, out: Any) -> None:
            if isinstance(out, Tensor) and out.dim() == 4 and min(out.shape[-2:]) > 1:
                found.append(FeatureMap(name, copy_detached(out[0]), poses))

        return heard

    try:
        for name, module in model.named_modules():
            if isinstance(module, nn.Conv2d | GroupConvolution):
                handles.append(module.register_forward_hook(hear(name, getattr(module, "poses", 1))))
        yield found
    finally:
        for handle in handles:
            handle.remove()


def of_tokens(states: Sequence[State], grid: tuple[int, int]) -> list[FeatureMap]:
    """What blocks made of patches, as maps: tokens without a place are left out."""
    found = []
    for state in states:
        if state.value.dim() == 3 and (fitting := grid_of(state.value.shape[1], grid)) is not None:
            count = fitting[0] * fitting[1]
            found.append(FeatureMap(state.name, state.value[0, -count:].T.unflatten(1, fitting)))
    return found


# ── the embedding of an image: what the last layer of a model reads

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
