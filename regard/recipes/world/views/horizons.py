"""How far predictions drift: the error k steps ahead, beside two rivals that learn nothing or only a line."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.look.encode_arrays import round_digits
from regard.look.model_input import ModelInput
from regard.look.view import View, web_files
from regard.models.world_model import WorldModel
from regard.recipes.world.evaluation import RIVALS, STARTS, horizon_errors
from regard.recipes.world.reader import EpisodeInput

if TYPE_CHECKING:
    from regard.look.scene import Scene


class HorizonsView(View):
    """The error by horizon."""

    name, order, stands_alone = "horizons", 14, True
    files = web_files(Path(__file__).parents[1], "39-horizons.js", "world.css")

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, EpisodeInput)

    def build(self, scene: Scene) -> dict[str, Any] | None:
        given, model = scene.given, scene.model
        assert isinstance(given, EpisodeInput) and isinstance(model, WorldModel)
        rivals = []
        for rival, name in RIVALS.items():
            measure = partial(horizon_errors, model, given.episodes, rival=rival)
            errors = given.once(scene, f"errors of {rival}", measure)
            rivals.append({"name": name, "points": [[k, round_digits(error)] for k, error in errors.items()]})
        if not rivals[0]["points"]:
            return None
        return {
            "view": self.name,
            "rivals": rivals,
            "episodes": len(given.episodes.starts),
            "moments": STARTS,
            "origin": given.origin,
        }
