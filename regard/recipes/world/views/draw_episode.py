"""Episodes on paper, real and imagined: each number of an observation as curves, or some images one after another; the
still of a page, with what other views say of the episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.look import plot
from regard.look.plot import COLOURS
from regard.models.world_model import WorldModel
from regard.recipes.world.reader import EpisodeInput
from regard.recipes.world.views.futures import Futures
from regard.recipes.world.views.known_worlds import number_names

REAL, IMAGINED = "#2171b5", "#d55e00"  # told apart without colour vision, too
RIVALS = (IMAGINED, "#009e73", "#777777")
ACROSS = 3
CURVES = 6  # numbers of an observation
FILM = 8  # images


def draw_number(
    axis: Any, real: Array, imagined: Array, name: str, *, start: int = 0, band: tuple[Array, Array] | None = None
) -> None:
    """One number of an observation at each step, counted from 1, and imagined from step `start` on, with what its heads
    say alone."""
    after = np.arange(start, start + len(imagined)) + 1
    # wide, so that it can be seen below what agrees with it
    axis.plot(np.arange(len(real)) + 1, real, color=REAL, linewidth=2.4, label="real")
    if band is not None:
        axis.fill_between(after, *band, color=IMAGINED, alpha=0.25, linewidth=0, label="spread of the heads")
    axis.plot(after, imagined, color=IMAGINED, linewidth=1.2, label="imagined")
    axis.set_title(name, fontsize=8, loc="left")


def draw_curves(real: Array, imagined: Array, names: Sequence[str], title: str) -> Any:
    """The figure of an episode that is imagined from its first observation: a panel for each number.   t o, t o"""
    pyplot = plot.plotter()
    count = min(CURVES, len(names))
    size = (7, 0.8 + 1.2 * count)
    figure, axes = pyplot.subplots(count, 1, figsize=size, layout="constrained", squeeze=False, sharex=True)
    for number, axis in enumerate(axes[:, 0]):
        draw_number(axis, real[:, number], imagined[:, number], names[number])
        axis.grid(alpha=0.3)
    axes[0, 0].legend(frameon=False, fontsize=6, loc="upper left")
    axes[-1, 0].set_xlabel("step")
    return _finish(figure, title)


def draw_film(real: Array, imagined: Array, title: str) -> Any:
    """The same of an episode of images: what came above what was imagined, at some steps.   t h w c, in bytes"""
    pyplot = plot.plotter()
    steps = np.unique(np.linspace(0, len(real) - 1, min(FILM, len(real))).round().astype(int))
    size = (1.1 * len(steps) + 0.6, 3.0)
    figure, axes = pyplot.subplots(2, len(steps), figsize=size, layout="constrained", squeeze=False)
    for row, (name, images) in enumerate((("real", real), ("imagined", imagined))):
        for axis, step in zip(axes[row], steps, strict=True):
            axis.imshow(with_colours(images[step]))
            axis.set(xticks=[], yticks=[])
            if row == 0:
                axis.set_title(f"step {step + 1}", fontsize=8)
        axes[row, 0].set_ylabel(name)
    return _finish(figure, title)


def with_colours(images: Array) -> Array:
    """Images of bytes with three colours.   ... c -> ... 3"""
    grey = images.shape[-1] == 1
    return np.repeat(images, 3, -1) if grey else images[..., :3]


def draw_still(
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
    names = number_names(given.spaces)
    real = np.concatenate((given.episode.observations, given.episode.following[-1:]))
    imagined, low, high = (model.restore(each[0]).cpu().numpy() for each in (futures.mean, futures.low, futures.high))
    for number in shown:
        axis, band = next(panels), (low[:, number], high[:, number])
        draw_number(axis, real[:, number], imagined[:, number], names[number], start=start, band=band)
        axis.axvline(start + 1, color="#999999", linewidth=0.6, linestyle=":")
    axes[0, 0].legend(frameon=False, fontsize=6)
    if given.learned:
        axis, values = next(panels), futures.values[0].cpu().numpy()
        axis.plot(np.arange(start, start + len(values)) + 1, values, color=IMAGINED, linewidth=1.2)
        axis.set_title("value along the imagined episode", fontsize=8, loc="left")
    if horizons is not None:
        _draw_horizons(next(panels), horizons)
    if layers:
        _draw_distances(next(panels), layers)
    for axis in panels:
        axis.axis("off")
    return _finish(figure, f"{title}: imagined from step {start + 1} on".lstrip(": "))


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


def _finish(figure: Any, title: str) -> Any:
    for axis in figure.axes:
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    return figure
