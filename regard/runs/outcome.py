"""outcome.json of a run: what it was trained on, and a few examples with their predictions. A page can be made of
it without the data."""

from __future__ import annotations

from typing import Any

from regard.runs.run import Run

FILE = "outcome.json"


def read_outcome(run: Run) -> dict[str, Any]:
    """What the file says; empty for a run without one."""
    found = run.read(FILE)
    if not isinstance(found, dict):
        return {}
    return found


def kept_examples(run: Run) -> list[dict[str, Any]]:
    """The examples that the run keeps, those to show first at the front."""
    found = (read_outcome(run).get("examples") or {}).get("items")
    if not isinstance(found, list):
        return []
    return [each for each in found if isinstance(each, dict)]


def first_example(run: Run, part: str) -> dict[str, Any] | None:
    """The example to look at if nobody asks for another: the first that is whole and has this part (text,
    picture, elements), one with a right prediction if there is one."""
    whole = [each for each in kept_examples(run) if each.get(part) and not each.get("cut")]
    return next((each for each in whole if each.get("right")), whole[0] if whole else None)
