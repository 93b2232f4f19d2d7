"""Pictures that a model brings with it as tensors: of ours it is known how it cuts them, so they are shown as pictures."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.look.model_input import Given
from regard.look.reader import Fixed
from regard.recipes.images.open_image import cells
from regard.symmetry.roles import Roles

SHOWN = "The picture is the tensor that came with the model, black at its smallest number and white at its largest."
DRAWN = "The picture is made of random numbers: the run of a module keeps none of those that it learned from."


class OwnTensors(Fixed):
    """The inputs that came with a model of pictures; nothing else can be given."""

    def __init__(self, model: nn.Module, inputs: dict[str, Any], roles: Roles, note: str) -> None:
        super().__init__(inputs)
        self.note = note
        self.reads: Any = getattr(model.config, "pool", None)
        self.pixels, self.patch = roles.grid or "", roles.patch

    def read(self, given: str | bytes | None = None, target: str | None = None) -> Given:
        inputs = super().read(given, target).inputs
        x: Tensor = inputs[self.pixels]
        height, width = x.shape[-2:]
        return Given(
            inputs=inputs,
            kind="image",
            pixels=self.pixels,
            picture=visible(x[0]),
            grid=cells(height, width, self.patch),
            patch=self.patch,
            piece="part" if self.patch is None else "patch",
            reads=self.reads,
            answers="classes",
            called="class {}".format,
            notes=(self.note,),
        )


def reader_of_pictures(
    model: nn.Module, inputs: dict[str, Any], roles: Roles | None, note: str = SHOWN
) -> OwnTensors | None:
    """What shows the picture of a model of ours that tells classes apart; None for any other."""
    known = roles or getattr(model, "roles", None)
    if (
        not isinstance(known, Roles)
        or known.grid is None
        or not hasattr(getattr(model, "config", None), "classes")
    ):
        return None
    x = inputs.get(known.grid)
    if not isinstance(x, Tensor) or x.dim() != 4 or not x.is_floating_point():
        return None
    return OwnTensors(model, inputs, known, note)


def visible(x: Tensor) -> Tensor:
    """Numbers of any size as light.   c h w -> 3 h w in 0 … 1; of other than three colours, their mean"""
    x = x.detach().float().cpu()
    x = x if len(x) == 3 else x.mean(0, keepdim=True)
    low, high = x.min(), x.max()
    return ((x - low) / (high - low).clamp_min(1e-12)).expand(3, -1, -1)
