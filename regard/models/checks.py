"""What configurations of models must hold, each with its words for what does not; and a model that is the
same every time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch

from regard.errors import RegardError, nearest
from regard.models.memory import OnlyShapes


def check_names(config: Any) -> None:
    """Each field that is a Literal holds one of its values, or None where that may be."""
    hints = get_type_hints(type(config))
    for field in fields(config):
        hint, value = hints[field.name], getattr(config, field.name)
        names = [each for each in (hint, *get_args(hint)) if get_origin(each) is Literal]
        known = [name for each in names for name in get_args(each)]
        if names and value not in (*known, *([None] if NoneType in get_args(hint) else [])):
            near = nearest(value, known)
            hint = f"; did you mean {near!r}?" if near else ""
            raise RegardError(f"{field.name} must be one of {', '.join(known)}, got {value!r}{hint}")


def check_whole(config: Any, *names: str) -> None:
    """Each named field is a whole number above zero."""
    for name in names:
        value = getattr(config, name)
        if type(value) is not int or value < 1:
            raise RegardError(
                f"{name} of {type(config).__name__} must be a whole number above zero, got {value!r}"
            )


def check_from_zero(config: Any, *names: str) -> None:
    """Each named field is a whole number, 0 or more."""
    for name in names:
        value = getattr(config, name)
        if type(value) is not int or value < 0:
            raise RegardError(f"{name} must be a whole number, 0 or more, got {value!r}")


def check_dropout(config: Any) -> None:
    """What it drops in training is a share, and not all."""
    for name in ("dropout", "drop_path"):
        if not 0.0 <= getattr(config, name, 0.0) < 1.0:
            raise RegardError(f"{name} must be at least 0 and less than 1, got {getattr(config, name)}")


def check_patch(config: Any) -> None:
    """A patch is not larger than the images it is cut from."""
    if config.patch > config.size:
        raise RegardError(
            f"patches of {config.patch} pixels are larger than images of {config.size}: one would be the "
            f"whole image, and nothing could look at anything; take size={config.patch} or more, or a "
            "smaller patch"
        )


def check_heads(config: Any) -> None:
    """Its width can be divided among its heads."""
    if config.dim % config.heads:
        fits = config.dim + config.heads - config.dim % config.heads
        raise RegardError(
            f"dim must be a multiple of heads, got dim={config.dim} and heads={config.heads}; the next one "
            f"that fits is {fits}"
        )


def check_position(config: Any, positions: Mapping[str, Callable[[Any], Any]]) -> None:
    """Its position, made by a table of them, goes with its sizes."""
    try:
        with torch.device("meta"), OnlyShapes():
            positions[config.position](config)
    except ValueError as error:
        sizes = f"dim={config.dim} and heads={config.heads}"
        raise RegardError(f"position {config.position!r} does not go with {sizes}: {error}") from error


def build_seeded(cls: Any, config: Any) -> Any:
    """A model that is the same every time, without touching the random numbers of others."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return cls(config).eval()
