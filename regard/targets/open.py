"""What a command is pointed at: a run of ours, a Hugging Face directory, or package.module:function -> a
model with inputs."""

from __future__ import annotations

import importlib
import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.files import read_json
from regard.look.reader import FixedReader, Reader
from regard.pretrained.open import is_foreign
from regard.recipes.base import foreign_reader, problem_of_run
from regard.recipes.processors import ForeignModel
from regard.runs.load import load_model
from regard.runs.run import Run, is_run_group, say_which_runs
from regard.symmetry.model_under_test import first_line
from regard.symmetry.roles import Roles, inputs_by_name
from regard.targets import hugging_face as foreign
from regard.targets.hugging_face_captions import caption_processor
from regard.targets.hugging_face_inputs import image_processor, text_processor
from regard.targets.imported import open_run

TARGETS = "a run directory, a Hugging Face model directory, a GGUF file, or package.module:function"
RETURNS = "(model, inputs[, symmetry[, roles]])"
FUNCTION = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)")
MOST_NUMBERS = 2**28  # of an input that is drawn


@dataclass(frozen=True, eq=False, kw_only=True)
class Target:
    """A model, inputs that it takes by name, and what is known of them; None: what the model itself says, or
    a guess."""

    model: nn.Module
    inputs: dict[str, Any]
    name: str
    make_reader: Callable[[], Reader]
    symmetry: Any | None = None
    roles: Roles | None = None
    run: Run | None = None
    notes: tuple[str, ...] = ()  # what a reader should know of the model

    @cached_property
    def reader(self) -> Reader:
        """What makes inputs of what a person gives; made when it is asked for, because it may read the data
        of a run."""
        return self.make_reader()


def open_target(
    text: str | os.PathLike[str], *, seed: int = 0, tokens: int | None = None, rows: int | None = None
) -> Target:
    """The model that a text names, with inputs for it.

    text    a run directory, a Hugging Face model directory, a GGUF file, or package.module:function
    seed    of random weights, where a directory has none, and of the inputs
    tokens  how many tokens the inputs have, and `rows` how many rows; None: a few. A function makes its own
            inputs.
    """
    for name, value in (("tokens", tokens), ("rows", rows)):
        if value is not None and value < 1:
            raise RegardError(f"{name} must be at least 1, got {value}")
    path = Path(text)
    if (file := re.fullmatch(r"(.+)\.py:(\w+)", str(text))) is not None:
        module = ".".join(part for part in Path(file[1]).parts if part != ".")
        raise RegardError(f"{text} names a file; name its module, as for python -m: did you mean {module}:{file[2]}?")
    if path.is_dir():
        return _target_of_directory(path, seed, tokens, rows)
    if is_foreign(path):
        run = open_run(path)
        return replace(target_of_run(run.path, seed, tokens, rows), name=path.name)
    if path.exists():
        raise RegardError(f"{path} is a file; give {TARGETS}")
    match = FUNCTION.fullmatch(str(text))
    if match is None:
        raise RegardError(f"there is no directory {str(text)!r}; give {TARGETS}")
    return _target_of_function(match[1], match[2])


def hugging_face(
    model: nn.Module,
    *,
    seed: int = 0,
    tokens: int | None = None,
    rows: int | None = None,
    name: str = "",
    path: Path | None = None,
) -> Target:
    """A model of Hugging Face with inputs made from its configuration, what each of them is, and what it
    promises.

    path  the directory that has its tokenizer, or its preprocessing of images
    """
    inputs, roles = foreign.describe(model, seed=seed, tokens=tokens, rows=rows)

    def reader() -> Reader:
        """Through the tokenizer or the preprocessing of the directory; without them, the inputs that were
        made."""
        if path is None:
            return FixedReader(inputs)
        how: dict[str, Any] = {"caption": caption_processor(path, model)}
        if how["caption"] is None:
            how = {"text": text_processor(path, model), "image": image_processor(path, model)}
        if not any(how.values()):
            return FixedReader(inputs)
        known = ForeignModel(model=model, inputs=inputs, roles=roles, **how)
        return foreign_reader(known) or FixedReader(inputs)

    return Target(model=model, inputs=inputs, roles=roles, name=name or type(model).__name__, make_reader=reader)


# ---- directories


def _target_of_directory(path: Path, seed: int, tokens: int | None, rows: int | None) -> Target:
    file = path / "config.json"
    if is_run_group(path):
        raise RegardError(say_which_runs(path))
    if not file.exists():
        raise RegardError(f"{path} has no config.json; give {TARGETS}")
    try:
        config = read_json(file)
    except OSError as error:
        raise RegardError(f"{file} cannot be read: {first_line(error)}") from error
    if isinstance(config, dict) and "regard" in config:
        return target_of_run(path, seed, tokens, rows)
    if isinstance(config, dict) and ("model_type" in config or "architectures" in config):
        model, notes = foreign.open_directory(path, seed)
        target = hugging_face(model, seed=seed, tokens=tokens, rows=rows, name=path.resolve().name, path=path)
        return replace(target, notes=notes)
    raise RegardError(
        f"{file} is of no run (no 'regard' in it) and of no Hugging Face model (no 'model_type'); give {TARGETS}"
    )


def target_of_run(
    path: Path, seed: int = 0, tokens: int | None = None, rows: int | None = None, model: nn.Module | None = None
) -> Target:
    """The run's model with its best weights, and random inputs to its measure. model: that model, if it is in
    memory already"""
    run = Run.open(path)
    if run.config.kind is None and run.config.build is None:
        raise RegardError(
            f"{path} holds the weights of a module of your own, which only you can make: write a function "
            "that makes it, puts "
            f"the weights in (regard.runs.load.load_weights) and returns (model, inputs), and give "
            f"my_module:my_function instead"
        )
    if model is None:
        try:
            model = load_model(run)
        except FileNotFoundError as error:
            raise RegardError(str(error)) from error
    network: Any = model
    known: dict[str, Any] = {
        "model": network,
        "name": path.resolve().name,
        "run": run,
        "symmetry": getattr(network, "symmetry", None),
        "roles": getattr(network, "roles", None),
    }
    if run.config.recipe is not None:
        inputs = network.sample_inputs(seed, tokens, rows)
        return Target(inputs=inputs, make_reader=lambda: problem_of_run(run).reader(run, network), **known)
    if run.config.inputs is not None and run.config.kind is None:
        inputs = _draw_inputs(run.config.inputs, seed)
    else:
        inputs = network.sample_inputs(seed, tokens, rows)
    unknown = ForeignModel(model=network, inputs=inputs, random=True)
    return Target(inputs=inputs, make_reader=lambda: foreign_reader(unknown) or FixedReader(inputs), **known)


def _draw_inputs(known: Mapping[str, Any], seed: int) -> dict[str, Tensor]:
    """Random inputs of the shapes that a module of the user's own was trained on."""
    random, found = torch.Generator().manual_seed(seed), dict[str, Tensor]()
    for name, about in known.items():
        shape, dtype = [int(each) for each in about["shape"]], getattr(torch, str(about["dtype"]), None)
        if not isinstance(dtype, torch.dtype) or not 0 < math.prod(shape) <= MOST_NUMBERS or min(shape) < 1:
            raise RegardError(f"config.json says that the input {name!r} is {about}, which is no tensor to draw")
        if dtype == torch.bool or "mask" in name:
            found[name] = torch.ones(shape, dtype=dtype)
        elif dtype.is_floating_point:
            found[name] = torch.randn(shape, generator=random).to(dtype)
        else:
            found[name] = torch.randint(about["most"] + 1, shape, generator=random).to(dtype)
    return found


# ---- functions


def _target_of_function(package: str, name: str) -> Target:
    """What a function of the user's own returns, put into one form."""
    whole = f"{package}:{name}"
    made = _called(_found(package, name), whole)
    if not isinstance(made, tuple | list) or not 2 <= len(made) <= 4:
        got = f"{len(made)} things" if isinstance(made, tuple | list) else type(made).__name__
        raise RegardError(f"{whole} returned {got}; it should return {RETURNS}")
    model, inputs, symmetry, roles = (*made, None, None)[:4]
    if not isinstance(model, nn.Module):
        raise RegardError(
            f"{whole} returned {type(model).__name__} as its model; it should be a torch.nn.Module, in {RETURNS}"
        )
    if not isinstance(inputs, Tensor | Mapping | tuple | list) or not len(inputs):
        got = type(inputs).__name__
        raise RegardError(
            f"{whole} returned {got} as inputs; they should be a tensor, a tuple of them, or a dict by name"
        )
    if roles is None and isinstance(symmetry, Roles):
        raise RegardError(f"{whole} returned roles in the place of the symmetry; return (model, inputs, None, roles)")
    if roles is not None and not isinstance(roles, Roles):
        raise RegardError(
            f"{whole} returned {type(roles).__name__} as roles; they should be regard.symmetry.roles.Roles"
        )
    by_name = inputs_by_name(model, inputs)
    known = ForeignModel(model=model, inputs=by_name, roles=roles)
    return Target(
        model=model,
        inputs=by_name,
        symmetry=symmetry,
        roles=roles,
        name=whole,
        make_reader=lambda: foreign_reader(known) or FixedReader(by_name),
    )


def _found(package: str, name: str) -> Callable[[], Any]:
    """A function by its name. The current directory comes first, as for python -m."""
    here = os.getcwd()
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is not None and (package == error.name or package.startswith(f"{error.name}.")):
            raise RegardError(
                f"{package}:{name}: there is no module {error.name!r} in {here}, nor is one installed"
            ) from error
        raise RegardError(f"{package} cannot be imported: {first_line(error)}") from error
    except Exception as error:
        raise RegardError(f"{package} cannot be imported: {first_line(error)}") from error
    finally:
        if added:
            sys.path.remove(here)
    function = getattr(module, name, None)
    if function is None:
        own = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise RegardError(f"{package} has no function {name!r}{foreign.near(name, own)}")
    if not callable(function):
        raise RegardError(
            f"{package}:{name} is {type(function).__name__}, no function; name one that returns {RETURNS}"
        )
    needed = [
        p.name
        for p in _parameters(function)
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if needed:
        raise RegardError(
            f"{package}:{name} needs {', '.join(needed)}; name a function without arguments, returning {RETURNS}"
        )
    made: Callable[[], Any] = function
    return made


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # something written in C
        return []


def _called(function: Callable[[], Any], whole: str) -> Any:
    try:
        return function()
    except Exception as error:
        raise RegardError(f"{whole} failed: {first_line(error)}") from error
