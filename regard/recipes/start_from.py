"""A run that starts from an earlier one: with its body, and a head of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from torch import nn

from regard import config as configs
from regard.errors import RegardError
from regard.recipes.base import LentBody, Recipe, recipe_of
from regard.recipes.settings import Settings, kind_of
from regard.runs.load import load_model
from regard.runs.run import Run

LORA = ("lora_down", "lora_up")


def with_body(recipe: Recipe, settings: Settings, start: Run) -> Settings:
    """The settings with the body of an earlier run's model, and a head of its own."""
    if start.config.model is None:
        raise RegardError(f"{start.path} holds no model of a recipe to start from; give a run of a recipe")
    wanted = kind_of(recipe.models, settings)
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


def _lent_body(start: Run, kind: str) -> LentBody | None:
    """A model of this kind inside that of an earlier run; None: there is none."""
    if start.config.recipe is None or start.config.kind == kind:
        return None
    lent = recipe_of(start).lend_body(start)
    if lent is None or lent.kind != kind:
        return None
    return lent


def lent_kind(recipe: Recipe, start: Run) -> str | None:
    """The kind of model that an earlier run of another recipe lends a body to, if this recipe trains it."""
    if start.config.recipe in (None, recipe.name):
        return None
    lent = recipe_of(start).lend_body(start)
    if lent is None or lent.kind not in recipe.models:
        return None
    return lent.kind


def _body_config(recipe: Recipe, settings: Settings, start: Run) -> Mapping[str, Any]:
    """The config of the body to start from."""
    lent = _lent_body(start, kind_of(recipe.models, settings))
    if lent is not None:
        return lent.config
    return start.config.model or {}


def copy_weights(model: nn.Module, start: Run, kind: str | None = None) -> None:
    """Start from the weights of an earlier run: all of the body must fit; a head may be new. kind: of the
    model, in the registry; None: that of the earlier run"""
    lent = None if kind is None else _lent_body(start, kind)
    theirs = load_model(start).state_dict() if lent is None else lent.weights()
    mine = model.state_dict()
    fitting = {name: theirs[name] for name in mine if name in theirs and theirs[name].shape == mine[name].shape}
    missing = [name for name in mine if name not in fitting and not _may_be_new(name)]
    if missing:
        first, more = missing[0], len(missing) - 1
        if first in theirs:
            there: tuple[int, ...] | str = tuple(theirs[first].shape)
        else:
            there = "missing"
        also = f", and {more} more" if more else ""
        raise RegardError(
            f"cannot start from {start.path}: {first} is {there} there and {tuple(mine[first].shape)} here{also}"
        )
    model.load_state_dict(fitting, strict=False)


def _may_be_new(name: str) -> bool:
    """A head, or a small map beside one that is there."""
    return name.startswith(("head.", "pool.", "bag.", "gate.")) or name.endswith(LORA)
