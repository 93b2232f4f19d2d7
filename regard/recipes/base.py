"""The recipe of a name. Each is a module of this folder, imported when it is asked for; `Family` says what one offers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from importlib import import_module
from typing import Any, Protocol, cast, get_type_hints

from regard import registry
from regard.config import nearest
from regard.runs.run import Run

Recipe = (
    Any  # a frozen dataclass with the sections data, model and train; each kind of model has one of its own
)

# What only the data can tell, so that no option sets it.
FOLLOWS = (
    "model.vocab",
    "model.context",
    "model.classes",
    "model.features",
    "model.outputs",
    "model.size",
    "model.each",
    "model.level",
    "model.ordered",
    "model.colours",
    "model.usual",
)


class Family(Protocol):
    """What a module of recipes offers."""

    HELP: Mapping[str, str]  # what --data PATH and --model KIND may be
    OWN: frozenset[str]  # of a model's config: what a run that starts from another does not take over
    # Two that not all have. EXAMPLES: commands that --help shows. TOLD: options such as "data.size" on which defaults of the
    # model depend; `recipe` takes them by name, as size.

    def recipe(self, data: Any, kind: str | None) -> Recipe:
        """The whole configuration, with defaults for this data (a path, None, or an object) and kind of model."""
        ...

    def class_of(self, config: Mapping[str, Any]) -> type[Any]:
        """The dataclass that a run with this config.json was made with."""
        ...


def family(name: str) -> Family:
    """The module of this name."""
    choose("recipe", name, tuple(registry.entries("recipes")))
    return cast(Family, import_module(f"{__package__}.{name}.defaults"))


def find_recipe(
    name: str, data: Any = None, kind: str | None = None, settings: Mapping[str, Any] | None = None
) -> Recipe:
    """The recipe of this name, with defaults for this data and kind of model, and for those settings that decide others.

    The settings themselves are not in it.
    """
    found = (
        {each.removeprefix("data."): settings[each] for each in told(name) if each in settings}
        if settings
        else {}
    )
    return family(name).recipe(data, kind, **found)


def told(name: str) -> tuple[str, ...]:
    """The settings on which defaults of this recipe depend."""
    return getattr(family(name), "TOLD", ())


def of_run(run: Run) -> Recipe:
    """The recipe that a run was made with."""
    name = run.config.get("recipe")
    if name not in registry.entries("recipes"):
        raise ValueError(f"{run.path} was not made by a recipe, so it cannot be resumed as one")
    cls = family(name).class_of(run.config)
    return cls(**{section: run.section(kind, section) for section, kind in get_type_hints(cls).items()})


def with_optimiser(recipe: Recipe, optimiser: str | None) -> Recipe:
    """The recipe for another optimiser than its own: the rates that it proposes are those of its own, so they fall away."""
    if optimiser in (None, recipe.train.optimiser):
        return recipe
    return replace(recipe, train=replace(recipe.train, lr=None, adam_lr=None, momentum=None))


def with_question(recipe: Recipe, settings: Mapping[str, Any], data: Any = None) -> Recipe:
    """The recipe for what options say that is asked of the data, if its defaults follow from that. data: if it is no path."""
    asking = getattr(recipe, "asking", None)
    said = {
        field.name: settings[name]
        for field in fields(recipe.data)
        if (name := f"data.{field.name}") in settings
    }
    if asking is None or not said:
        return recipe
    found: Recipe = asking(said, data)
    return found


def choose(what: str, name: str, known: tuple[str, ...]) -> None:
    """Raise a ValueError with the nearest known name unless this is one."""
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean '{near}'? " if near else ""
        raise ValueError(f"there is no {what} called '{name}'; {hint}known: {', '.join(known)}")


def path_of(data: Any, recipe: str) -> str | None:
    """The path that was given as data, for recipes that take nothing else."""
    if data is None or isinstance(data, str | os.PathLike):
        return None if data is None else os.fspath(data)
    raise ValueError(
        f"the recipe {recipe} reads a file or a folder, got {type(data).__name__} as data; give a path"
    )
