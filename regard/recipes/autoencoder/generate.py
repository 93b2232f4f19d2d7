"""New inputs of a trained autoencoder: from the prior, around an input, or on the way from one to another.

A model without a prior has codes.json, the codes of training inputs in figures, from which samples are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from regard.config import UNSPLIT, Seed, Weight, config
from regard.data.array import Array
from regard.errors import RegardError
from regard.recipes.autoencoder.processor import InputsProcessor, check_not_lost, is_folder, take_batches
from regard.recipes.autoencoder.row_inputs import RowInputs
from regard.recipes.autoencoder.task import SEED
from regard.recipes.dataset import Dataset
from regard.recipes.describe import format_count
from regard.runs.load import load_model
from regard.runs.run import Run

FILE = "codes.json"
AT_ONCE = 1024  # codes that are decoded together
ENCODED_AT_ONCE = 256
SMALLEST = 1e-6  # variance that is added, so that codes of less than all dimensions have a root
NO_PRIOR = (
    "codes of this model have no prior: they are drawn from a normal distribution with the mean and the "
    "covariance of the codes of training inputs"
)


@config
class GenerateOptions:
    """What to generate, and where to write it."""

    count: Annotated[int, Field(ge=1, le=10**6)] = 64  # how many samples
    # images: sheet.png, a folder (ending in /) or .npz; tables: .csv or .npz; point clouds: .npz, .csv or a
    # folder; None: generated.png (or .npz) in the run, and rows of a table on the screen
    out: str | None = None
    near: str | None = None  # samples around this input: z + spread · ε, where z is its code
    spread: Weight = 0.5  # of samples around an input
    between: Annotated[tuple[str, ...], UNSPLIT] = ()  # two inputs, A B: codes on the line from one to the other
    steps: Annotated[int, Field(ge=2, le=10**4)] = 9  # inputs on that line, both ends included
    temperature: Weight = 1.0  # samples of the prior: less is nearer to the middle, and more alike
    seed: Seed = 0

    def __post_init__(self) -> None:
        if self.between and len(self.between) != 2:
            raise RegardError(f"--between takes two inputs, got {len(self.between)}: {' '.join(self.between)}")
        if self.between and self.near is not None:
            raise RegardError("--near and --between are two ways to choose codes; give one of them")


@torch.no_grad()
def generate(
    run: Run, processor: InputsProcessor[Any], options: GenerateOptions, note: Callable[[str], None]
) -> Iterator[str]:
    """Write new inputs, and say where."""
    if options.out is not None:
        processor.check_place(options.out)
        near = () if options.near is None else (options.near,)
        check_not_lost(options.out, (*near, *options.between))
    model: Any = load_model(run)
    codes = _choose_codes(run, processor, model, options, note)
    noisy = processor.noisy and not options.between
    made = _decode(model, codes, torch.Generator().manual_seed(options.seed + 1) if noisy else None)
    if options.out is None and isinstance(processor, RowInputs):
        yield processor.to_csv(made)
        return
    out = options.out
    if out is None:
        out = str(run.path / f"generated{next(iter(processor.writes))}")
    if is_folder(out):
        processor.write_folder(made, Path(out))
    else:
        processor.write(made, Path(out), columns=len(made) if options.between else None)
    yield f"{'folder ' if is_folder(out) else ''}{out}: {_describe(options, len(made))}\n"


def _decode(model: Any, codes: Tensor, random: torch.Generator | None) -> Tensor:
    """Inputs of these codes: the expected ones, or random ones.   n latent -> n shape"""
    made = []
    for some in codes.split(AT_ONCE):
        out = model.decode(some)
        made.append(model.likelihood.mean(out) if random is None else model.likelihood.sample(out, random))
    return torch.cat(made)


def _describe(options: GenerateOptions, count: int) -> str:
    """What was generated, in words."""
    if options.between:
        return f"{format_count(count, 'inputs')} on the line from {options.between[0]} to {options.between[1]}"
    if options.near is not None:
        return f"{format_count(count, 'samples')} around {options.near}, spread {options.spread:g}"
    return format_count(count, "samples") or "no samples"


def _choose_codes(
    run: Run, processor: InputsProcessor[Any], model: Any, options: GenerateOptions, note: Callable[[str], None]
) -> Tensor:
    """The codes to decode.   n latent"""
    if options.between:
        first, last = (model.encode(processor.read_one(each))[0] for each in options.between)
        return torch.lerp(first, last, torch.linspace(0, 1, options.steps)[:, None])
    if options.near is not None:
        noise = _draw_noise(model, options.count, options.seed)
        found: Tensor = model.encode(processor.read_one(options.near))[0] + options.spread * noise
        return found
    found = draw_codes(run, model, options.count, options.seed, options.temperature)
    if not model.variational:
        note(NO_PRIOR)
    return found


# ── codes


def draw_codes(run: Run, model: Any, count: int, seed: int = 0, temperature: float = 1.0) -> Tensor:
    """Codes of new samples: from the prior, or without one as codes of training inputs are.   count latent"""
    noise = temperature * _draw_noise(model, count, seed)
    if model.variational:
        return noise
    found = run.read(FILE)
    if found is None:
        raise RegardError(
            f"{run.path} has no {FILE}, and its model has no prior to sample from; give --near FILE, or train a "
            "vae: regard train autoencoder --model vae"
        )
    mean, covariance = torch.tensor(found["mean"]), torch.tensor(found["covariance"], dtype=torch.float64)
    values, vectors = torch.linalg.eigh(covariance + SMALLEST * torch.eye(len(mean), dtype=torch.float64))
    root = (vectors * values.clamp(min=0).sqrt()).float()
    return mean + noise @ root.T


def _draw_noise(model: Any, count: int, seed: int) -> Tensor:
    return torch.randn(count, model.config.latent, generator=torch.Generator().manual_seed(seed))


def write_codes(run: Run, codes: Tensor) -> None:
    """codes.json: the mean and the covariance of codes of training inputs.   n latent"""
    codes = codes.double()
    if bool(codes.isfinite().all()):
        covariance = torch.cov(codes.T).reshape(codes.shape[1], codes.shape[1])
        run.write(FILE, {"mean": codes.mean(0).tolist(), "covariance": covariance.tolist()})


def encode_rows(model: Any, processor: InputsProcessor[Any], dataset: Dataset, rows: Array) -> Tensor:
    """The means of the codes of some inputs.   n latent"""
    random = torch.Generator().manual_seed(SEED)
    batches = take_batches(dataset, rows, ENCODED_AT_ONCE)
    return torch.cat([model.encode(processor.numbers(x, random))[0] for x in batches])
