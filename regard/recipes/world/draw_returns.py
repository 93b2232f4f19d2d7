"""returns.png of a run: the return of each real episode against the real steps used so far."""

from __future__ import annotations

import numpy as np

from regard.look import plot
from regard.recipes.world.store import EpisodeStore
from regard.runs.run import Run

FILE = "returns.png"


def draw_returns(run: Run, store: EpisodeStore) -> None:
    """Draw the returns of the rounds, each round in its own colour."""
    if store.recorded or not store.rounds:
        return
    pyplot = plot.plotter()
    figure, axis = pyplot.subplots(figsize=(7, 4), layout="constrained")
    before = 0
    for number, episodes in enumerate(store.rounds):
        ends = before + np.cumsum(episodes.lengths)
        label = "at random" if number == 0 else f"round {number + 1}"
        axis.plot(ends, episodes.returns, "o", markersize=4, label=label)
        before += len(episodes)
    axis.set_title(f"{run.path.name}: episodes that were learned from", loc="left")
    axis.set(xlabel="real steps", ylabel="return of an episode")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    plot.save(figure, run.path / FILE)
