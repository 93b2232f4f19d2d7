"""Is data that of a run? At its start the summary is compared, in its use the path; and what of it was trained on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.data.array import Array
from regard.data.splits import TRAIN
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.job import Job
from regard.recipes.prepare import find_splits
from regard.recipes.processor import Processor
from regard.runs.run import Run
from regard.training.config import TrainConfig

if TYPE_CHECKING:
    from regard.recipes.supervised import Supervised

NAMED = 3  # differences that are named
LONGEST = 40  # characters of a value that are shown
# the path may be given from another folder; what could not be read may be gone
MAY_DIFFER = ("path", "skipped")
GO_ON = "Give the original data to go on, or start a new run, with --from {} if you want its weights"


def check_same_data(run: Run, job: Job, advice: str = "") -> None:
    """Raise a RegardError that names the differences. job: with a summary of the data now; advice: what to do, if the
    run is not resumed"""
    sections = {name: getattr(run.config, name) for name in job.summary}
    if None in sections.values():
        return
    then = _flat_sections(sections)
    now = _flat_sections(json.loads(json.dumps(job.summary)))
    keys = [key for key in dict.fromkeys((*then, *now)) if key not in MAY_DIFFER]
    other = [key for key in keys if then.get(key) != now.get(key)]
    if other:
        told = [f"{key} was {_shown(then.get(key))} and is now {_shown(now.get(key))}" for key in other[:NAMED]]
        more = f"; and {len(other) - NAMED} more" if len(other) > NAMED else ""
        raise RegardError(
            f"{run.path} was started with other data: {'; '.join(told)}{more}. {advice or GO_ON.format(run.quoted)}"
        )


def _flat_sections(sections: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for section in sections.values() for key, value in _flat(section).items()}


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Dicts in dicts as one, by dotted names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _flat(value, f"{above}{name}.") if isinstance(value, dict) else {above + name: value}
    return found


def _shown(value: Any) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST - 1] + "…"


# ── what of other data was trained on


def read_trained(
    problem: Supervised, run: Run, processor: Processor[Any, Any], given: Any
) -> Callable[[Examples], Array | None]:
    """What tells of examples of this path, or of the parts of the only one, which of them the run was trained on; None of
    all: the run was not trained on this path, or what is there now cannot be what was there then.   n -> bool n"""
    own, counts = processor.config.path, run.config.counts or {}
    if run.asked or own is None or not isinstance(given, str) or _real(given) != _real(own):
        return lambda examples: None
    reader = problem.processor(processor.config)
    try:
        learned = problem.read(processor.config)
        learned, _, _, splits, _ = find_splits(problem, reader, learned, run.section(TrainConfig, "train").seed)
    except (ValueError, OSError):
        return lambda examples: None
    whole = reader.batches_of(learned) != "examples"
    units = np.flatnonzero(splits == TRAIN) if whole else np.unique(learned.owners()[splits == TRAIN])
    if len(units) != counts.get("train"):
        return lambda examples: None
    if whole:
        return lambda examples: splits == TRAIN if len(splits) == examples.asked else None
    names = {_real(learned.names(int(i))) for i in units}
    return lambda examples: np.array([_real(examples.names(i)) in names for i in range(len(examples))])


def note_on_trained(trained: Array | None, unit: str) -> tuple[str, ...]:
    """145 of these 181 nodes were trained on"""
    if trained is None or not trained.any():
        return ()
    return (f"{int(trained.sum()):,} of these {len(trained):,} {unit} were trained on",)


def _real(name: str) -> str:
    """The same for all paths of one file."""
    return os.path.realpath(os.path.expanduser(name)) if os.path.exists(os.path.expanduser(name)) else name
