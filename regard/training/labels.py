"""A check of labels before the first step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batch import IGNORE, Batch, Source
from regard.errors import RegardError
from regard.nn.eval_mode import eval_mode
from regard.training.tasks import Classify, Task, call


def check_labels(model: nn.Module, task: Task, source: Source, data: Any) -> None:
    """Raise a ValueError if labels of a classifier are not whole numbers, or not among its classes.

    It checks all labels of a pair of tensors, but only the first batch of other sources, which may be slow.
    """
    if type(task) is not Classify:
        return
    batch = source.batch(0)
    target, real = batch.target, batch.get("real")
    if isinstance(data, tuple | list) and all(isinstance(each, Tensor) for each in data):
        target, real = data[1], data[2] if len(data) > 2 else None
    if target.is_floating_point() or target.is_complex():
        raise RegardError(
            "labels of task='classify' must be whole numbers, got "
            f"{str(target.dtype).removeprefix('torch.')}; use "
            f"labels.long(), or task='regress' for measured numbers"
        )
    if real is not None and real.shape == target.shape:
        target = target[real]
    classes = _scores(model, batch)
    wrong = target[((target < 0) | (target >= classes)) & (target != IGNORE)]
    if wrong.numel():
        raise RegardError(
            f"labels must be from 0 to {classes - 1}, because the model gives {classes} scores, got "
            f"{int(wrong[0])}; give the model one output for each class, and count classes from 0"
        )


def _scores(model: nn.Module, batch: Batch) -> int:
    """The number of scores that a model returns. The model and the random state stay as they were."""
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    with torch.no_grad(), torch.random.fork_rng(devices=[]), eval_mode(model):
        return call(model, batch.to(device)).shape[-1]
