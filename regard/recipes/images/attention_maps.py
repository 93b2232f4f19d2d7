"""Where a model of images looks: attention as maps over the image, layer by layer, and followed through
all layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from torch import Tensor, nn

from regard.look import measure
from regard.look.model_input import Window
from regard.look.recording.entry import Entry
from regard.models.swin import Swin
from regard.recipes.images import windows
from regard.recipes.images.windows import MOST_BEFORE, WindowLayout

if TYPE_CHECKING:
    from regard.recipes.images.model_input import ImageInput


Reads = Literal["class", "mean"]
QUERIES: dict[Reads, str] = {"class": "the class token", "mean": "the mean of all patches"}


@dataclass(frozen=True, eq=False)
class LayerMaps:
    """Where each head of one layer looks, in shares of what it looks at.   heads rows columns"""

    entry: Entry
    maps: Tensor


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """Attention over an image: whose, in each layer, and what of each patch can reach the end."""

    query: str
    layers: list[LayerMaps]
    rollout: Tensor | None  # rows columns
    within: str = ""  # what must be said of how it was followed


def attention_maps(model: nn.Module, seen: Sequence[Entry], given: ImageInput) -> AttentionMaps | None:
    """The maps, or None where no patch looks at another one, or where it is not known which patch is
    where."""
    if cuts := _cuts_of(model, given):
        return _of_windows(windows.blocks(cuts, seen))
    count = given.grid[0] * given.grid[1]
    layers = [entry for entry in seen if entry.proved and (_whole(entry, count) or _of_class(entry, count))]
    if not layers:
        return None
    reads = given.reads or ("class" if layers[0].shape[3] > count else "mean")
    followed = _through(layers)
    return AttentionMaps(
        QUERIES[reads],
        [LayerMaps(entry, _over(entry.weights, given.grid, reads)) for entry in layers],
        None if followed is None else _over(followed[:, None], given.grid, reads)[0],
    )


def _cuts_of(model: nn.Module, given: ImageInput) -> tuple[WindowLayout, ...]:
    """How a model cuts this image into windows, as it says itself, or as was said with the image."""
    if not isinstance(model, Swin):
        return given.cuts
    height, width = given.inputs[given.pixels].shape[-2:]
    return windows.cuts(model, height, width)


def _of_windows(blocks: Sequence[windows.Block]) -> AttentionMaps | None:
    """The same for patches that look within windows, which shift, and merge from stage to stage."""
    layers = [LayerMaps(block.entry, windows.attention_received(block)) for block in blocks if block.entry.proved]
    if not layers:
        return None
    followed = windows.rollout(blocks) if len(layers) == len(blocks) else None
    return AttentionMaps(QUERIES["mean"], layers, followed, "within windows")


def windows_of(model: nn.Module, seen: Sequence[Entry], given: ImageInput) -> dict[str, list[Window]]:
    """The windows of each layer of a model whose patches look within windows, by the name of the layer."""
    cuts = _cuts_of(model, given)
    return {block.entry.name: windows.name_windows(block) for block in windows.blocks(cuts, seen)}


def _whole(entry: Entry, count: int) -> bool:
    """Does every patch attend to every patch?"""
    if entry.kind == "edges":
        return False
    b, _, n, m = entry.shape
    return b == 1 and entry.kind == "self" and n == m and 0 <= n - count <= MOST_BEFORE


def _of_class(entry: Entry, count: int) -> bool:
    """Does the class token alone attend to all? In a last layer nothing else is needed."""
    return (
        entry.kind != "edges" and entry.shape[0] == entry.shape[2] == 1 and 1 <= entry.shape[3] - count <= MOST_BEFORE
    )


def _through(layers: Sequence[Entry]) -> Tensor | None:
    """Attention followed through all layers, of which the last may be that of the class token alone.
    -> 1 n m"""
    if len({entry.shape[3] for entry in layers}) > 1 or any(entry.shape[2] == 1 for entry in layers[:-1]):
        return None
    if len(layers) == 1 and layers[0].shape[2] == 1:
        return None
    return measure.rollout(layers, query=0)


def _over(weights: Tensor, grid: tuple[int, int], reads: Reads) -> Tensor:
    """What the class token looks at, or what all patches look at on average.   1 h n m -> h rows columns"""
    before = weights.shape[-1] - grid[0] * grid[1]
    # registers are not in the mean
    from_them = weights[0, :, 0] if reads == "class" else weights[0, :, before:].mean(1)
    return from_them[:, before:].unflatten(-1, grid)
