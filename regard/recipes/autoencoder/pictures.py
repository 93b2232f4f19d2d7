"""Pictures at the end of a training: samples, reconstructions below what was given, and the codes as a map."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.splits import TRAIN
from regard.look import plot
from regard.recipes.autoencoder.generate import draw_codes, encode_rows, write_codes
from regard.recipes.autoencoder.image_inputs import ImageInputs, write_pairs
from regard.recipes.autoencoder.processor import InputsProcessor, find_held_out, number_labels
from regard.recipes.autoencoder.task import SEED
from regard.recipes.dataset import Dataset
from regard.runs.run import Run

SAMPLES = 64
PAIRS = 32  # reconstructions
CODES = 2_000  # points of the map
PRIOR_CODES = 5_000  # training inputs whose codes a model without a prior samples by
LABELS = 20  # that have a colour each


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
    named = [labels[i] for i in classes[rows]] if labels else None
    plot.save(draw_map(codes, named, run.path.name), run.path / "latent.png")


def _thin(rows: Any, most: int) -> Any:
    """About so many of some rows, evenly taken."""
    return rows[:: max(1, len(rows) // most)]


def _write_pairs(run: Run, processor: ImageInputs, dataset: Dataset, model: Any, rows: Any) -> None:
    """Of a denoising model, the noisy input is shown, and what it makes of it."""
    random = torch.Generator().manual_seed(SEED)
    given = model.corrupt(processor.numbers(dataset.take(rows)["x"], random), random)
    write_pairs(given, model.reconstruct(given), run.path / "reconstructions.png")


def project(codes: Tensor) -> tuple[Tensor, str]:
    """Codes in the plane: as they are, or by their first two principal components.   n d -> n 2"""
    if codes.shape[1] == 1:
        return torch.cat((codes, torch.zeros_like(codes)), 1), "z1"
    if codes.shape[1] == 2:
        return codes, "z1, z2"
    centred = codes.double() - codes.double().mean(0)
    _, _, axes = torch.linalg.svd(centred, full_matrices=False)
    return (centred @ axes[:2].T).float(), f"first two principal components of {codes.shape[1]} dimensions"


def draw_map(codes: Tensor, labels: list[str] | None, name: str) -> Any:
    """The codes of inputs that were held out, coloured by label."""
    places, what = project(codes)
    figure, axes = plot.plotter().subplots(figsize=(6, 6), layout="constrained")
    known = sorted(set(labels or ()))
    if labels is None or len(known) > LABELS:
        axes.scatter(*places.T.numpy(), s=6, alpha=0.6)
    else:
        for i, label in enumerate(known):
            of_it = torch.tensor([each == label for each in labels])
            colour = plot.plotter().get_cmap("tab20")(i % LABELS)
            axes.scatter(*places[of_it].T.numpy(), s=6, alpha=0.7, label=label, color=colour)
        axes.legend(markerscale=2, fontsize="small", loc="best")
    axes.set_title(f"{name}: codes, {what}", fontsize="medium")
    axes.set_aspect("equal", "datalim")
    return figure
