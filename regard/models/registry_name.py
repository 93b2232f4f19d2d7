"""Is a module one of our models, just as its config makes it? Then a run of it can be opened without whoever
made it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from regard import registry

SIMPLE = (int, float, str, type(None))
CHANGES = (
    "forward",
    "_forward_hooks",
    "_forward_pre_hooks",
)  # what somebody else may have put in, and changes what it does


def registered_name(model: nn.Module) -> str | None:
    """Its name in the registry; None of another module, and of one of ours in which something was changed
    afterwards."""
    lives = f"{type(model).__module__}:{type(model).__qualname__}"
    name = next((name for name, entry in registry.entries("models").items() if entry.target == lives), None)
    config: Any = getattr(model, "config", None)
    if name is None or type(config) is not type(model).Config:  # type: ignore[attr-defined]
        return None
    with torch.random.fork_rng(devices=[]):
        again = type(model)(config)
    if _outline(again) == _outline(model):
        return name
    return None


def _outline(model: nn.Module) -> dict[str, Any]:
    """What a module is made of, but for the numbers that it learned: classes, plain settings and shapes, each
    by its name."""
    parts = {name: (type(part), _settings(part)) for name, part in model.named_modules()}
    return parts | {f"{name} of the state": tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def _settings(part: nn.Module) -> dict[str, Any]:
    """Plain values that it holds, and whether somebody gave it a forward or hooks of their own."""
    held = vars(part)
    changed = {name: bool(held.get(name)) for name in CHANGES}
    return changed | {name: value for name, value in held.items() if _is_simple(value) and name != "training"}


def _is_simple(value: Any) -> bool:
    return isinstance(value, SIMPLE) or (isinstance(value, tuple) and all(map(_is_simple, value)))
