"""report.html: the page of a finished run."""

from __future__ import annotations

from typing import Any

from torch import nn

from regard.look import page
from regard.look.model_input import ModelInput
from regard.look.private import without_folders
from regard.look.scene import FORMAT, in_short
from regard.look.views import history
from regard.look.views.confusion import confusion
from regard.look.views.outcome import outcome
from regard.runs.run import Run

FILE = "report.html"


def of_module(run: Run, model: nn.Module) -> None:
    """How any module learned, and what it is."""
    size = sum(parameter.numel() for parameter in model.parameters())
    plain(
        run,
        f"{type(model).__name__} · {in_short(size)} parameters",
        [],
        [history.about(model, run.path.name, run)],
        model,
    )


def instead(run: Run, why: str) -> None:
    """What can still be shown when the model cannot be looked at, and why that is."""
    plain(run, "", [f"The model could not be looked at: {without_folders(why)}"], [])


def plain(
    run: Run, subtitle: str, notes: list[str], more: list[dict[str, Any]], model: nn.Module | None = None
) -> None:
    of_run = (outcome(run, model), confusion(run), history.curves(run), history.samples(run))
    views = [view for view in (*of_run, *more) if view is not None]
    data: dict[str, Any] = {
        "format": FORMAT,
        "title": run.path.resolve().name,
        "subtitle": subtitle,
        "record": 0,
        "input": ModelInput(inputs={}).describe(),
        "streams": [],
        "notes": notes,
        "live": None,
        "region": None,
        "silenced": [],
        "views": views,
    }
    page.write(data, run.path / FILE)
