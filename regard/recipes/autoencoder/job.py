"""Inputs become a task, batches, and a model config that fits them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.data.array import Array
from regard.data.splits import SPLITS, TEST, TRAIN
from regard.errors import RegardError
from regard.recipes.autoencoder.dataset import Inputs, InputsConfig, InputsInfo, InputSource
from regard.recipes.autoencoder.defaults import model_kind
from regard.recipes.autoencoder.evaluation import CodeEvaluation, evaluate_codes
from regard.recipes.autoencoder.read_inputs import read_inputs, read_other_inputs
from regard.recipes.autoencoder.task import Reconstruct, to_numbers
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.settings import Settings
from regard.runs.run import Run
from regard.training.config import TrainConfig

NAMED = 5  # damaged files that are named one by one
CHECKED = 256  # inputs that tell whether the likelihood suits them


@dataclass(frozen=True, eq=False, kw_only=True)
class AutoencoderJob(Job):
    """A job with its inputs, of which pictures are made at the end."""

    inputs: Inputs


def prepare_job(settings: Settings, context: DataContext) -> AutoencoderJob:
    """Read the inputs, then make the task, the source and a model config that fits them."""
    data, train = settings.data, settings.train
    inputs = read_inputs(data, seed=data.seed_of(train.seed), cache=context.cache, note=context.note)
    return make_job(settings, inputs)


def make_job(settings: Settings, inputs: Inputs) -> AutoencoderJob:
    """The task, the source and a model config that fits the inputs."""
    data, train = settings.data, settings.train
    config = replace(settings.model, shape=inputs.shape, mean=inputs.mean, deviation=inputs.deviation)
    check_likelihood(inputs, config, data)
    info = inputs.info
    source = InputSource(inputs, train.batch, train.seed)
    task = Reconstruct(data.binarise, getattr(config, "warmup", 0))
    test = None
    if info.test:
        test = Split(name="test", count=info.test, unit=inputs.unit, batches=lambda: source.split(TEST))

    def evaluate(model: nn.Module, split: Split) -> CodeEvaluation:
        return evaluate_codes(model, task, split)

    return AutoencoderJob(
        kind=model_kind(settings),
        model=config,
        task=task,
        source=source,
        info=info,
        unit=inputs.unit,
        examples=inputs.unit,
        notes=(*inputs.notes, *_left_out(inputs.skipped, data.path), *_explain(data, inputs)),
        validation=info.validation,
        test=test,
        rows=lambda split: inputs.rows(SPLITS[split]),
        evaluate=evaluate,
        inputs=inputs,
    )


def check_likelihood(inputs: Inputs, config: Any, data: InputsConfig) -> None:
    """Raise if the likelihood does not suit the numbers."""
    if config.likelihood == "discretised" and inputs.form != "images":
        raise RegardError(
            f"the likelihood discretised is of bytes, and {inputs.name} holds {inputs.form} of real numbers; use "
            "--model.likelihood gaussian"
        )
    if inputs.form != "images" and data.binarise != "none":
        raise RegardError(f"binarise is for images, and {inputs.name} holds {inputs.form}; leave --data.binarise out")
    if config.likelihood != "bernoulli":
        if data.binarise != "none":
            raise RegardError(
                f"with --data.binarise {data.binarise} pixels are 0 or 1, got --model.likelihood "
                f"{config.likelihood}; use bernoulli"
            )
        return
    if data.binarise != "none":
        return
    odd = _first_not_binary(inputs)
    if odd is None:
        return
    if inputs.form == "images":
        ways = "use --data.binarise dynamic (or threshold), or --model.likelihood discretised"
    else:
        ways = "use --model.likelihood gaussian"
    raise RegardError(
        f"the likelihood bernoulli is of zeros and ones, and {inputs.name} has numbers such as {odd:.3g}; {ways}"
    )


def _first_not_binary(inputs: Inputs) -> float | None:
    rows = inputs.rows(TRAIN)
    some: Array = rows[:: max(1, len(rows) // CHECKED)]
    x = to_numbers(inputs.take(some)["x"], "none").flatten()
    odd = x[(x != 0) & (x != 1)]
    if not len(odd):
        return None
    if inputs.form == "rows":  # as they are in the table
        column = int(torch.nonzero((x != 0) & (x != 1))[0]) % len(inputs.columns)
        return float(odd[0]) * inputs.scale[column] + inputs.centre[column]
    return float(odd[0])


def _explain(data: InputsConfig, inputs: Inputs) -> tuple[str, ...]:
    """What a reader of figures should know."""
    if data.binarise == "dynamic":
        return (
            "pixels are drawn black or white anew in each batch (--data.binarise dynamic): figures cannot be "
            "compared with those of fixed or grey pixels",
        )
    if data.binarise == "threshold":
        return ("pixels are black or white, cut at a half (--data.binarise threshold)",)
    if inputs.form == "rows" and any(np.array(inputs.scale) != 1):
        return ("figures are of standardised columns: mean 0, deviation 1",)
    return ()


def _left_out(skipped: Sequence[str], path: str | None) -> tuple[str, ...]:
    """What was wrong with files that were left out."""
    more = len(skipped) - NAMED
    rest = (f"{more:,} more files of {path} cannot be read; config.json names them all",) if more > 0 else ()
    return (*(f"left out: {why}" for why in skipped[:NAMED]), *rest)


def other_split(run: Run, path: str, context: DataContext) -> tuple[Reconstruct, Split]:
    """Other inputs as the run reads its own."""
    config, info = replace(run.section(InputsConfig, "data"), path=path), run.section(InputsInfo, "corpus")
    inputs, rows = read_other_inputs(config, info, cache=context.cache, note=context.note)
    batch = run.section(TrainConfig, "train").batch
    split = Split(
        name=path,
        count=len(rows),
        unit=inputs.unit,
        batches=lambda: inputs.batches(rows, batch),
        rows=lambda: rows,
        notes=_left_out(inputs.skipped, path),
    )
    return Reconstruct(config.binarise), split
