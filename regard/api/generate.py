"""Text from a trained model: a run by its path, or a loaded model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from torch import nn

from regard.api.load import load
from regard.errors import RegardError
from regard.generation import generate as generation


def generate(model: nn.Module | str | os.PathLike[str], prompt: str = "", **how: Any) -> Iterator[str]:
    """Pieces of text as they are generated: generate("runs/mine", "Once upon", max_new=50, seed=0).

    model  what `load` gave, or the path of a run; several texts at once: regard.api.generate.samples
    """
    model = _load_generator(model)
    if how.get("samples", 1) != 1:
        raise RegardError(
            f"generate returns one text, got samples={how['samples']}; use regard.api.generate.samples"
        )
    return generation.generate(model, prompt, **how)


def samples(model: nn.Module | str | os.PathLike[str], prompt: str = "", **how: Any) -> list[str]:
    """Several texts at once: samples("runs/mine", "Once upon", samples=3, seed=0)."""
    return generation.generate_texts(_load_generator(model), prompt, **how)


def _load_generator(model: nn.Module | str | os.PathLike[str]) -> nn.Module:
    """A model that generates: that of a run if a path is given. Raise for other models."""
    if isinstance(model, str | os.PathLike):
        model = load(model)
    generation.check_generates(model)
    return model
