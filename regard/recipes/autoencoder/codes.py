"""The codes of training inputs in figures: what samples of a model without a prior are drawn from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.data.splits import TRAIN
from regard.errors import RegardError
from regard.recipes.autoencoder.dataset import Inputs
from regard.recipes.autoencoder.task import SEED, to_numbers
from regard.runs.run import Run

FILE = "codes.json"
MOST = 5_000  # training inputs whose codes are looked at
AT_ONCE = 256
SMALLEST = 1e-6  # variance that is added, so that codes of less than all dimensions have a root


@torch.no_grad()
def encode_rows(model: Any, inputs: Inputs, rows: Any, binarise: Any) -> Tensor:
    """The means of the codes of some inputs.   n latent"""
    draw = torch.Generator().manual_seed(SEED)
    found = [model.encode(to_numbers(batch["x"], binarise, draw))[0] for batch in inputs.batches(rows, AT_ONCE)]
    return torch.cat(found)


def write_prior(run: Run, model: Any, inputs: Inputs, binarise: Any) -> None:
    """codes.json: the mean and the covariance of codes of training inputs."""
    rows = inputs.rows(TRAIN)
    codes = encode_rows(model, inputs, rows[:: max(1, len(rows) // MOST)], binarise).double()
    if not bool(codes.isfinite().all()):
        return
    covariance = torch.cov(codes.T).reshape(codes.shape[1], codes.shape[1])
    run.write(FILE, {"mean": codes.mean(0).tolist(), "covariance": covariance.tolist()})


def read_prior(run: Run) -> tuple[Tensor, Tensor]:
    """Mean and a root of the covariance of codes: mean + root ε is distributed as they are.   d, d d"""
    found = run.read(FILE)
    if found is None:
        raise RegardError(
            f"{run.path} has no {FILE}, and its model has no prior to sample from; give --near FILE, or train a "
            "vae: regard train autoencoder --model vae"
        )
    mean, covariance = torch.tensor(found["mean"]), torch.tensor(found["covariance"], dtype=torch.float64)
    values, vectors = torch.linalg.eigh(covariance + SMALLEST * torch.eye(len(mean), dtype=torch.float64))
    return mean, (vectors * values.clamp(min=0).sqrt()).float()
