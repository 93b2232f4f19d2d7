"""The return of each real episode against the real steps used so far, and that of the finished policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.look import plot
from regard.look.encode_arrays import round_digits
from regard.look.model_input import ModelInput
from regard.look.view import View, web_files
from regard.recipes.world.reader import EpisodeInput
from regard.recipes.world.replay_buffer import ReplayBuffer
from regard.recipes.world.spaces import Spaces
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
        return None if scene.run is None else returns(scene.run)


def returns(run: Run) -> dict[str, Any] | None:
    """The view, or None for a run that acted in no environment."""
    spaces = run.section(Spaces, "processor")
    if spaces.environment is None:
        return None
    buffer = ReplayBuffer(spaces, 0.0)
    buffer.read_from(run)
    if not buffer.rounds:
        return None
    rounds = _rounds(buffer)
    return {"view": "returns", "rounds": rounds, "steps": buffer.real_steps, "end": _end(run)}


def _rounds(buffer: ReplayBuffer) -> list[dict[str, Any]]:
    """The name of each round, its episodes as points (real steps up to their end, return), and their mean return."""
    found, before = [], 0
    for number, episodes in enumerate(buffer.rounds):
        ends = before + np.cumsum(episodes.lengths)
        some = np.unique(np.linspace(0, len(ends) - 1, min(MOST, len(ends))).astype(int))
        points = [[int(ends[k]), round_digits(float(episodes.returns[k]))] for k in some]
        name = "at random" if number == 0 else f"round {number + 1}"
        found.append({"name": name, "points": points, "mean": round_digits(float(episodes.returns.mean()))})
        before += len(episodes)
    return found


def _end(run: Run) -> dict[str, Any] | None:
    """The mean return of fresh episodes of the finished policy; None: it was not measured."""
    found = [event for event in run.metrics() if event["event"] == "test" and "return" in event]
    if not found:
        return None
    last = found[-1]
    return {"mean": round_digits(float(last["return"])), "count": last.get("count")}


def draw_returns(run: Run, buffer: ReplayBuffer) -> None:
    """Write returns.png: the same for a run that ends, each round in its own colour."""
    if buffer.recorded or not buffer.rounds:
        return
    figure, axis = plot.plotter().subplots(figsize=(7, 4), layout="constrained")
    for each in _rounds(buffer):
        axis.plot(*zip(*each["points"], strict=True), "o", markersize=4, label=each["name"])
    axis.set_title(f"{run.path.name}: episodes that were learned from", loc="left")
    axis.set(xlabel="real steps", ylabel="return of an episode")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    plot.save(figure, run.path / "returns.png")
