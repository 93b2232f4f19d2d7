"""Filters of the first layer: what a model of images looks for first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from regard.look.filters import filters as filters_of
from regard.look.pack import levels
from regard.look.view import View

if TYPE_CHECKING:
    from regard.look.scene import Scene


MOST = 96


class FiltersView(View):
    """Filters of the first convolution, of any model that has one."""

    name, order, stands_alone = "filters", 54, True

    def build(self, scene: Scene) -> dict[str, Any] | None:
        return _filters(scene.model)


def _filters(model: nn.Module) -> dict[str, Any] | None:
    """The view, or None for a model whose first convolution is not one of images."""
    try:
        name, weight = filters_of(model)  # o i k k
    except ValueError:
        return None
    if weight.dim() != 4 or min(weight.shape[2:]) < 2:
        return None
    poses = getattr(model.get_submodule(name), "poses", 1)
    if weight.shape[1] == 3:
        shown = weight[:MOST, :3]
    else:
        shown = weight[:MOST, :1]
    layer = {"name": name, "of": len(weight), "poses": poses, "filters": levels(shown.permute(0, 2, 3, 1))}
    return {"view": "filters", "layers": [layer]}
