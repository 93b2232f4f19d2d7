"""Which past steps a prediction rests on: what each head attends to, and what changes if a step is hidden."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.look.encode_arrays import floats, round_digits
from regard.look.model_input import ModelInput
from regard.look.recording.entry import Entry
from regard.look.view import View, web_files
from regard.models.world_model import WorldModel
from regard.recipes.world.reader import EpisodeInput

if TYPE_CHECKING:
    from regard.look.scene import Scene

BACK = 16  # steps back, at most
TOGETHER = 512  # rows that the model reads at once


class MomentsView(View):
    """Which moment mattered."""

    name, order, stands_alone = "moments", 12, True
    files = web_files(Path(__file__).parents[1], "36-drawings.js", "37-world.js", "38-moments.js", "world.css")

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, EpisodeInput)

    def build(self, scene: Scene) -> dict[str, Any]:
        given, model = scene.given, scene.model
        assert isinstance(given, EpisodeInput) and isinstance(model, WorldModel)
        n = len(given.episode)
        back = min(_reach(model), n - 1)
        steps = given.inputs["steps"]
        hidden = given.once(scene, "hidden", lambda: measure_hidden(model, steps, back))
        return {
            "view": self.name,
            "back": back,
            "hidden": floats(hidden),
            "layers": [_by_distance(entry, back) for entry in scene.seen if entry.proved and entry.shape[2:] == (n, n)],
        }


def _reach(model: WorldModel) -> int:
    """How many steps back anything can matter, as far as it is shown."""
    window = getattr(model.config, "window", None)
    if window is None:
        return BACK
    return min(BACK, model.config.depth * (window - 1))


def _by_distance(entry: Entry, back: int) -> dict[str, Any]:
    """The mean weight of what lies so many steps back, of all steps that have so long a past."""
    weights = entry.weights[0].float().cpu()  # h n n
    means = [weights.diagonal(-lag, 1, 2).mean(-1) for lag in range(back + 1)]
    return {
        "layer": entry.layer,
        "call": entry.call,
        "heads": list(entry.heads),
        "by_distance": round_digits(torch.stack(means, 1)),
    }


@torch.no_grad()
def measure_hidden(model: WorldModel, steps: Tensor, back: int) -> Tensor:
    """How far the predicted next observation moves, in deviations of the data, if the step so many steps back is
    hidden; 0 where there is none.   1 n (o + a) -> n back"""
    n = steps.shape[1]
    found = torch.zeros(n, back)
    if not back:
        return found
    rows = torch.arange(n)[:, None] + torch.arange(-back, 1)  # n back+1: what each step can see
    there = rows >= 0
    scaled = model.scale_steps(steps.to(model.mean))[0]
    context = scaled[rows.clamp(min=0)]
    places = torch.arange(back + 1)

    def predict(real: Tensor, of: Tensor) -> Tensor:
        """b o: the next observation after the last step of each row"""
        parts = []
        for some, seen in zip(of.split(TOGETHER), real.split(TOGETHER), strict=True):
            seen = seen.to(scaled.device)
            x = context[some] * seen[..., None]
            where = places.to(scaled.device).expand(len(some), -1)
            out = model.outlook(x, where=where, real=seen)
            parts.append(out[:, -1].mean(1)[:, :-1].cpu())
        return torch.cat(parts)

    whole = predict(there, torch.arange(n))
    for lag in range(1, back + 1):
        of = torch.arange(lag, n)
        if not len(of):
            break
        real = there[of].clone()
        real[:, back - lag] = False
        found[of, lag - 1] = (predict(real, of) - whole[of]).square().mean(-1).sqrt()
    return found
