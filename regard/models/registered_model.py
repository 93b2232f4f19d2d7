"""What the registry asks of a model beside its forward; and whether a module is such a model, just as its config makes it: then
a run of it can be opened without whoever made it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeAlias

import torch
from torch import nn

from regard import registry
from regard.models.sample_inputs import build_seeded
from regard.symmetry.groups import Group

Options: TypeAlias = Mapping[str, Any]  # of a config
SIMPLE = (int, float, str, type(None))
# what somebody else may have put in, and changes what it does
CHANGES = ("forward", "_forward_hooks", "_forward_pre_hooks")


class RegisteredModel(nn.Module):
    """The base of models. It declares its `symmetry` and `roles`, which `check` measures on inputs that fit it."""

    Config: ClassVar[Any]
    keeps: Any  # a group, where `symmetry` is not defined by itself
    config: Any
    TINY: ClassVar[Options]  # of a small one
    TINY_INPUTS: ClassVar[Options] = {}  # tokens and rows of its inputs, where they are not the usual ones

    @property
    def symmetry(self) -> Group:
        """What may be done to the input so that the output moves along, or stays."""
        found: Group = self.keeps
        return found

    def sample_inputs(self, seed: int = 0, tokens: int | None = None, rows: int | None = None) -> dict[str, Any]:
        """Random inputs that fit the model."""
        raise NotImplementedError(f"{type(self).__name__} must define sample_inputs()")

    @classmethod
    def tiny(cls) -> tuple[Self, dict[str, Any]]:
        """A small one, and inputs for it: model(**inputs)."""
        model: Self = build_seeded(cls, cls.Config(**cls.TINY))
        return model, model.sample_inputs(**cls.TINY_INPUTS)


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
