"""The model of a run: built from its config, with its best weights. A module of the user's own is built again by its class."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from copy import deepcopy
from functools import reduce
from importlib import import_module
from typing import Any

import torch
from torch import nn

from regard import files, registry
from regard.errors import RegardError
from regard.models.memory_estimate import build_within_memory
from regard.runs.run import Run


def build(run: Run) -> nn.Module:
    """A new model of the run's kind and config, with initial weights."""
    if run.config.build is not None:
        return _build_again(run.config.build, str(run.path))
    if run.config.kind is None:
        raise RegardError(
            f"{run.path} holds the weights of a module of your own ({run.config.module or 'unknown'}), which regard cannot "
            f"build (the module that you trained has those of the last step); {how_to_load(run)}; then call it, or give it "
            "to regard.check or regard.record, or as model= to regard.evaluate or regard.predict"
        )
    cls = registry.find("models", run.config.kind)
    try:
        return build_within_memory(cls, run.section(cls.Config, "model"))
    except RegardError as error:
        raise RegardError(f"{run.path}: {error}") from error


def how_to_load(run: Run) -> str:
    """The Python that gives the trained model of a run that no recipe made."""
    if run.config.kind is not None or run.config.build is not None:
        return f"regard.load({str(run.path)!r})"
    return (
        f"build the module, then load_weights({str(run.path)!r}, module) puts them into it (from regard.runs.load import "
        "load_weights)"
    )


def load_model(run: Run, module: nn.Module | None = None) -> nn.Module:
    """The run's model with its best weights, ready for use (eval mode, on the CPU). module: one like it, which is copied,
    where regard cannot build it"""
    model = build(run) if module is None else deepcopy(module).cpu()
    load_weights(run, model)
    return model.eval()


def load_weights(run: Run | files.PathLike, model: nn.Module) -> None:
    """Put the best weights of a run, or of the run in this folder, into a module."""
    run = run if isinstance(run, Run) else Run.open(run)
    if not run.model_file.exists():
        raise FileNotFoundError(
            f"{run.path} has no model.safetensors yet: training writes it at the first evaluation on the "
            "validation split"
        )
    tensors = files.read_tensors(run.verify(run.model_file.name))
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise RegardError(
                f"{run.model_file} does not fit {type(model).__name__}: '{name}' is "
                f"{found.get(name, 'missing')} in the file and {wanted.get(name, 'unknown')} in the model"
            )
    for name, _ in model.named_parameters():
        if name in tensors and not bool(tensors[name].isfinite().all()):
            raise RegardError(
                f"{run.model_file} cannot be used: '{name}' holds NaN or infinity; train it again with a "
                "smaller --train.lr, or see: regard verify"
            )
    model.load_state_dict(tensors)


# ── a module of the user's own

LIBRARIES = ("torch", "transformers", "regard")
PLAIN = (bool, int, float, str, type(None))


def describe_build(model: nn.Module) -> dict[str, Any] | None:
    """What makes a module like this one again: its class, and its config (of Hugging Face) or those arguments that it keeps
    as attributes. None: the class cannot be imported, or would make another one."""
    cls = type(model)
    if cls.__module__ == "__main__" or "<" in cls.__qualname__:
        return None
    found: dict[str, Any] = {"class": f"{cls.__module__}:{cls.__qualname__}"}
    config: Any = getattr(model, "config", None)
    if hasattr(config, "to_dict") and hasattr(cls, "config_class"):
        found["config"] = files.parse_json(files.json_text(config.to_dict()).encode(), "config")
    else:
        known = {name: getattr(model, name) for name in inspect.signature(cls).parameters if hasattr(model, name)}
        found["arguments"] = {name: value for name, value in known.items() if isinstance(value, PLAIN)}
    try:
        with torch.random.fork_rng(devices=[]):
            again = _build_again(found, "it")
    except Exception:  # the class wants what is not kept
        return None
    shapes = [{name: x.shape for name, x in each.state_dict().items()} for each in (model, again)]
    return found if shapes[0] == shapes[1] and repr(model) == repr(again) else None


def _build_again(found: Mapping[str, Any], where: str) -> nn.Module:
    """A new module of this class. No file alone runs code: a module that is not of a library must have been imported, and only
    subclasses of torch.nn.Module are called."""
    module, _, name = str(found["class"]).partition(":")
    if module not in sys.modules and module.partition(".")[0] not in LIBRARIES:
        raise RegardError(
            f"{where} holds weights of the class {name} of {module}, which is not imported, and no file alone runs code; "
            f"in Python, import {module} first"
        )
    try:
        cls = reduce(getattr, name.split("."), import_module(module))
    except (ImportError, AttributeError) as error:
        raise RegardError(
            f"{where} holds weights of {module}.{name}, which cannot be imported here: {error}"
        ) from error
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        raise RegardError(f"{where} names {module}.{name}, which is no torch.nn.Module")
    made: Any = cls
    if "config" in found:
        model: nn.Module = made(made.config_class.from_dict(found["config"]))
    else:
        model = made(**found["arguments"])
    return model
