"""A module of the user's own: how it is trained, and what evaluate and predict do with a run of it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard import config as configs
from regard.data.batch import Batch, Source
from regard.data.row_source import TensorSource
from regard.errors import RegardError
from regard.look import report as reports
from regard.look.plot import curves
from regard.models.registered_model import registered_name
from regard.recipes.evaluation import Evaluation, evaluate_split
from regard.recipes.job import Split
from regard.recipes.prediction import Prediction
from regard.recipes.request import Place
from regard.runs.load import describe_build, how_to_load, load_model
from regard.runs.lock import exclusive_lock
from regard.runs.new_run import latest_run_path, new_run, new_run_path
from regard.runs.run import Run
from regard.training import loop
from regard.training.config import TrainConfig
from regard.training.progress import Observer
from regard.training.tasks import as_task, call, check_labels


def train_module(
    model: nn.Module,
    task: str | Callable[..., Any] | Any,
    data: Any,
    *,
    out: Place | None = None,
    resume: bool = False,
    options: Mapping[str, Any] | None = None,
    observers: Sequence[Observer] = (),
    report: bool = True,
) -> Run:
    """Train any module on a pair of tensors or arrays, a Dataset, a DataLoader or a Source. options: those of TrainConfig"""
    settings = {name.removeprefix("train."): value for name, value in (options or {}).items()}
    before = Run.open(latest_run_path(None) if out is None else out) if resume else None
    if before is None:
        config = configs.from_dict(TrainConfig, settings)
    else:
        config = configs.override(before.section(TrainConfig, "train"), settings)
    if config.seeds is not None:
        raise RegardError(
            f"seeds={config.seeds} needs a recipe, which makes a new model for each; call train for each seed, "
            "with a new module"
        )
    if task is None or data is None:
        raise RegardError(
            "a module needs a task ('classify', 'regress', 'next token' or a function) and data to train on"
        )
    wanted = as_task(task)
    source = data if isinstance(data, Source) else TensorSource(data, config.batch, config.seed, dtype=_dtype(model))
    first = source.batch(0)
    _check_finite(data, first)
    check_labels(model, wanted, source, data)
    with ExitStack() as after:
        if before is not None:
            run = before
            after.enter_context(exclusive_lock(run.state))
        else:
            kind = registered_name(model)
            about: dict[str, Any] = {"kind": kind, "module": type(model).__qualname__, "train": config}
            about |= {"task": task if isinstance(task, str) else None, "inputs": _describe_inputs(model, first)}
            about |= {"build": describe_build(model)} if kind is None else {"model": model.config}
            create = after.enter_context(new_run(new_run_path("module") if out is None else out))
            run = create(about)
        loop.fit(run, model, wanted, source, config, resume=resume, observers=observers)
        if report:
            curves(run)
            reports.of_module(run, model)
    return run


def evaluate_module(run: Run, data: Any, module: nn.Module | None = None) -> Evaluation:
    """The measures of a run of a module on data like that of its training."""
    if run.config.task is None:
        raise RegardError(
            f"{run.path} learned a task of your own, which is kept nowhere, so measure the model itself: {how_to_load(run)}"
        )
    if data is None or isinstance(data, str | os.PathLike):
        known = run.config.kind is not None or run.config.build is not None or module is not None
        also = "" if known else ", and as model= a module like the trained one, which regard cannot build"
        raise RegardError(
            f"{run.path} is of a module of your own, so its data is in no file; give data=(x, y) in Python{also}"
        )
    model = load_model(run, module)
    batch = (run.config.train or {}).get("batch", 32)
    source = TensorSource(data, batch, validation=data, dtype=_dtype(model))
    split = Split(name="given data", count=None, unit="rows", batches=source.validation)
    return evaluate_split(model, as_task(run.config.task), split)


def predict_module(run: Run, inputs: Any, module: nn.Module | None = None) -> Iterator[Prediction]:
    """What a run of a module gives for each row of a tensor or an array: shares of classes, or numbers."""
    given = inputs if isinstance(inputs, Tensor) else np.asarray(inputs)
    is_numbers = isinstance(given, Tensor) or (given.dtype.kind in "fiub" and given.ndim > 0)
    if run.config.task not in ("classify", "regress") or not is_numbers:
        raise RegardError(
            f"{run.path} is of a module of your own; predict takes a tensor or an array, for the tasks classify and "
            f"regress. For all else call the model itself: {how_to_load(run)}"
        )
    count = len(given)
    zeros = torch.zeros(count) if isinstance(given, Tensor) else np.zeros(count)
    model, row = load_model(run, module), 0
    batch = (run.config.train or {}).get("batch", 32)
    source = TensorSource((given, zeros), batch, validation=(given, zeros), dtype=_dtype(model))
    with torch.no_grad():
        for each_batch in source.validation():
            out = call(model, each_batch)
            for each in out.softmax(-1) if run.config.task == "classify" else out:
                row += 1
                numbers = [float(number) for number in each.flatten()]
                if run.config.task == "classify":
                    yield Prediction.of_classes(f"row {row}", each, [str(i) for i in range(len(numbers))])
                else:
                    names = ["output"] if len(numbers) == 1 else [f"output {i + 1}" for i in range(len(numbers))]
                    yield Prediction(input=f"row {row}", values=dict(zip(names, numbers, strict=True)))


def _dtype(model: nn.Module) -> torch.dtype:
    """What a module computes with."""
    found = (each.dtype for each in model.parameters() if each.is_floating_point())
    return next(found, torch.get_default_dtype())


def _describe_inputs(model: nn.Module, batch: Batch) -> dict[str, Any]:
    """The inputs of a module, so that check and look can draw some like them."""
    known = list(inspect.signature(model.forward).parameters)
    first, *others = batch
    taken = [first, *(name for name in others if name in known)]
    found = {}
    for name in taken:
        x = batch[name]
        about: dict[str, Any] = {"shape": list(x.shape), "dtype": str(x.dtype).removeprefix("torch.")}
        if not x.is_floating_point() and x.dtype != torch.bool:
            about["most"] = int(x.max()) if x.numel() else 0
        found[name if name in known or not known else known[0]] = about
    return found


def _check_finite(data: Any, first: Batch) -> None:
    """Raise if what is learned from holds NaN or infinity: every tensor of a pair, or the first batch of what is read row
    by row."""
    pair = [*first.values(), first.target]
    if isinstance(data, tuple | list) and all(isinstance(each, Tensor | np.ndarray) for each in data):
        pair = list(data)
    for number, each in enumerate(pair):
        x = torch.as_tensor(each)
        if x.is_floating_point() and not bool(x.isfinite().all()):
            row = int((~x.isfinite()).nonzero()[0, 0]) if x.dim() else 0
            what = "the target" if number == len(pair) - 1 and number else "the input"
            raise RegardError(f"{what} holds NaN or infinity, first in row {row}; fill it in, or leave such rows out")
