"""Filters of the first layer: what a model of images looks for first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from regard.errors import RegardError
from regard.look.encode_arrays import levels
from regard.look.view import View
from regard.nn.embed import PatchEmbedding
from regard.nn.group_conv import GroupConvolution

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
        name, weight = filters(model)  # o i k k
    except ValueError:
        return None
    if weight.dim() != 4 or min(weight.shape[2:]) < 2:
        return None
    poses = getattr(model.get_submodule(name), "poses", 1)
    shown = weight[:MOST, :3] if weight.shape[1] == 3 else weight[:MOST, :1]
    layer = {"name": name, "of": len(weight), "poses": poses, "filters": levels(shown.permute(0, 2, 3, 1))}
    return {"view": "filters", "layers": [layer]}


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
            return name, module.linear.weight.detach().unflatten(1, (module.colours, module.patch, module.patch))
    raise RegardError(f"{type(model).__name__} has no convolution; filters are those of nn.Conv1d, Conv2d and Conv3d")
