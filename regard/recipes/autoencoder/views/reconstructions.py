"""Inputs beside their reconstructions, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from regard.look import encode_arrays
from regard.look.model_input import ModelInput
from regard.look.view import View
from regard.recipes.autoencoder.processor import name_input
from regard.recipes.autoencoder.views.exhibit import count_that_fits, describe_inputs, exhibit
from regard.recipes.autoencoder.views.held_out import Codes, HeldOut
from regard.recipes.autoencoder.views.latent import LATENT_FILES

if TYPE_CHECKING:
    from regard.look.scene import Scene

EACH = 24  # that are shown of the worst, of those in the middle, and of the best


class ReconstructionsView(View):
    """What the code keeps of an input, and what it loses."""

    name, order, stands_alone = "reconstructions", 6, True
    files = LATENT_FILES

    def __init__(self, codes: Codes) -> None:
        self.codes = codes

    def applies(self, given: ModelInput) -> bool:
        return "x" in given.inputs

    def build(self, scene: Scene) -> dict[str, Any] | None:
        held, dataset, inputs = self.codes.held_out, self.codes.dataset, self.codes.processor
        if held is None or dataset is None:
            return None
        groups = choose_places(held.worst_first, min(EACH, max(1, count_that_fits(inputs) // 3)))
        chosen = [place for places in groups.values() for place in places]
        return {
            "view": self.name,
            "inputs": describe_inputs(inputs, self.codes.reach),
            "split": held.split,
            "of": len(held.rows),
            "rmse": encode_arrays.round_digits(float(held.error.double().mean().sqrt())),
            "groups": {name: len(places) for name, places in groups.items()},
            "items": [
                {
                    "name": name_input(dataset.examples, int(held.rows[place])),
                    "label": self.codes.labels[int(held.classes[place])] if self.codes.labels else None,
                    "error": encode_arrays.round_digits(float(held.error[place].sqrt())),
                }
                for place in chosen
            ],
            "original": exhibit(held.x[chosen], inputs.form),
            "given": None if held.given is None else exhibit(held.given[chosen], inputs.form),
            "back": exhibit(held.back[chosen], inputs.form),
            "columns": _by_column(held, self.codes) if inputs.columns else None,
        }


def choose_places(worst_first: Tensor, each: int) -> dict[str, list[int]]:
    """Places of the largest errors, of those in the middle and of the smallest; none is in two of them."""
    order: list[int] = worst_first.tolist()
    found = {"worst": order[:each]}
    rest = order[each:]
    if not rest:
        return found
    best = rest[-each:][::-1]
    middle = rest[: -len(best)]
    start = max(0, (len(middle) - each) // 2)
    return found | {"typical": middle[start : start + each], "best": best}


def _by_column(held: HeldOut, codes: Codes) -> list[dict[str, Any]]:
    """The error in each column of a table, in its own units and as a part of its deviation."""
    errors = (held.back - held.x).double().square().mean(0).sqrt()
    deviation = held.x.double().std(0, unbiased=False)
    return [
        {
            "name": name,
            "rmse": encode_arrays.round_digits(float(errors[i]) * codes.processor.scale[i]),
            # of what is left when every row is taken for the mean
            "share": encode_arrays.round_digits(float(errors[i] / deviation[i])) if deviation[i] > 0 else None,
        }
        for i, name in enumerate(codes.processor.columns)
    ]
