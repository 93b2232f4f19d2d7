"""What another project writes, and the types that it gets. mypy reads this file; nothing runs it."""

from typing import Any, assert_type

import torch

import regard
from regard.runs.run import Run
from regard.symmetry.report import Report


def use(model: torch.nn.Module, x: torch.Tensor) -> None:
    report = regard.check(model, x, laws=["permutation"])
    assert_type(report, Report)
    assert_type(report.ok, bool)
    run = regard.train("text", data="my.txt", steps=2)
    assert_type(run, Run | Any)  # with seeds or folds it is the folder of several runs
    with regard.record(model) as seen:
        model(x)
    assert_type(seen[0].name, str)
    mask = regard.Causal() & regard.Window(3)
    regard.attend(x, x, x, mask=mask, bias=regard.ALiBi(heads=4))
    regard.attend(x, x)  # type: ignore[call-arg]
