"""Feature maps: what convolutions put out over an image, and what each block makes of its patches, channel
by channel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.look.recording.calls import State, copy_detached
from regard.nn.group_conv import GroupConvolution
from regard.recipes.images.window_layout import grid_of


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
