"""Attention of each head laid over the image, attention followed through all layers, and beside both what
matters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from regard.look.encode_arrays import floats
from regard.look.model_input import ModelInput
from regard.look.thumbnails import as_png
from regard.look.view import View, web_files
from regard.recipes.images import overlays
from regard.recipes.images.attention_maps import AttentionMaps, attention_maps
from regard.recipes.images.model_input import ImageInput

if TYPE_CHECKING:
    from regard.look.scene import Scene


class ImageView(View):
    """The image, and over it where the model looks and what matters to its prediction."""

    name, order, stands_alone = "image", 10, False
    files = web_files(Path(__file__).parents[1], "29-image-region.js", "30-image.js", "image.css")

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, ImageInput)

    def build(self, scene: Scene) -> dict[str, Any]:
        assert isinstance(scene.given, ImageInput)
        return _image(scene.given, _attention_over(scene), scene.view("contribution"))

    def still(self, scene: Scene, title: str) -> Any | None:
        """All heads over the image; where nothing attends, what matters to the prediction."""
        assert isinstance(scene.given, ImageInput)
        found, matters = _attention_over(scene), scene.view("contribution")
        if found is not None:
            words = f"{title}: where {found.query} looks{_outcome(scene)}"
            return overlays.by_heads(scene.given.image, found, words=words)
        if matters is None or not _over_patches(matters):
            return None
        maps = []
        for each in _over_patches(matters):
            values = torch.tensor(each["values"]).unflatten(0, scene.given.grid)
            maps.append(overlays.Overlay(each["name"], values, signed=True, faint=each["faint"]))
        words = f"{title}: what supports {matters['answer']}{_outcome(scene)}"
        return overlays.draw_lines([overlays.Line(words, scene.given.image, maps)])


def _attention_over(scene: Scene) -> AttentionMaps | None:
    """Where the model looks, worked out once for the page and for stills."""
    assert isinstance(scene.given, ImageInput)
    given = scene.given
    return scene.once("attention over the image", lambda: attention_maps(scene.model, scene.seen, given))


def _outcome(scene: Scene) -> str:
    """What an image was predicted as, and which image it is, on a line of its own."""
    name, classes = scene.given.name or "", scene.view("classes")
    if classes is None:
        return f"   {name}".rstrip()
    return f"\n{overlays.prediction_title(classes['likely'], name)}".rstrip()


def _image(given: ImageInput, found: AttentionMaps | None, matters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The data of the view.

    found    where the model looks, if it attends
    matters  the view of contributions, which can be laid over the image, too
    """
    rows, columns = given.grid
    layers = [] if found is None else found.layers
    return {
        "view": "image",
        "picture": as_png(given.image),
        "grid": {"rows": rows, "columns": columns},
        "piece": given.piece,
        "query": None if found is None else found.query,
        "layers": [
            {
                "layer": each.entry.layer,
                "name": each.entry.name,
                "heads": list(each.entry.heads),
                "maps": floats(each.maps),
            }
            for each in layers
        ],
        "rollout": None if found is None or found.rollout is None else floats(found.rollout),
        "matters": [] if matters is None else _over_patches(matters),
    }


def _over_patches(matters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Contributions of patches, what was really tried first. What each receives is shown by the heads
    themselves."""
    shown = [column for column in reversed(matters["columns"]) if column["name"] != "attention received"]
    return [{name: column[name] for name in ("name", "sentence", "values", "faint")} for column in shown]
