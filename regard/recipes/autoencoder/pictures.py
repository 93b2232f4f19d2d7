"""Pictures at the end of a training: samples, reconstructions below what was given, and the codes as a map."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from regard.data.splits import TRAIN
from regard.look import plot
from regard.recipes.autoencoder.generate import draw_codes, encode_rows, write_codes
from regard.recipes.autoencoder.image_inputs import ImageInputs, write_pairs
from regard.recipes.autoencoder.processor import InputsProcessor, find_held_out, number_labels
from regard.recipes.autoencoder.task import SEED
from regard.recipes.autoencoder.views.plane import find_plane
from regard.recipes.autoencoder.views.still import draw_map
from regard.recipes.dataset import Dataset
from regard.runs.run import Run

SAMPLES = 64
PAIRS = 32  # reconstructions
CODES = 2_000  # points of the map
PRIOR_CODES = 5_000  # training inputs whose codes a model without a prior samples by


@torch.no_grad()
def write_pictures(run: Run, processor: InputsProcessor[Any], dataset: Dataset, model: Any) -> None:
    """samples.png and reconstructions.png of images, latent.png of all; codes.json of a model without a prior."""
    learned = np.flatnonzero(dataset.splits == TRAIN)
    write_codes(run, encode_rows(model, processor, dataset, _thin(learned, PRIOR_CODES)))
    _, rows = find_held_out(dataset)
    if isinstance(processor, ImageInputs):
        processor.write(model.decode_mean(draw_codes(run, model, SAMPLES)), run.path / "samples.png")
        _write_pairs(run, processor, dataset, model, _thin(rows, PAIRS)[:PAIRS])
    rows = _thin(rows, CODES)
    codes = encode_rows(model, processor, dataset, rows)
    labels, classes = number_labels(dataset.examples)
    figure, axes = plot.plotter().subplots(figsize=(6, 6), layout="constrained")
    draw_map(axes, find_plane(codes), codes, labels, classes[rows])
    axes.set_title(f"{run.path.name}: codes of {len(rows):,} inputs", fontsize="medium")
    plot.save(figure, run.path / "latent.png")


def _thin(rows: Any, most: int) -> Any:
    """About so many of some rows, evenly taken."""
    return rows[:: max(1, len(rows) // most)]


def _write_pairs(run: Run, processor: ImageInputs, dataset: Dataset, model: Any, rows: Any) -> None:
    """Of a denoising model, the noisy input is shown, and what it makes of it."""
    random = torch.Generator().manual_seed(SEED)
    given = model.corrupt(processor.numbers(dataset.take(rows)["x"], random), random)
    write_pairs(given, model.reconstruct(given), run.path / "reconstructions.png")
