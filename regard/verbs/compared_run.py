"""One run as `compare` reads it: its settings, its outcome and its curves, from its files alone."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import safe_open

from regard.look.plot import smooth
from regard.look.redact_paths import PERSONAL
from regard.runs.evaluations import best_evaluation
from regard.runs.load import build
from regard.runs.run import Run

MOST = 400  # points of a curve
SECTIONS = ("model", "data", "train", "processor", "counts")
Point = tuple[int, float, float]  # step, seconds since the start of the run, loss


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The measures of the weights that were kept."""

    split: str
    measures: dict[str, float]
    count: int | None  # examples
    step: int | None  # the step whose weights were kept

    def to_json(self) -> dict[str, Any]:
        return {"split": self.split, "measures": self.measures, "count": self.count, "step": self.step}


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """What the files of one run tell. `error`: why they tell nothing; `state`: what is unusual about it."""

    path: str
    run: Run | None = None
    error: str | None = None
    state: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # by dotted names
    outcome: Outcome | None = None
    training: Sequence[Point] = ()  # smoothed
    validation: Sequence[Point] = ()
    best: Point | None = None

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        found: dict[str, Any] = {"path": self.path, "error": self.error, "state": self.state}
        if self.run is not None:
            found |= {"recipe": self.run.config.recipe, "model": self.run.config.kind}
            found |= {"outcome": None if self.outcome is None else self.outcome.to_json()}
            found |= {"validation": [list(each) for each in self.validation]}
        return found


def read_run(path: str | os.PathLike[str]) -> ComparedRun:
    """A run by its folder. A run that cannot be read has an error in place of everything else."""
    where = os.fspath(path)
    try:
        run = Run.open(where)
        events = run.metrics()
        settings = _settings(run, events)
    except (ValueError, OSError) as error:
        return ComparedRun(path=where, error=" ".join(str(error).split()))
    evaluations = [event for event in events if event.get("event") == "validation"]
    steps = [event for event in events if event.get("event") == "step"]
    best = best_evaluation(evaluations, run.config.keep)
    return ComparedRun(
        path=where,
        run=run,
        state=_state(run, events),
        settings=settings,
        outcome=_outcome(run, events, best),
        training=_thinned(_smoothed(steps)),
        validation=_thinned([_point(event) for event in evaluations]),
        best=None if best is None else _point(best),
    )


def differing(runs: Sequence[ComparedRun]) -> tuple[dict[str, list[Any]], list[str]]:
    """Settings that are not the same in all runs, by dotted names, and the names of those that only some of
    the runs have: another recipe or kind of model has other settings."""
    names = dict.fromkeys(name for each in runs for name in each.settings)
    shared = [name for name in names if all(name in each.settings for each in runs)]
    table = {name: [each.settings[name] for each in runs] for name in shared}
    found = {name: values for name, values in table.items() if any(value != values[0] for value in values)}
    return found, [name for name in names if name not in table]


def _settings(run: Run, events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All that may differ: the kind of model, options, the data in numbers, what it was computed on."""
    config = run.config
    found: dict[str, Any] = {"recipe": config.recipe, "model": config.kind or config.module}
    found["from"] = config.origin
    for section in SECTIONS:
        found |= _flat(getattr(config, section) or {}, f"{section}.")
    found |= {"parameters": _parameters(run), "steps": _last_step(events)}
    found["seconds"] = max((float(event.get("seconds", 0.0)) for event in events), default=None)
    environment = {name: value for name, value in run.environment().items() if name not in PERSONAL}
    return found | _flat(environment, "environment.")


def _flat(values: Mapping[str, Any], above: str) -> dict[str, Any]:
    """Dicts in dicts as one, by dotted names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{above}{name}.")
        else:
            found[above + name] = value
    return found


def _parameters(run: Run) -> int | None:
    """How many there are; of a module of the user's own, the numbers in model.safetensors; None before there
    are any."""
    if run.config.kind is not None:
        return sum(parameter.numel() for parameter in build(run).parameters())
    if not run.model_file.exists():
        return None
    with safe_open(run.verify(run.model_file.name), framework="np") as tensors:
        names = tensors.keys()
        return sum(math.prod(tensors.get_slice(name).get_shape()) for name in names)


def _last_step(events: Sequence[Mapping[str, Any]]) -> int | None:
    return max((int(event["step"]) for event in events), default=None)


def _state(run: Run, events: Sequence[Mapping[str, Any]]) -> str | None:
    """What a reader should know: that it has no weights yet, or is not at its last step."""
    last = _last_step(events)
    if last is None:
        return "no step yet"
    if run.config.steps is not None and last < run.config.steps:
        ended = f"at step {last:,} of {run.config.steps:,}"
    else:
        ended = None
    if run.model_file.exists():
        return ended
    return f"{ended or f'at step {last:,}'}, no weights yet"


def _outcome(run: Run, events: Sequence[Mapping[str, Any]], best: Mapping[str, Any] | None) -> Outcome | None:
    """The test split if it was evaluated, or else the best evaluation of the validation split."""
    tests = [event for event in events if event.get("event") == "test"]
    kept = _last_step(events) if best is None else int(best["step"])
    if tests:
        return Outcome(split="test", measures=_measures(tests[-1]), count=tests[-1].get("count"), step=kept)
    if best is None:
        return None
    count = (run.config.counts or {}).get("validation")
    return Outcome(
        split="validation", measures=_measures(best), count=count if isinstance(count, int) else None, step=kept
    )


def _measures(event: Mapping[str, Any]) -> dict[str, float]:
    left_out = ("step", "seconds", "count")
    return {
        name: float(value)
        for name, value in event.items()
        if name not in left_out and isinstance(value, int | float) and not isinstance(value, bool)
    }


def _point(event: Mapping[str, Any]) -> Point:
    return int(event["step"]), float(event.get("seconds", 0.0)), float(event["loss"])


def _smoothed(steps: Sequence[Mapping[str, Any]]) -> list[Point]:
    points = [_point(event) for event in steps]
    losses = smooth([loss for _, _, loss in points])
    return [(step, seconds, loss) for (step, seconds, _), loss in zip(points, losses, strict=True)]


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Few enough to draw, the last one always among them."""
    every = max(1, len(points) // MOST)
    return [*points[:-1][::every], *points[-1:]]


def short_names(paths: Sequence[str]) -> list[str]:
    """The last part of each path, or the whole path where that is not enough to tell them apart."""
    last = [Path(path).name or Path(path).resolve().name for path in paths]
    return [path if last.count(name) > 1 else name for path, name in zip(paths, last, strict=True)]
