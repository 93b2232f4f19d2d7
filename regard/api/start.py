"""How a run begins: settings, and the body of an earlier run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from torch import nn

from regard import config as configs
from regard import registry
from regard.errors import RegardError
from regard.recipes.base import LentBody, Recipe, recipe_of
from regard.recipes.settings import Settings, with_budget
from regard.runs.load import load_model
from regard.runs.run import Run

LORA = ("lora_down", "lora_up")

# ── settings


def resolve_defaults(
    recipe: Recipe, data: Any, kind: str | None, options: Mapping[str, Any], start: Run | None = None
) -> Settings:
    """The settings that options change: the recipe's for this data and kind of model, with the body of an
    earlier run.

    options: those that were given; they are not set here.
    """
    return refine_defaults(recipe, find_defaults(recipe, data, kind, options, start), data, options, start)


def find_defaults(
    recipe: Recipe, data: Any, kind: str | None, options: Mapping[str, Any], start: Run | None = None
) -> Settings:
    """The recipe's settings for this data and kind of model. options: those that are known already"""
    if isinstance(data, str) and not data.strip():
        raise RegardError(
            f"data must be a path, got {data!r}; leave --data out to train on the built-in data of "
            f"{recipe.name}"
        )
    if kind is None and start is not None:
        kind = start.config.kind if start.config.imported is not None else _lent_kind(recipe, start)
    early = {name: options[name] for name in recipe.early_options if name in options}
    return recipe.defaults(data, kind, early)


def refine_defaults(
    recipe: Recipe, settings: Settings, data: Any, options: Mapping[str, Any], start: Run | None = None
) -> Settings:
    """The defaults as these options change them, with the body of an earlier run."""
    is_path = data is None or isinstance(data, str | os.PathLike)
    settings = with_budget(recipe.refine_defaults(settings, options, None if is_path else data), options)
    if start is None:
        return settings
    return _with_body(recipe, settings, start)


# ── from an earlier run


def _with_body(recipe: Recipe, settings: Settings, start: Run) -> Settings:
    """The settings with the body of an earlier run's model, and a head of its own."""
    if start.config.model is None:
        raise RegardError(f"{start.path} holds no model of a recipe to start from; give a run of a recipe")
    wanted = _kind_of(recipe, settings)
    fits = start.config.kind in (wanted, *recipe.bodies.get(wanted, ()))
    if not fits and _lent_body(start, wanted) is None:
        raise RegardError(
            f"cannot start from {start.path}: it holds a model of the kind {start.config.kind}, but this run "
            f"trains a model of the kind {wanted}; start from a run of that kind: regard train {recipe.name} "
            f"--model {wanted}"
        )
    known = _body_config(recipe, settings, start)
    body = {name: known[name] for name in _shared(recipe, settings, start)}
    model = configs.from_dict(type(settings.model), configs.to_dict(settings.model) | body)
    return recipe.refine_start(replace(settings, model=model), start)


def check_body(recipe: Recipe, settings: Settings, start: Run) -> None:
    """Raise a ValueError if settings of the body differ from those of the earlier run."""
    body, wanted = _body_config(recipe, settings, start), configs.to_dict(settings.model)
    for name in _shared(recipe, settings, start):
        if wanted[name] != body[name]:
            raise RegardError(
                f"cannot start from {start.path}: model.{name} is {body[name]!r} there, but "
                f"{wanted[name]!r} here. Leave it out, or train without --from"
            )


def _shared(recipe: Recipe, settings: Settings, start: Run) -> list[str]:
    """Names of model settings that a run takes over from the earlier run."""
    known = {field.name for field in fields(type(settings.model))}
    return sorted(known & set(_body_config(recipe, settings, start)) - recipe.not_inherited)


def _kind_of(recipe: Recipe, settings: Settings) -> str:
    """The name in the registry of the kind of model that is trained."""
    return next(
        kind for kind in recipe.models if registry.find("models", kind).Config is type(settings.model)
    )


def _lent_body(start: Run, kind: str) -> LentBody | None:
    """A model of this kind inside that of an earlier run; None: there is none."""
    if start.config.recipe is None or start.config.kind == kind:
        return None
    lent = recipe_of(start).lend_body(start)
    if lent is None or lent.kind != kind:
        return None
    return lent


def _lent_kind(recipe: Recipe, start: Run) -> str | None:
    """The kind of model that an earlier run of another recipe lends a body to, if this recipe trains it."""
    if start.config.recipe in (None, recipe.name):
        return None
    lent = recipe_of(start).lend_body(start)
    if lent is None or lent.kind not in recipe.models:
        return None
    return lent.kind


def _body_config(recipe: Recipe, settings: Settings, start: Run) -> Mapping[str, Any]:
    """The config of the body to start from."""
    lent = _lent_body(start, _kind_of(recipe, settings))
    if lent is not None:
        return lent.config
    return start.config.model or {}


def copy_weights(model: nn.Module, start: Run, kind: str | None = None) -> None:
    """Start from the weights of an earlier run: all of the body must fit; a head may be new. kind: of the
    model, in the registry; None: that of the earlier run"""
    lent = None if kind is None else _lent_body(start, kind)
    theirs = load_model(start).state_dict() if lent is None else lent.weights()
    mine = model.state_dict()
    fitting = {
        name: theirs[name] for name in mine if name in theirs and theirs[name].shape == mine[name].shape
    }
    missing = [name for name in mine if name not in fitting and not _may_be_new(name)]
    if missing:
        first, more = missing[0], len(missing) - 1
        if first in theirs:
            there: tuple[int, ...] | str = tuple(theirs[first].shape)
        else:
            there = "missing"
        also = f", and {more} more" if more else ""
        raise RegardError(
            f"cannot start from {start.path}: {first} is {there} there and "
            f"{tuple(mine[first].shape)} here{also}"
        )
    model.load_state_dict(fitting, strict=False)


def _may_be_new(name: str) -> bool:
    """A head, or a small map beside one that is there."""
    return name.startswith(("head.", "pool.", "bag.", "gate.")) or name.endswith(LORA)
