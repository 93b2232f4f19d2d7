"""New inputs: codes drawn from the prior, decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.look.model_input import ModelInput
from regard.look.view import View
from regard.recipes.autoencoder.views.exhibit import count_that_fits, describe_inputs, exhibit
from regard.recipes.autoencoder.views.held_out import Codes
from regard.recipes.autoencoder.views.latent import LATENT_FILES

if TYPE_CHECKING:
    from regard.look.scene import Scene

COUNT = 64
PRIOR = "Each is decoded from a code that was drawn from the prior, a standard normal distribution. None is an input."
FITTED = (
    "The model has no prior. Each is decoded from a code that was drawn from a normal distribution with the mean "
    "and the covariance of the codes of held-out inputs: where these are not normal, so are not the samples."
)


class PriorView(View):
    """Samples of the prior."""

    name, order, stands_alone = "prior", 7, True
    files = LATENT_FILES

    def __init__(self, codes: Codes) -> None:
        self.codes = codes

    def applies(self, given: ModelInput) -> bool:
        return "x" in given.inputs

    def build(self, scene: Scene) -> dict[str, Any] | None:
        drawn = draw_codes(self.codes, min(COUNT, count_that_fits(self.codes.info)))
        if drawn is None:
            return None
        return {
            "view": self.name,
            "inputs": describe_inputs(self.codes.info, self.codes.reach),
            "sentence": PRIOR if self.codes.variational else FITTED,
            "shown": exhibit(self.codes.decode(drawn), self.codes.info),
        }


def draw_codes(codes: Codes, count: int) -> Tensor | None:
    """The same codes every time; None: there is nothing to draw from.   count latent"""
    noise = torch.randn(count, codes.latent, generator=torch.Generator().manual_seed(0))
    if codes.variational:
        return noise
    held = codes.held_out
    if held is None or len(held.codes) < 2 or not bool(held.codes.isfinite().all()):
        return None
    centred = held.codes - held.codes.mean(0)
    # with ε for each direction of the codes, mean + Σ ε s v / √(n − 1) has their covariance
    _, sizes, directions = torch.linalg.svd(centred.double(), full_matrices=False)
    root = (sizes[:, None] * directions / (len(centred) - 1) ** 0.5).float()
    return held.codes.mean(0) + noise[:, : len(root)] @ root
