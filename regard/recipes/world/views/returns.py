"""The return of each real episode against the real steps used so far, and that of the finished policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.look.encode_arrays import round_digits
from regard.look.model_input import ModelInput
from regard.look.view import View, web_files
from regard.recipes.world.model_input import EpisodeInput
from regard.recipes.world.settings import WorldDataConfig, WorldInfo
from regard.recipes.world.store import EpisodeStore
from regard.runs.run import Run

if TYPE_CHECKING:
    from regard.look.scene import Scene

MOST = 1000  # episodes of a round that are drawn


class ReturnsView(View):
    """How the returns grew."""

    name, order = "returns", 15
    files = web_files(Path(__file__).parents[1], "39-returns.js")

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, EpisodeInput)

    def build(self, scene: Scene) -> dict[str, Any] | None:
        if scene.run is None:
            return None
        return returns(scene.run)


def returns(run: Run) -> dict[str, Any] | None:
    """The view, or None for a run that acted in no environment."""
    info, data = run.section(WorldInfo, "corpus"), run.section(WorldDataConfig, "data")
    if info.environment is None:
        return None
    store = EpisodeStore(info.spaces, data.validation)
    store.read_from(run)
    if not store.rounds:
        return None
    rounds, before = [], 0
    for number, episodes in enumerate(store.rounds):
        ends = before + np.cumsum(episodes.lengths)
        some = np.unique(np.linspace(0, len(ends) - 1, min(MOST, len(ends))).astype(int))
        points = [[int(ends[k]), round_digits(float(episodes.returns[k]))] for k in some]
        name = "at random" if number == 0 else f"round {number + 1}"
        rounds.append({"name": name, "points": points, "mean": round_digits(float(episodes.returns.mean()))})
        before += len(episodes)
    return {"view": "returns", "rounds": rounds, "steps": before, "end": _end(run)}


def _end(run: Run) -> dict[str, Any] | None:
    """The mean return of fresh episodes of the finished policy; None: it was not measured."""
    found = [event for event in run.metrics() if event["event"] == "test" and "return" in event]
    if not found:
        return None
    last = found[-1]
    return {"mean": round_digits(float(last["return"])), "count": last.get("count")}
