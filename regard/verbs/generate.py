"""Text from a trained model: a run by its path, or a loaded model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from regard.errors import RegardError, name_keywords
from regard.generation import generate as generation
from regard.recipes.base import recipe_of
from regard.targets.imported import open_run
from regard.verbs.load import load

WEIGHTS = ("auto", "float32", "bfloat16", "int8", "int4")


@name_keywords
def generate(model: Any, prompt: str = "", *, weights: str | None = None, **how: Any) -> Iterator[str]:
    """Pieces of text as they are generated: generate("runs/mine", "Once upon", max_new=50, seed=0).

    model    what `load` or `load_to_write` gave, or the path of a run; several texts at once:
             regard.verbs.generate.samples
    weights  of a path: float32, bfloat16, int8, int4 or auto, as docs/generation.md says; None: float32 in PyTorch
    """
    model = _load_generator(model, weights)
    if how.get("samples", 1) != 1:
        raise RegardError(f"generate returns one text, got samples={how['samples']}; use regard.verbs.generate.samples")
    return generation.generate(model, prompt, **how)


@name_keywords
def samples(model: Any, prompt: str = "", *, weights: str | None = None, **how: Any) -> list[str]:
    """Several texts at once: samples("runs/mine", "Once upon", samples=3, seed=0)."""
    return generation.generate_texts(_load_generator(model, weights), prompt, **how)


def load_to_write(
    path: str | os.PathLike[str], weights: str = "auto", note: Callable[[str], None] = lambda _: None
) -> Any:
    """A model for `generate`, and for nothing else, with weights of a kind. note: told what is not as usual"""
    run = open_run(path)
    if weights not in WEIGHTS:
        raise RegardError(f"weights must be one of {', '.join(WEIGHTS)}, got {weights!r}")
    return recipe_of(run).load_to_write(run, weights, note)


def _load_generator(model: Any, weights: str | None) -> Any:
    """A model that generates: that of a run if a path is given. Raise for other models."""
    if isinstance(model, str | os.PathLike):
        model = load(model) if weights is None else load_to_write(model, weights)
    elif weights is not None:
        raise RegardError(f"weights={weights!r} goes with the path of a run; give a path, or leave weights out")
    generation.check_generates(model)
    return model
