"""The cross-attention of each word over the image, of models that write captions or read questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.look import plot
from regard.look.encode_arrays import floats, round_digits, unpack_array
from regard.look.model_input import ModelInput
from regard.look.record import record
from regard.look.recording.entry import Entry
from regard.look.thumbnails import as_png
from regard.look.view import View, web_files
from regard.recipes.images import overlays
from regard.recipes.images.model_input import CaptionInput
from regard.recipes.images.windows import grid_of

if TYPE_CHECKING:
    from regard.look.scene import Scene

NO_CROSS = (
    "Where words look in the image is unknown, because no cross-attention of the {} words was recorded: words "
    "and image may be tokens of one self-attention."
)
NO_PATCHES = (
    "Where words look in {} is unknown, because its {} keys are not the {} × {} patches of the image, alone, "
    "merged or after a few other tokens."
)
WORDS = "Where words look in {} is unknown, because the number of its keys ({}) follows the number of words."
MOST_STILLS = 8  # words of a still


class WordsView(View):
    """Each word's cross-attention, laid over the image."""

    name, order, stands_alone = "words", 9, False
    files = web_files(Path(__file__).parents[1], "28-words.js")

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, CaptionInput)

    def build(self, scene: Scene) -> dict[str, Any]:
        assert isinstance(scene.given, CaptionInput)
        return words_over_image(scene.seen, scene.given, _other_keys(scene))

    def still(self, scene: Scene, title: str) -> Any | None:
        """The last layer, the mean of its heads: a picture for each of the first words."""
        assert isinstance(scene.given, CaptionInput)
        given, found = scene.given, scene.view(self.name) or {"layers": []}
        proved = [layer for layer in found["layers"] if layer["proved"]]
        if not proved:
            return None
        last = proved[-1]
        shape = len(last["heads"]), len(given.words.labels), *last["grid"]
        maps = torch.from_numpy(unpack_array(last["maps"]["data"], "f4", *shape).copy()).mean(0)
        labels = given.writes or given.words.labels
        shown = [
            overlays.Overlay(plot.visible(word), one) for word, one in zip(labels[:MOST_STILLS], maps, strict=False)
        ]
        heads = f"mean of {shape[0]} heads" if shape[0] > 1 else "its only head"
        words = f"{title}: where each word looks, layer {last['layer'] + 1}, {heads}"
        return overlays.draw_lines([overlays.Line(words, given.image, shown)])


def _other_keys(scene: Scene) -> dict[tuple[str, int], int]:
    """How many keys each attention has when there is one word less, or more: those of an image stay."""
    assert isinstance(scene.given, CaptionInput)
    with torch.no_grad(), record(scene.model, keep="summary") as seen:
        scene.model(**scene.given.with_another_length())
    return {(entry.name, entry.call): entry.shape[3] for entry in seen if entry.kind != "edges"}


def words_over_image(
    seen: Sequence[Entry], given: CaptionInput, other_keys: Mapping[tuple[str, int], int]
) -> dict[str, Any]:
    """The data of the view. What cannot be laid over the image is unknown, with a reason.

    other_keys  how many keys each attention has with another number of words
    """
    layers, unknown = [], []
    entries = _cross(seen, given)
    for entry in entries:
        keys = entry.shape[3]
        if other_keys.get((entry.name, entry.call)) != keys:
            unknown.append(WORDS.format(entry.name, keys))
            continue
        grid = _grid(keys, given)
        if grid is None:
            unknown.append(NO_PATCHES.format(entry.name, keys, *given.grid))
            continue
        layers.append(
            {
                "layer": entry.layer,
                "call": entry.call,
                "name": entry.name,
                "heads": list(entry.heads),
                "proved": entry.proved,
                "reason": entry.reason,
                "error": round_digits(float(entry.error), 2),
                "grid": list(grid),
                "maps": floats(over_patches(entry.weights[0], grid)) if entry.proved else None,
            }
        )
    if not entries:
        unknown.append(NO_CROSS.format(len(given.words.labels)))
    return {
        "view": "words",
        "picture": as_png(given.image),
        "words": list(given.words.labels),
        "writes": None if given.writes is None else list(given.writes),
        "layers": layers,
        "unknown": unknown,
    }


def _cross(seen: Sequence[Entry], given: CaptionInput) -> list[Entry]:
    """Layers in which the words attend to something else."""
    count = len(given.words.labels)
    return [entry for entry in seen if entry.kind == "cross" and entry.shape[0] == 1 and entry.shape[2] == count]


def _grid(keys: int, given: CaptionInput) -> tuple[int, int] | None:
    """On which grid of patches so many keys lie; None: they are something else."""
    grid = None if given.piece != "patch" else grid_of(keys, given.grid)
    if grid != given.grid and not given.merges:
        return None
    return grid


def over_patches(weights: Tensor, grid: tuple[int, int]) -> Tensor:
    """What each word gives to each patch, without tokens before the patches.   h n m -> h n rows columns"""
    return weights[..., weights.shape[-1] - grid[0] * grid[1] :].unflatten(-1, grid)
