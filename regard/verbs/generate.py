"""regard generate: text from a trained model; of other runs new samples, or a dreamed episode."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, get_args

from regard import registry
from regard.errors import RegardError, name_keywords
from regard.generation import Weights
from regard.generation import generate as generation
from regard.recipes.base import get_recipe, problem_of_run
from regard.recipes.problem import generates_nothing
from regard.targets.imported import open_run
from regard.verbs.load import load
from regard.verbs.options import options_help, read_options


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
    if weights not in get_args(Weights):
        raise RegardError(f"weights must be one of {', '.join(get_args(Weights))}, got {weights!r}")
    return problem_of_run(run).load_to_write(run, weights, note)


def _load_generator(model: Any, weights: str | None) -> Any:
    """A model that generates: that of a run if a path is given. Raise for other models."""
    if isinstance(model, str | os.PathLike):
        model = load(model) if weights is None else load_to_write(model, weights)
    elif weights is not None:
        raise RegardError(f"weights={weights!r} goes with the path of a run; give a path, or leave weights out")
    generation.check_generates(model)
    return model


# ── the command


def run(words: list[str]) -> int:
    """regard generate RUN ..."""
    path = words[0] if words else ""
    if not path or path.startswith("-"):
        raise RegardError(f"regard generate takes one run first, got {path or 'none'}; see: regard generate --help")
    found = open_run(path)
    problem = problem_of_run(found)
    if problem.generate_options is None:
        raise generates_nothing(found)
    options, rest = read_options(problem.generate_options, words[1:], "regard generate")
    if rest:
        raise RegardError(f"regard generate takes one run, got {' '.join([path, *rest])}; see: regard generate --help")
    for piece in problem.generate(found, options, lambda note: print(f"regard: {note}", file=sys.stderr)):
        print(piece, end="", flush=True)
    return 0


def explain(words: list[str]) -> str:
    """The options of every recipe that generates something."""
    found = {name: options for name in registry.entries("recipes") for options in _generate_options(name)}
    every = "--help-all" in words
    return "\n".join(
        f"a run of {name}:\n{options_help(options, 'regard generate', every=every)}" for name, options in found.items()
    )


def _generate_options(name: str) -> list[Any]:
    """The classes of options of the problems of a recipe that generate, each once."""
    return list(
        dict.fromkeys(each.generate_options for each in get_recipe(name).problems.values() if each.generate_options)
    )
