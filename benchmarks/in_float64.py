"""`regard train`, with weights and numbers of batches in float64: a part of scale.py.

Training makes small differences grow: in float32 one process with one and with two threads may differ by a per cent after
50 steps. In float64 only differences stay that are no rounding.

    python benchmarks/in_float64.py train sets --train.steps 50 --out run
"""

import sys
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.training.step import Stepper
from regard.verbs.main import main

as_it_comes: Callable[..., Batch] = Batch.to


def to_float64(batch: Batch, device: Any) -> Batch:
    moved = as_it_comes(batch, device)
    parts = {field.name: getattr(moved, field.name) for field in fields(moved)}
    floats = {name: x for name, x in parts.items() if isinstance(x, Tensor) and x.is_floating_point()}
    return replace(moved, **{name: x.double() for name, x in floats.items()})


def place(stepper: Stepper, model: nn.Module) -> nn.Module:
    return model.double()


Batch.to = to_float64  # type: ignore[method-assign]
Stepper.place = place  # type: ignore[method-assign]

if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
