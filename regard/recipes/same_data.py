"""Is the data still the same as at the start of a run? Only its summary is compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from regard.errors import RegardError
from regard.recipes.job import Job
from regard.runs.run import Run

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
        if len(other) > NAMED:
            more = f"; and {len(other) - NAMED} more"
        else:
            more = ""
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
    if isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    else:
        text = repr(value)
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST - 1] + "…"
