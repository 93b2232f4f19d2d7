"""What a command is pointed at: a run of ours, a Hugging Face directory, or package.module:function -> a model with inputs."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard import registry
from regard.look.reader import Fixed, Reader
from regard.recipes.images.reader import OwnPicture
from regard.recipes.images.tensor_reader import DRAWN, reader_of_pictures
from regard.recipes.sets.reader import reader_of_things
from regard.recipes.sets.run_reader import reader_of_run
from regard.recipes.text.reader import OwnText
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.symmetry.roles import Roles, named
from regard.symmetry.subject import first_line
from regard.targets import hugging_face as foreign
from regard.targets.readers import reader_of

KINDS = "a run directory, a Hugging Face model directory, or package.module:function"
RETURNS = "(model, inputs[, symmetry[, roles]])"
RANDOM = "{} has no weights (*.safetensors) in it, so they are random (seed {}): what it learned cannot be seen here."
FUNCTION = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)")


@dataclass(frozen=True)
class Target:
    """A model, inputs that it takes by name, and what is known of them; None: what the model itself says, or a guess."""

    model: nn.Module
    inputs: dict[str, Any]
    symmetry: Any | None
    roles: Roles | None
    name: str
    reader: Reader  # makes inputs of what a person writes
    run: Run | None = None
    notes: tuple[str, ...] = ()  # what a reader should know of the model


def open_target(
    text: str | os.PathLike[str], *, seed: int = 0, tokens: int | None = None, rows: int | None = None
) -> Target:
    """The model that a text names, with inputs for it.

    text    a run directory, a Hugging Face model directory, or package.module:function
    seed    of random weights, where a directory has none, and of the inputs
    tokens  how many tokens the inputs have, and `rows` how many rows; None: a few. A function makes its own inputs.
    """
    for name, value in (("tokens", tokens), ("rows", rows)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    path = Path(text)
    if (file := re.fullmatch(r"(.+)\.py:(\w+)", str(text))) is not None:
        module = ".".join(part for part in Path(file[1]).parts if part != ".")
        raise ValueError(
            f"{text} names a file; name its module, as for python -m: did you mean {module}:{file[2]}?"
        )
    if path.is_dir():
        return of_directory(path, seed, tokens, rows)
    if path.exists():
        raise ValueError(f"{path} is a file; give {KINDS}")
    match = FUNCTION.fullmatch(str(text))
    if match is None:
        raise ValueError(f"there is no directory {str(text)!r}; give {KINDS}")
    return of_function(match[1], match[2])


def hugging_face(
    model: nn.Module,
    *,
    seed: int = 0,
    tokens: int | None = None,
    rows: int | None = None,
    name: str = "",
    path: Path | None = None,
) -> Target:
    """A model of Hugging Face with inputs made from its configuration, what each of them is, and what it promises.

    path  the directory that has its tokenizer, or its preprocessing of pictures
    """
    inputs, roles = foreign.describe(model, seed=seed, tokens=tokens, rows=rows)
    reader = None if path is None else reader_of(path, model)
    return Target(model, inputs, None, roles, name or type(model).__name__, reader or Fixed(inputs))


# ---- directories


def of_directory(path: Path, seed: int, tokens: int | None, rows: int | None) -> Target:
    file = path / "config.json"
    if not file.exists():
        raise ValueError(f"{path} has no config.json; give {KINDS}")
    try:
        config = json.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{file} cannot be read: {first_line(error)}") from error
    if isinstance(config, dict) and "regard" in config:
        return of_run(path, seed, tokens, rows)
    if isinstance(config, dict) and ("model_type" in config or "architectures" in config):
        model = foreign.open_directory(path, seed)
        target = hugging_face(model, seed=seed, tokens=tokens, rows=rows, name=path.resolve().name, path=path)
        return replace(
            target,
            notes=() if foreign.has_weights(path) else (RANDOM.format(path.resolve().name, seed),),
        )
    raise ValueError(
        f"{file} is of no run (no 'regard' in it) and of no Hugging Face model (no 'model_type'); give {KINDS}"
    )


def of_run(path: Path, seed: int, tokens: int | None, rows: int | None) -> Target:
    """The run's model with its best weights. Inputs are those of the model's tiny(), to the measure of this one."""
    run = Run.open(path)
    if run.config.get("kind") is None:
        raise ValueError(
            f"{path} holds the weights of a module of your own, which only you can make: write a function that makes it, puts "
            f"the weights in (regard.runs.load.load_weights) and returns (model, inputs), and give "
            f"my_module:my_function instead"
        )
    try:
        model = load_model(run)
    except FileNotFoundError as error:
        raise ValueError(str(error)) from error
    small, inputs = registry.find("models", run.config["kind"]).tiny()
    config: Any = model.config
    draw = torch.Generator().manual_seed(seed)
    if hasattr(config, "features"):
        inputs = {key: fitting(x, small.config, config, draw) for key, x in inputs.items()}
    elif hasattr(config, "colours"):
        size = (config.colours, config.size, config.size)
        inputs = {key: torch.randn(len(x), *size, generator=draw) for key, x in inputs.items()}
    elif hasattr(config, "vocab"):
        n = min(tokens or foreign.TOKENS, config.context or foreign.TOKENS)
        ids = torch.randint(config.vocab, (rows or foreign.ROWS, n), generator=draw)
        inputs = {key: ids if is_ids(x) else x for key, x in inputs.items()}
    text = OwnText(run, model) if run.tokenizer_file.exists() else None
    picture = OwnPicture(run, model) if run.config.get("recipe") == "images" else None
    things = reader_of_run(run, model, inputs) or reader_of_things(model, inputs, None)
    reader = text or picture or things or reader_of_pictures(model, inputs, None, DRAWN) or Fixed(inputs)
    known = getattr(model, "symmetry", None), getattr(model, "roles", None)
    return Target(model, inputs, *known, path.resolve().name, reader, run)


def fitting(x: Any, small: Any, config: Any, draw: torch.Generator) -> Any:
    """Real-valued things of a small model, as many numbers each as this one takes, and no more of them than it takes."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.shape[-1] != small.features:
        return x
    return torch.randn(
        *x[..., : getattr(config, "size", None), :].shape[:-1], config.features, generator=draw
    )


def is_ids(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dim() == 2 and not x.is_floating_point() and x.dtype != torch.bool


# ---- functions


def of_function(package: str, name: str) -> Target:
    """What a function of the user's own returns, put into one form."""
    whole = f"{package}:{name}"
    made = called(found(package, name), whole)
    if not isinstance(made, tuple | list) or not 2 <= len(made) <= 4:
        got = f"{len(made)} things" if isinstance(made, tuple | list) else type(made).__name__
        raise ValueError(f"{whole} returned {got}; it should return {RETURNS}")
    model, inputs, symmetry, roles = (*made, None, None)[:4]
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"{whole} returned {type(model).__name__} as its model; it should be a torch.nn.Module, in {RETURNS}"
        )
    if not isinstance(inputs, Tensor | Mapping | tuple | list) or not len(inputs):
        kind = type(inputs).__name__
        raise ValueError(
            f"{whole} returned {kind} as inputs; they should be a tensor, a tuple of them, or a dict by name"
        )
    if roles is None and isinstance(symmetry, Roles):
        raise ValueError(
            f"{whole} returned roles in the place of the symmetry; return (model, inputs, None, roles)"
        )
    if roles is not None and not isinstance(roles, Roles):
        raise ValueError(
            f"{whole} returned {type(roles).__name__} as roles; they should be regard.symmetry.roles.Roles"
        )
    by_name = named(model, inputs)
    reader = (
        reader_of_things(model, by_name, roles) or reader_of_pictures(model, by_name, roles) or Fixed(by_name)
    )
    return Target(model, by_name, symmetry, roles, whole, reader)


def found(package: str, name: str) -> Callable[[], Any]:
    """A function by its name. The current directory comes first, as for python -m."""
    here = os.getcwd()
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is not None and (package == error.name or package.startswith(f"{error.name}.")):
            raise ValueError(
                f"{package}:{name}: there is no module {error.name!r} in {here}, nor is one installed"
            ) from error
        raise ValueError(f"{package} cannot be imported: {first_line(error)}") from error
    except Exception as error:
        raise ValueError(f"{package} cannot be imported: {first_line(error)}") from error
    finally:
        if added:
            sys.path.remove(here)
    function = getattr(module, name, None)
    if function is None:
        own = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise ValueError(f"{package} has no function {name!r}{foreign.near(name, own)}")
    if not callable(function):
        raise ValueError(
            f"{package}:{name} is {type(function).__name__}, no function; name one that returns {RETURNS}"
        )
    needed = [
        p.name
        for p in parameters(function)
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if needed:
        raise ValueError(
            f"{package}:{name} needs {', '.join(needed)}; name a function without arguments, returning {RETURNS}"
        )
    made: Callable[[], Any] = function
    return made


def parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # something written in C
        return []


def called(function: Callable[[], Any], whole: str) -> Any:
    try:
        return function()
    except Exception as error:
        raise ValueError(f"{whole} failed: {first_line(error)}") from error
