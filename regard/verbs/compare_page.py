"""The page of a comparison: one self-contained file, in the look of all other pages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.look import page
from regard.look.encode_arrays import round_digits
from regard.look.redact_paths import without_folders
from regard.look.report import FILES, page_of
from regard.runs.number_format import say_difference
from regard.verbs.compare import Comparison, Pair
from regard.verbs.compare_words import (
    say_examples,
    say_interval,
    say_methods,
    say_outcome,
    say_partly,
    say_setting,
    say_verdict,
)
from regard.verbs.compared_run import Point

DIGITS = 6  # of a loss


def write_page(found: Comparison, path: str | os.PathLike[str], *, seconds: bool = False) -> Path:
    """Write the page, whole or not at all. seconds: the curves begin with seconds in place of steps"""
    return page.write(page_data(found, seconds=seconds), path, FILES)


def page_data(found: Comparison, *, seconds: bool = False) -> dict[str, Any]:
    """What the page shows, as look/web/README.md says. Folders of paths are left out, as on every page."""
    runs = [
        {
            "name": name,
            "outcome": say_outcome(each),
            "kept": None if each.outcome is None else each.outcome.step,
            "state": each.state,
            "training": _points(each.training),
            "validation": _points(each.validation),
            "best": None if each.best is None else _points([each.best])[0],
        }
        for name, each in zip(map(without_folders, found.names), found.runs, strict=True)
    ]
    rows = [
        [name, [without_folders(say_setting(name, value)) for value in values]]
        for name, values in found.settings.items()
    ]
    view = {
        "view": "compare",
        "by": "seconds" if seconds else "steps",
        "runs": runs,
        "settings": rows,
        "partly": say_partly(found),
        "pairs": [_pair(pair) for pair in found.pairs],
        "sentences": [without_folders(line) for line in say_methods(found)],
    }
    return page_of(f"{len(found.runs)} runs", view, [without_folders(note) for note in found.notes])


def _pair(pair: Pair) -> dict[str, Any]:
    differences = [
        {
            "measure": each.measure,
            "said": say_difference(each.measure, each.value),
            "interval": say_interval(each),
            "verdict": say_verdict(each),
            "better": each.better,
            "examples": say_examples(each, pair.split),
            "value": each.value,
            "low": each.low,
            "high": each.high,
        }
        for each in pair.differences
    ]
    return {
        "run": without_folders(pair.run),
        "against": without_folders(pair.against),
        "differences": differences,
        "reason": None if pair.reason is None else without_folders(pair.reason),
    }


def _points(points: Sequence[Point]) -> list[list[Any]]:
    """[step, seconds, loss]"""
    return [[step, seconds, round_digits(loss, DIGITS)] for step, seconds, loss in points]
