"""The page on which runs stand beside each other: one view, with scripts of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.look.model_input import ModelInput
from regard.look.scene import FORMAT

HERE = Path(__file__).parent / "web" / "compare"
FILES = (HERE / "70-compare.js", HERE / "compare.css")


def page_of(title: str, view: dict[str, Any], notes: Sequence[str]) -> dict[str, Any]:
    """The data of a page with this one view, as web/README.md says."""
    return {
        "format": FORMAT,
        "title": title,
        "subtitle": "settings that differ, outcomes, curves, and differences on the same examples",
        "record": 0,
        "input": ModelInput(inputs={}).describe(),
        "streams": [],
        "notes": list(notes),
        "live": None,
        "silenced": [],
        "views": [view],
    }
