"""Pictures at the end of a training: samples, reconstructions below what was given, and the codes as a map."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard import files
from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.look import plot
from regard.recipes.autoencoder.codes import encode_rows, read_prior, write_prior
from regard.recipes.autoencoder.dataset import Inputs
from regard.recipes.autoencoder.job import AutoencoderJob
from regard.recipes.autoencoder.predict import sheet_of_pairs
from regard.recipes.autoencoder.task import SEED, Reconstruct, to_numbers
from regard.recipes.autoencoder.write_inputs import png, write_made
from regard.recipes.job import Job
from regard.runs.run import Run

SAMPLES = 64
PAIRS = 32  # reconstructions
CODES = 2_000  # points of the map
LABELS = 20  # that have a colour each


@torch.no_grad()
def write_pictures(run: Run, job: Job, model: nn.Module) -> None:
    """samples.png and reconstructions.png of images, latent.png of all; codes.json of a model without a prior."""
    assert isinstance(job, AutoencoderJob) and isinstance(job.task, Reconstruct)
    whole: Any = model
    inputs, binarise = job.inputs, job.task.binarise
    write_prior(run, whole, inputs, binarise)
    if inputs.form == "images":
        write_made(whole.decode_mean(draw_prior(run, whole, SAMPLES)), inputs.info, run.path / "samples.png")
        _write_pairs(run, whole, inputs, binarise)
    rows = _held_out(inputs)
    rows = rows[:: max(1, len(rows) // CODES)]
    codes = encode_rows(whole, inputs, rows, binarise)
    labels = [inputs.labels[i] for i in inputs.classes[rows]] if inputs.labels else None
    plot.save(draw_map(codes, labels, run.path.name), run.path / "latent.png")


def draw_prior(run: Run, model: Any, count: int, seed: int = 0) -> Tensor:
    """Codes of new samples: from the prior, or as codes of training inputs are.   count latent"""
    noise = torch.randn(count, model.config.latent, generator=torch.Generator().manual_seed(seed))
    if model.variational:
        return noise
    mean, root = read_prior(run)
    return mean + noise @ root.T


def _held_out(inputs: Inputs) -> Any:
    """Inputs that were not learned from, if there are any."""
    for split in (TEST, VALIDATION, TRAIN):
        rows = inputs.rows(split)
        if len(rows):
            return rows
    return np.zeros(0, dtype=np.int64)


def _write_pairs(run: Run, model: Any, inputs: Inputs, binarise: Any) -> None:
    """Of a denoising model, the noisy input is shown, and what it makes of it."""
    rows = _held_out(inputs)
    rows = rows[:: max(1, len(rows) // PAIRS)][:PAIRS]
    draw = torch.Generator().manual_seed(SEED)
    given = model.corrupt(to_numbers(inputs.take(rows)["x"], binarise, draw), draw)
    pairs = sheet_of_pairs(given, model.reconstruct(given))
    files.write_bytes(run.path / "reconstructions.png", png(pairs))


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
