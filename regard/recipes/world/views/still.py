"""An episode as a still: predicted against real curves with their uncertainty, and the error by horizon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from regard.look import plot
from regard.look.plot import COLOURS
from regard.models.world_model import WorldModel
from regard.recipes.world.model_input import EpisodeInput
from regard.recipes.world.views.futures import Futures
from regard.recipes.world.views.known_worlds import number_names

REAL, IMAGINED = "#2171b5", "#d55e00"  # told apart without colour vision, too
RIVALS = (IMAGINED, "#009e73", "#777777")
ACROSS = 3


def draw_episode(
    model: WorldModel,
    given: EpisodeInput,
    shown: Sequence[int],
    start: int,
    futures: Futures,
    others: Mapping[str, Mapping[str, Any] | None],
    title: str,
) -> Any:
    """The figure: a panel for each number of an observation, then the value, then what other views say."""
    pyplot = plot.plotter()
    horizons, moments = others["horizons"], others["moments"]
    layers = moments["layers"] if moments is not None else []
    count = len(shown) + given.learned + (horizons is not None) + bool(layers)
    down = -(-count // ACROSS)
    size = (3.1 * ACROSS, 0.6 + 2.1 * down)
    figure, axes = pyplot.subplots(down, ACROSS, figsize=size, squeeze=False, layout="constrained")
    panels = iter(axes.flat)
    names = number_names(given.environment, given.spaces)
    for number in shown:
        _draw_number(next(panels), model, given, start, futures, number, names[number])
    if given.learned:
        _draw_values(next(panels), start, futures)
    if horizons is not None:
        _draw_horizons(next(panels), horizons)
    if layers:
        _draw_distances(next(panels), layers)
    for axis in axes.flat:
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in panels:
        axis.axis("off")
    words = f"{title}: imagined from step {start + 1} on"
    figure.suptitle(words.lstrip(": "), fontsize=9, x=0.01, ha="left")
    return figure


def _draw_number(
    axis: Any, model: WorldModel, given: EpisodeInput, start: int, futures: Futures, number: int, name: str
) -> None:
    mean, scale = float(model.mean[number]), float(model.scale[number])
    real = np.append(given.episode.observations[:, number], given.episode.following[-1, number])
    imagined, low, high = (
        each[0, :, number].cpu().numpy() * scale + mean for each in (futures.mean, futures.low, futures.high)
    )
    after = np.arange(start, start + len(imagined)) + 1
    axis.plot(np.arange(len(real)) + 1, real, color=REAL, linewidth=1.2, label="real")
    axis.fill_between(after, low, high, color=IMAGINED, alpha=0.25, linewidth=0, label="spread of the heads")
    axis.plot(after, imagined, color=IMAGINED, linewidth=1.2, label="imagined")
    axis.axvline(start + 1, color="#999999", linewidth=0.6, linestyle=":")
    axis.set_title(name, fontsize=8, loc="left")
    if axis.get_subplotspec().num1 == 0:
        axis.legend(frameon=False, fontsize=6)


def _draw_values(axis: Any, start: int, futures: Futures) -> None:
    values = futures.values[0].cpu().numpy()
    axis.plot(np.arange(start, start + len(values)) + 1, values, color=IMAGINED, linewidth=1.2)
    axis.set_title("value along the imagined episode", fontsize=8, loc="left")


def _draw_horizons(axis: Any, horizons: Mapping[str, Any]) -> None:
    for colour, rival in zip(RIVALS, horizons["rivals"], strict=True):
        steps = [k for k, error in rival["points"] if error]
        errors = [error for _, error in rival["points"] if error]
        axis.plot(steps, errors, "o-", color=colour, markersize=3, linewidth=1, label=rival["name"])
    axis.set_yscale("log")
    axis.set_title("error after k steps", fontsize=8, loc="left")
    axis.legend(frameon=False, fontsize=6)


def _draw_distances(axis: Any, layers: Sequence[Mapping[str, Any]]) -> None:
    """A line for each head; heads of one layer have one colour."""
    for colour, layer in zip(cycle(COLOURS), layers, strict=False):
        for head, means in enumerate(layer["by_distance"]):
            label = f"layer {layer['layer'] + 1}" if head == 0 else None
            axis.plot(means, ".-", color=colour, markersize=3, linewidth=0.8, label=label)
    axis.set_title("mean attention by steps back", fontsize=8, loc="left")
    axis.legend(frameon=False, fontsize=6)
