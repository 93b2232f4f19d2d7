"""outcome.json of a run: what it was trained on, and a few examples with their predictions. A page can be made
of it without the data."""

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
    examples = read_outcome(run).get("examples")
    if not isinstance(examples, dict) or not isinstance(examples.get("items"), list):
        return []
    return [each for each in examples["items"] if _is_example(each)]


def _is_example(found: Any) -> bool:
    """Is it what a training writes? A run may be somebody else's."""
    if not isinstance(found, dict):
        return False
    words = [found.get(name) for name in ("name", "truth", "predicted")]
    more = [found.get(name, "") for name in ("text", "picture")]
    return all(isinstance(each, str) for each in (*words, *more)) and _is_table(found.get("elements", []))


def _is_table(rows: Any) -> bool:
    """Rows of numbers, all of one length?"""
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        return False
    numbers = all(type(each) in (int, float) for row in rows for each in row)
    return numbers and len({len(row) for row in rows}) <= 1


def first_example(run: Run, part: str) -> dict[str, Any] | None:
    """The example to look at if nobody asks for another: the first that is whole and has this part (text,
    picture, elements), one with a right prediction if there is one."""
    whole = [each for each in kept_examples(run) if each.get(part) and not each.get("cut")]
    return next((each for each in whole if each.get("right")), whole[0] if whole else None)
