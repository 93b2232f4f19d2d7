"""Feature maps of an image: channels that vary most, each as a map, and all channels of a layer in three
colours."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.look.encode_arrays import levels, round_digits
from regard.look.model_input import ModelInput
from regard.look.recording.calls import State
from regard.look.view import View, web_files
from regard.look.views.embeddings import principal
from regard.recipes.images.feature_maps import FeatureMap, of_tokens, record_feature_maps
from regard.recipes.images.model_input import ImageInput

if TYPE_CHECKING:
    from regard.look.scene import Scene


LAYERS = 24  # at most, from the first to the last
CHANNELS = 32  # of each
BYTES = 600_000  # that all maps of a page may take, before they are packed
ALIKE = 1e-4  # of the largest value: places that differ by less have one colour
SIDES = (64, 48, 32, 24, 16)  # to which large maps are brought, the largest that fits


class FeaturesView(View):
    """What convolutions and blocks put out over the image."""

    name, order, stands_alone = "features", 45, True
    files = web_files(Path(__file__).parents[1], "45-features.js", "features.css")

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, ImageInput)

    def record(self, model: nn.Module) -> AbstractContextManager[list[FeatureMap]]:
        return record_feature_maps(model)

    def build(self, scene: Scene) -> dict[str, Any] | None:
        assert isinstance(scene.given, ImageInput)
        return _features(scene.recorded[self.name], scene.seen.states, scene.given.grid)


def _features(maps: Sequence[FeatureMap], states: Sequence[State], grid: tuple[int, int]) -> dict[str, Any] | None:
    """The view, or None for a model that makes no maps of an image."""
    found = [*maps, *of_tokens(states, grid)]
    if not found:
        return None
    evenly = torch.linspace(0, len(found) - 1, min(LAYERS, len(found))).round().long().tolist()
    chosen = [found[k] for k in evenly]
    side = next((side for side in SIDES if sum(_size(each, side) for each in chosen) <= BYTES), SIDES[-1])
    left_out = len(found) - len(chosen)
    if left_out:
        note = f"Feature maps are shown of {len(chosen)} of {len(found)} layers, evenly taken."
    else:
        note = None
    return {"view": "features", "layers": [_layer(each, side) for each in chosen], "note": note}


def _size(each: FeatureMap, side: int) -> int:
    count, rows, columns = each.value.shape
    return min(count, CHANNELS) * min(rows, side) * min(columns, side)


def _layer(each: FeatureMap, side: int) -> dict[str, Any]:
    value = each.value.float().cpu()
    _, rows, columns = value.shape
    if max(rows, columns) > side:
        small = F.adaptive_avg_pool2d(value, (min(rows, side), min(columns, side)))
    else:
        small = value
    channels = small.unflatten(0, (-1, each.poses))  # c p rows columns
    some = _lively(channels, max(1, CHANNELS // each.poses))
    colours, explained = in_colours(small)
    return {
        "name": each.name,
        "rows": rows,
        "columns": columns,
        "of": len(channels),
        "poses": each.poses,
        "channels": some,
        "maps": levels(channels[some].flatten(0, 1)),
        "colours": levels(colours),
        "explained": round_digits(explained, 3),
    }


def _lively(channels: Tensor, most: int) -> list[int]:
    """The channels that vary most over the image, in their own order.   c p rows columns -> numbers"""
    spread = channels.flatten(1).nan_to_num().var(1, unbiased=False)
    kept: list[int] = spread.topk(min(most, len(channels))).indices.sort().values.tolist()
    return kept


def in_colours(value: Tensor) -> tuple[Tensor, float]:
    """The three directions in which places differ most as red, green and blue, and their share.
    c h w -> h w 3"""
    flat, share = principal(value.flatten(1).T, axes=3)
    low, high = flat.amin(0), flat.amax(0)
    differs = high - low > ALIKE * value.abs().amax()  # below that it is rounding
    colours = torch.where(differs, (flat - low) / (high - low).clamp_min(1e-12), 0.5)
    return colours.unflatten(0, tuple(value.shape[1:])), float(share.sum())
