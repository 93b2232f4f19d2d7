"""Rate and distortion: how many nats the code costs, how many are lost, and which dimensions are used."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from regard.look import encode_arrays
from regard.look.model_input import ModelInput
from regard.look.view import View
from regard.recipes.autoencoder.views.held_out import Codes
from regard.recipes.autoencoder.views.latent import LATENT_FILES
from regard.runs.run import Run

if TYPE_CHECKING:
    from regard.look.scene import Scene

SHOWN = 64  # dimensions, those that say most


class RateView(View):
    """What the code costs, what it loses, and the part that each dimension has in it."""

    name, order, stands_alone = "rate", 8, True
    files = LATENT_FILES

    def __init__(self, codes: Codes) -> None:
        self.codes = codes

    def applies(self, given: ModelInput) -> bool:
        return "x" in given.inputs

    def build(self, scene: Scene) -> dict[str, Any] | None:
        codes = self.codes
        held = codes.held_out
        if held is None:
            return None
        distortion = float(held.distortion.double().mean())
        rate = None if held.kl is None else float(held.kl.double().sum(1).mean())
        return {
            "view": self.name,
            "variational": codes.variational,
            "likelihood": codes.model.config.likelihood,
            "split": held.split,
            "of": len(held.rows),
            "numbers": math.prod(codes.processor.shape),
            "distortion": encode_arrays.round_digits(distortion, 6),
            "rate": None if rate is None else encode_arrays.round_digits(rate, 6),
            "beta": getattr(codes.model.config, "beta", None),
            "latent": codes.latent,
            "active": int(codes.active.sum()),
            "dimensions": [
                {
                    "number": i,
                    "kl": None if codes.kl is None else encode_arrays.round_digits(float(codes.kl[i])),
                    "variance": encode_arrays.round_digits(float(codes.variance[i])),
                    "active": bool(codes.active[i]),
                }
                for i in codes.order[:SHOWN]
            ],
            "steps": [] if scene.run is None else by_step(scene.run),
        }


def by_step(run: Run) -> list[list[Any]]:
    """Rate and distortion at each validation: step, KL, −log p(x|z); of a model without a KL there are none."""
    found = []
    for event in run.metrics():
        kl, elbo = _number(event.get("KL")), _number(event.get("elbo"))
        if event.get("event") == "test" or kl is None or elbo is None:
            continue
        found.append([event["step"], encode_arrays.round_digits(kl, 6), encode_arrays.round_digits(-elbo - kl, 6)])
    return found


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
