"""Other data may call its columns otherwise than the training data: predict and evaluate can be told so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.errors import RegardError, did_you_mean
from regard.recipes.base import Recipe
from regard.runs.run import Run


def read_differently(run: Run, recipe: Recipe, options: Mapping[str, Any] | None) -> Run:
    """The run with some settings of its data changed for this command, by dotted name: {"data.text": "body"}."""
    if not options:
        return run
    known = tuple(f"data.{name}" for name in recipe.reading_options)
    for key in options:
        if key not in known:
            given = ", ".join(f"--{name}" for name in known) or "none"
            raise RegardError(
                f"there is no option --{key} here; {did_you_mean(key, known)}a run of {recipe.name} takes "
                f"{given}"
            )
    return run.reading({key.removeprefix("data."): value for key, value in options.items()})
