"""New inputs: codes drawn from the prior, decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.errors import RegardError
from regard.look.model_input import ModelInput
from regard.look.view import View
from regard.recipes.autoencoder.generate import draw_codes
from regard.recipes.autoencoder.pictures import SAMPLES
from regard.recipes.autoencoder.views.exhibit import count_that_fits, describe_inputs, exhibit
from regard.recipes.autoencoder.views.held_out import Codes
from regard.recipes.autoencoder.views.latent import LATENT_FILES

if TYPE_CHECKING:
    from regard.look.scene import Scene

PRIOR = "Each is decoded from a code that was drawn from the prior, a standard normal distribution. None is an input."
FITTED = (
    "The model has no prior. Each is decoded from a code that was drawn from a normal distribution with the mean "
    "and the covariance of the codes of training inputs; codes between those of inputs may mean nothing."
)


class PriorView(View):
    """Samples of the prior, the same as in samples.png."""

    name, order, stands_alone = "prior", 7, True
    files = LATENT_FILES

    def __init__(self, codes: Codes) -> None:
        self.codes = codes

    def applies(self, given: ModelInput) -> bool:
        return "x" in given.inputs

    def build(self, scene: Scene) -> dict[str, Any] | None:
        if scene.run is None:
            return None
        try:
            drawn = draw_codes(scene.run, self.codes.model, SAMPLES)
        except RegardError:  # without a prior, and nobody wrote down how the codes of training inputs are
            return None
        drawn = drawn[: count_that_fits(self.codes.processor)]
        return {
            "view": self.name,
            "inputs": describe_inputs(self.codes.processor, self.codes.reach),
            "variational": self.codes.variational,
            "sentence": PRIOR if self.codes.variational else FITTED,
            "shown": exhibit(self.codes.decode(drawn), self.codes.processor.form),
        }
