"""The base of image classifiers: one head over the features of an image.   b c h w -> b classes"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.models.registered_model import RegisteredModel
from regard.models.sample_inputs import sample_images
from regard.symmetry.groups import Group, Trivial
from regard.symmetry.roles import Roles


def make_head(width: int, classes: int) -> nn.Module:
    """Logits of classes from features; without classes, the features themselves.   b d -> b classes"""
    return nn.Identity() if classes == 0 else nn.Linear(width, classes)


class ImageModel(RegisteredModel):
    """The base of image classifiers. A subclass defines `features` and `head`, or its own `forward`."""

    config: Any  # with the fields classes, colours and size
    head: nn.Module

    def sample_inputs(self, seed: int = 0, tokens: int | None = None, rows: int | None = None) -> dict[str, Any]:
        return sample_images(self.config, seed)

    @property
    def symmetry(self) -> Group:
        """The changes of an image of the config's size that do not change the prediction."""
        return Trivial()

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        return Roles(grid="x")

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))

    def features(self, x: Tensor) -> Tensor:
        """The input of the head.   b c h w -> b d"""
        raise NotImplementedError(f"{type(self).__name__} must define features()")
