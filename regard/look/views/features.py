"""Feature maps of a picture: channels that vary most, each as a map, and all channels of a layer in three colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.look.features import FeatureMap, of_tokens
from regard.look.pack import levels, rounded
from regard.look.recording.calls import State
from regard.look.views.embeddings import principal

LAYERS = 24  # at most, from the first to the last
CHANNELS = 32  # of each
BYTES = 600_000  # that all maps of a page may take, before they are packed
ALIKE = 1e-4  # of the largest value: places that differ by less have one colour
SIDES = (64, 48, 32, 24, 16)  # to which large maps are brought, the largest that fits


def features(
    convolved: Sequence[FeatureMap], states: Sequence[State], grid: tuple[int, int] | None
) -> dict[str, Any] | None:
    """The view, or None for a model that makes no maps of a picture."""
    found = [*convolved, *(of_tokens(states, grid) if grid is not None else [])]
    if not found:
        return None
    evenly = torch.linspace(0, len(found) - 1, min(LAYERS, len(found))).round().long().tolist()
    chosen = [found[k] for k in evenly]
    side = next((side for side in SIDES if sum(size(each, side) for each in chosen) <= BYTES), SIDES[-1])
    left_out = len(found) - len(chosen)
    note = (
        f"Feature maps are shown of {len(chosen)} of {len(found)} layers, evenly taken." if left_out else None
    )
    return {"view": "features", "layers": [layer(each, side) for each in chosen], "note": note}


def size(each: FeatureMap, side: int) -> int:
    count, rows, columns = each.value.shape
    return min(count, CHANNELS) * min(rows, side) * min(columns, side)


def layer(each: FeatureMap, side: int) -> dict[str, Any]:
    value = each.value.float().cpu()
    _, rows, columns = value.shape
    small = (
        F.adaptive_avg_pool2d(value, (min(rows, side), min(columns, side)))
        if max(rows, columns) > side
        else value
    )
    channels = small.unflatten(0, (-1, each.poses))  # c p rows columns
    some = lively(channels, max(1, CHANNELS // each.poses))
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
        "explained": rounded(explained, 3),
    }


def lively(channels: Tensor, most: int) -> list[int]:
    """The channels that vary most over the picture, in their own order.   c p rows columns -> numbers"""
    spread = channels.flatten(1).nan_to_num().var(1, unbiased=False)
    kept: list[int] = spread.topk(min(most, len(channels))).indices.sort().values.tolist()
    return kept


def in_colours(value: Tensor) -> tuple[Tensor, float]:
    """The three directions in which places differ most as red, green and blue, and their share.   c h w -> h w 3"""
    flat, share = principal(value.flatten(1).T, axes=3)
    low, high = flat.amin(0), flat.amax(0)
    differs = high - low > ALIKE * value.abs().amax()  # below that it is rounding
    colours = torch.where(differs, (flat - low) / (high - low).clamp_min(1e-12), 0.5)
    return colours.unflatten(0, tuple(value.shape[1:])), float(share.sum())
