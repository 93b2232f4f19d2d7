"""New inputs of a trained autoencoder: from the prior, around an input, or on the way from one to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from regard.config import UNSPLIT, Seed, Weight, config
from regard.errors import RegardError
from regard.recipes.autoencoder.codes import read_prior
from regard.recipes.autoencoder.dataset import InputsConfig, InputsInfo
from regard.recipes.autoencoder.given_inputs import read_one
from regard.recipes.autoencoder.task import to_numbers
from regard.recipes.autoencoder.write_inputs import check_not_lost, check_place, is_folder, rows_as_csv, write_made
from regard.recipes.describe import format_count
from regard.runs.load import load_model
from regard.runs.run import Run

AT_ONCE = 1024  # codes that are decoded together
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
def generate(run: Run, options: GenerateOptions, note: Callable[[str], None]) -> Iterator[str]:
    """Write new inputs, and say where."""
    info = run.section(InputsInfo, "corpus")
    if options.out is not None:
        check_place(options.out, info.form)
        near = () if options.near is None else (options.near,)
        check_not_lost(options.out, (*near, *(options.between or ())))
    model: Any = load_model(run)
    codes = choose_codes(run, model, options, note)
    # rows of a table are drawn with the noise that they have; an image is shown without
    noisy = info.form == "rows" and not options.between
    made = decode_codes(model, codes, torch.Generator().manual_seed(options.seed + 1) if noisy else None)
    if options.out is None and info.form == "rows":
        yield rows_as_csv(made, info)
        return
    out = options.out
    if out is None:
        out = str(run.path / f"generated{'.png' if info.form == 'images' else '.npz'}")
    write_made(made, info, out, columns=len(made) if options.between else None)
    folder = "folder " if is_folder(out) else ""
    yield f"{folder}{out}: {describe(options, len(made))}\n"


def decode_codes(model: Any, codes: Tensor, draw: torch.Generator | None) -> Tensor:
    """Inputs of these codes: the expected ones, or with `draw` random ones.   n latent -> n shape"""
    made = []
    for some in codes.split(AT_ONCE):
        out = model.decode(some)
        made.append(model.likelihood.mean(out) if draw is None else model.likelihood.sample(out, draw))
    return torch.cat(made)


def describe(options: GenerateOptions, count: int) -> str:
    """What was generated, in words."""
    if options.between:
        return f"{format_count(count, 'inputs')} on the line from {options.between[0]} to {options.between[1]}"
    if options.near is not None:
        return f"{format_count(count, 'samples')} around {options.near}, spread {options.spread:g}"
    return format_count(count, "samples") or "no samples"


def choose_codes(run: Run, model: Any, options: GenerateOptions, note: Callable[[str], None]) -> Tensor:
    """The codes to decode.   n latent"""
    draw = torch.Generator().manual_seed(options.seed)
    if options.between:
        first, last = (encode_file(run, model, each) for each in options.between)
        return torch.lerp(first, last, torch.linspace(0, 1, options.steps)[:, None])
    noise = torch.randn(options.count, model.config.latent, generator=draw)
    if options.near is not None:
        return encode_file(run, model, options.near) + options.spread * noise
    if model.variational:
        return options.temperature * noise
    mean, root = read_prior(run)
    note(NO_PRIOR)
    return mean + options.temperature * noise @ root.T


def encode_file(run: Run, model: Any, path: str) -> Tensor:
    """The mean of the code of one input.   1 latent"""
    config, info = run.section(InputsConfig, "data"), run.section(InputsInfo, "corpus")
    x = to_numbers(read_one(path, config, info)[None], threshold_of(config))
    found: Tensor = model.encode(x)[0]
    return found


def threshold_of(config: InputsConfig) -> Any:
    """How one image becomes black and white: never by chance."""
    return "threshold" if config.binarise != "none" else "none"
