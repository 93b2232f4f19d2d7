"""Directories of Hugging Face: config.json and safetensors in, and out again. No other library reads them, and
no code of theirs is run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import files
from regard.errors import RegardError, did_you_mean
from regard.pretrained.families import FAMILIES
from regard.pretrained.family import Family, translate
from regard.pretrained.foreign_config import ForeignConfig
from regard.pretrained.labels import read_labels
from regard.pretrained.names import Names
from regard.pretrained.weights import Pretrained

INDEX = "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
MOST_LAYERS = 1024


def is_hugging_face(path: files.PathLike) -> bool:
    """Is this a directory with a config.json of Hugging Face?"""
    file = Path(path) / "config.json"
    if not file.is_file():
        return False
    try:
        plain = files.read_json(file)
    except ValueError:
        return False
    return isinstance(plain, dict) and "regard" not in plain and "model_type" in plain


def read_directory(path: files.PathLike) -> Pretrained:
    """The model of a directory, as one of ours."""
    path = Path(path)
    plain = files.read_json(path / "config.json")
    if not isinstance(plain, dict):
        raise RegardError(f"{path / 'config.json'} holds no settings of a model")
    family, predicts = find_family(plain, path)
    tensors = _read_tensors(path)
    theirs = ForeignConfig(plain, str(path / "config.json"), tensors)
    config, names = translate(family, theirs, predicts)
    state, left_out = names.read(tensors, str(path))
    notes = []
    if left_out:
        more = f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        notes.append(f"left out, as the model does not need them: {', '.join(left_out[:3])}{more}")
    found = Pretrained(
        kind=family.kind,
        config=config,
        state={name: tensor.float() for name, tensor in state.items()},
        origin=family.model_type,
        predicts=predicts,
        labels=read_labels(plain) if predicts == "classes" else (),
        notes=tuple(notes),
        where=str(path),
        left_out=left_out,
    )
    found.check()
    return found


def find_family(plain: Mapping[str, Any], path: Path) -> tuple[Family, str]:
    """The family that a config.json names, and what its class predicts."""
    model_type = plain.get("model_type")
    family = FAMILIES.get(str(model_type))
    if family is None:
        known = ", ".join(FAMILIES)
        raise RegardError(
            f"{path}: models of the type {model_type!r} cannot be imported; "
            f"{did_you_mean(str(model_type), FAMILIES)}known: {known}"
        )
    name = _class_of(plain, family)
    if name not in family.classes:
        raise RegardError(
            f"{path}: {name} cannot be imported; known classes of {model_type}: {', '.join(family.classes)}"
        )
    depth = next((plain[key] for key in ("num_hidden_layers", "n_layer", "n_layers") if key in plain), 1)
    if type(depth) is int and depth > MOST_LAYERS:
        raise RegardError(f"{path / 'config.json'}: {depth:.3g} layers; at most {MOST_LAYERS:,} are read")
    return family, family.classes[name]


def _class_of(plain: Mapping[str, Any], family: Family) -> str:
    """The class that a config.json names; the first of the family if it names none."""
    named = plain.get("architectures")
    if isinstance(named, list) and named:
        return str(named[0])
    return next(iter(family.classes))


def _read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a directory, from one file or from several."""
    found: dict[str, Tensor] = {}
    for file in _weight_files(path):
        tensors = files.read_tensors(file)
        twice = sorted(found.keys() & tensors.keys())
        if twice:
            raise RegardError(f"{file} holds {twice[0]}, which another file of {path} holds, too")
        found |= tensors
    for name, tensor in found.items():
        if not tensor.is_floating_point() and tensor.dtype not in (torch.bool, torch.uint8, torch.int64):
            raise RegardError(f"{path}: {name} holds {tensor.dtype}; only floating-point weights are read")
    return found


def _weight_files(path: Path) -> list[Path]:
    index = path / INDEX
    if index.exists():
        plain = files.read_json(index)
        places = plain.get("weight_map") if isinstance(plain, dict) else None
        if not isinstance(places, dict):
            raise RegardError(f"{index} has no weight_map")
        named = sorted({str(name) for name in places.values()})
        wrong = [name for name in named if Path(name).name != name or not name.endswith(".safetensors")]
        if wrong:
            raise RegardError(f"{index} names {wrong[0]!r}, which is no safetensors file beside it")
        return [path / name for name in named]
    if (path / "model.safetensors").exists():
        return [path / "model.safetensors"]
    single = sorted(path.glob("*.safetensors"))
    if len(single) == 1:
        return single
    if single:
        raise RegardError(
            f"{path} has {len(single)} safetensors files and no {INDEX} that says how they belong together"
        )
    pickled = sorted(each.name for pattern in PICKLES for each in path.glob(pattern))
    if pickled:
        raise RegardError(
            f"{path} has its weights only in {pickled[0]}, a pickle, which is never opened; save them as safetensors"
        )
    raise RegardError(f"{path} has no weights: there is no model.safetensors in it")


def to_hugging_face(
    family: Family, config: Any, state: Mapping[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Their config.json and their tensors, for a config and the state of a model of ours."""
    name, plain = family.write(config)
    names: Names = family.names(config)
    return {"model_type": family.model_type, "architectures": [name], **plain}, names.write(state)
