"""imagined.png of a run: what the model imagines from the start of an episode, beside what came."""

from __future__ import annotations

import numpy as np

from regard.data.array import Array
from regard.look import plot
from regard.models.world_model import WorldModel
from regard.recipes.world.draw_dream import to_picture
from regard.recipes.world.dream import dream_along
from regard.recipes.world.store import EpisodeStore
from regard.runs.run import Run

FILE = "imagined.png"
STEPS = 200  # of the episode, at most
SHOWN = 8  # images of a film
CURVES = 6  # numbers of an observation


def draw_imagined(run: Run, model: WorldModel, store: EpisodeStore) -> None:
    """Draw the last episode that was held out: each number of its observations, real and imagined."""
    if not store.rounds:
        return
    rows = store.held_rows if len(store.held_rows) else store.train_rows
    episode = store.all.episode(int(store.all.of[rows[-1]]))
    dream = dream_along(model, episode.take(np.arange(min(STEPS, len(episode)))))
    if dream.images is not None and dream.dreamed_images is not None:
        _draw_film(run, dream.images, dream.dreamed_images)
        return
    count = min(CURVES, dream.real.shape[1])
    pyplot = plot.plotter()
    figure, axes = pyplot.subplots(count, 1, figsize=(7, 1.2 + 1.2 * count), layout="constrained", squeeze=False)
    numbers = store.spaces.observed or tuple(range(count))
    for number, axis in enumerate(axes[:, 0]):
        axis.plot(dream.real[:, number], color=plot.SMOOTHED, linewidth=2.4, label="real")
        axis.plot(dream.dreamed[:, number], color=plot.VALIDATION, linewidth=1.2, label="imagined")
        axis.set(ylabel=f"number {numbers[number]}")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
    axes[0, 0].set_title(f"{run.path.name}: imagined from the first observation, with the same actions", loc="left")
    axes[0, 0].legend(frameon=False, loc="upper left")
    axes[-1, 0].set(xlabel="step")
    plot.save(figure, run.path / FILE)


def _draw_film(run: Run, real: Array, imagined: Array) -> None:
    """Images at some steps: what came above what was imagined.   t h w c"""
    pyplot = plot.plotter()
    steps = np.unique(np.linspace(0, len(real) - 1, min(SHOWN, len(real))).round().astype(int))
    size = (1.1 * len(steps) + 0.6, 3.0)
    figure, axes = pyplot.subplots(2, len(steps), figsize=size, layout="constrained", squeeze=False)
    for row, (name, images) in enumerate((("real", real), ("imagined", imagined))):
        for axis, step in zip(axes[row], steps, strict=True):
            axis.imshow(np.asarray(to_picture(images[step])))
            axis.set(xticks=[], yticks=[])
            if row == 0:
                axis.set_title(f"step {step}", fontsize=8)
        axes[row, 0].set_ylabel(name)
    words = f"{run.path.name}: imagined from the first image, with the same actions"
    figure.suptitle(words, fontsize=9, x=0.01, ha="left")
    plot.save(figure, run.path / FILE)
