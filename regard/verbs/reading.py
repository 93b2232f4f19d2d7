"""Other data may call its columns otherwise than the training data: predict and evaluate can be told so."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from regard.config import from_dict
from regard.data.dialect import TableConfig
from regard.errors import RegardError, did_you_mean
from regard.recipes.base import Recipe
from regard.recipes.settings import path_of
from regard.recipes.supervised import Supervised
from regard.runs.run import Run


def configure(recipe: Recipe, options: Mapping[str, Any] | None) -> tuple[Recipe, dict[str, Any]]:
    """The recipe with its own options of predict and evaluate ({"beams": 8}), and the options that are left."""
    rest = dict(options or {})
    if recipe.predict_options is None:
        return recipe, rest
    own = {each.name: rest.pop(each.name) for each in fields(recipe.predict_options) if each.name in rest}
    return recipe.with_options(from_dict(recipe.predict_options, own)), rest


def as_given(run: Run, recipe: Recipe, data: Any) -> Any:
    """Other data of a command: a path as text, or data in memory, which only supervised problems read."""
    if isinstance(recipe.problem_of_run(run), Supervised) and not isinstance(data, os.PathLike):
        return data
    return path_of(data, recipe.name)


def read_differently(run: Run, recipe: Recipe, options: Mapping[str, Any] | None) -> Run:
    """The run with some settings of its data changed for this command, by dotted name: {"data.text": "body"}."""
    if not options:
        return run
    own = run.config.data or {}
    tables = [each.name for each in fields(TableConfig) if each.name in own]  # of kinds that read tables
    return run.reading(_read_options(options, (*recipe.reading_options, *tables), f"a run of {recipe.name}"))


def table_config(run: Run, options: Mapping[str, Any] | None) -> TableConfig:
    """How tables are read: as the run reads its own, but for the options of this command."""
    names = [each.name for each in fields(TableConfig)]
    own = {name: value for name, value in (run.config.data or {}).items() if name in names}
    return from_dict(TableConfig, own | _read_options(options or {}, names, "this command"))


def _read_options(options: Mapping[str, Any], names: Sequence[str], taker: str) -> dict[str, Any]:
    """Settings by their names, which must be among these."""
    known = tuple(f"data.{name}" for name in names)
    for key in options:
        if key not in known:
            given = ", ".join(f"--{name}" for name in known) or "none"
            raise RegardError(f"there is no option --{key} here; {did_you_mean(key, known)}{taker} takes {given}")
    return {key.removeprefix("data."): _value(key, value) for key, value in options.items()}


def _value(key: str, value: Any) -> Any:
    """What a word of the command line means for an option that is no text."""
    if key == "data.header" and isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower(), value)
    if key == "data.nulls" and isinstance(value, str):
        return tuple(value.split(","))
    return value
