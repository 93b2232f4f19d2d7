"""Which family of others has the parts of a model of ours, and its files in their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from regard.config import to_dict
from regard.errors import RegardError
from regard.models.encoder import EncoderConfig
from regard.models.experts import ExpertsMLP, PlainMLP
from regard.models.sequence_model import OFFSETS, SequenceConfig
from regard.models.vit import ViTConfig
from regard.nn.lora import merge
from regard.nn.moe import default_gate, default_hidden
from regard.pretrained.families import FAMILIES
from regard.pretrained.family import Family
from regard.pretrained.foreign_config import ForeignConfig
from regard.pretrained.hugging_face import to_hugging_face

IN_TRAINING = ("dropout", "drop_path", "zero_start", "balance")  # options that change nothing when a model is used


def export(
    kind: str, config: Any, state: Mapping[str, Tensor], preferred: str | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """config.json and the tensors of Hugging Face for a model of ours. preferred: the family it came from"""
    if getattr(config, "lora", 0):
        config, state = replace(config, lora=0), merge(state)
    config, state = _with_places(config, state)
    family = find_family(kind, config, preferred)
    return to_hugging_face(family, config, state)


def find_family(kind: str, config: Any, preferred: str | None = None) -> Family:
    """The family that can say all of a config: what it writes and reads again is the same model."""
    families = [family for family in FAMILIES.values() if family.kind == kind]
    if not families:
        known = ", ".join(sorted({family.kind for family in FAMILIES.values()}))
        raise RegardError(f"Hugging Face has no model like regard's {kind}; those that are exported: {known}")
    families.sort(key=lambda family: family.model_type != preferred)
    problems: dict[str, dict[str, Any]] = {}
    for family in families:
        problems[family.model_type] = _differences(family, config)
        if not problems[family.model_type]:
            return family
    nearest = min(problems, key=lambda name: len(problems[name]))
    values = {
        name: reduce(lambda at, each: getattr(at, each, None), name.split("."), config) for name in problems[nearest]
    }
    given = {name: value for name, value in values.items() if value is not None}
    options = ", ".join(f"{name}={value!r}" for name, value in given.items())
    theirs = {f"--model.{name.replace('_', '-')}": problems[nearest][name] for name in given}
    if None in theirs.values():
        advice = ""
    else:
        advice = f"; a run trained with {' '.join(f'{flag} {value}' for flag, value in theirs.items())} can be exported"
    raise RegardError(
        f"no family of Hugging Face has all parts of this {kind}; the nearest is {nearest}, which has no {options}"
        + advice
    )


def _differences(family: Family, config: Any) -> dict[str, Any]:
    """Options that a family cannot say, with what it has in their place."""
    name, plain = family.write(config)
    try:
        again = family.read(_written(name, plain, family, config), family.classes[name])
    except RegardError:
        return {each: None for each in to_dict(config) if each not in IN_TRAINING}
    mine, theirs = canonical(config), canonical(again)
    return {each: theirs.get(each) for each in sorted(mine) if mine[each] != theirs.get(each)}


def _written(name: str, plain: dict[str, Any], family: Family, config: Any) -> ForeignConfig:
    """What would be written, as it would be read."""
    names = family.names(config).theirs
    whole = {"model_type": family.model_type, "architectures": [name], **plain}
    return ForeignConfig(whole, "config.json", names)


def canonical(config: Any) -> dict[str, Any]:
    """The options of a config that say what its model computes, each in one form."""
    found = {name: value for name, value in to_dict(config).items() if name not in IN_TRAINING}
    if found.get("eps") is None:
        found["eps"] = 1e-6 if found.get("norm") == "rmsnorm" else 1e-5
    if isinstance(config, SequenceConfig):
        found |= _canonical_sequence(config)
    if found.get("hidden") is None and "hidden" in found:
        found["hidden"] = 4 * config.dim
    if getattr(config, "position", "rotary") not in ("rotary", "sinusoidal", "concatenated"):
        found["base"] = None
    return _flat(found)


def _flat(found: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names, so that what differs is named as its option is."""
    flat: dict[str, Any] = {}
    for name, value in found.items():
        inner = _flat(value) if isinstance(value, dict) else {}
        flat |= {f"{name}.{each}": one for each, one in inner.items()} or {name: value}
    return flat


def _canonical_sequence(config: SequenceConfig) -> dict[str, Any]:
    offsets, mlp, rope = OFFSETS.get(config.offsets, ()), config.mlp, config.rope
    if config.offsets == "usual" and config.offset:
        offsets = OFFSETS["attention"] if mlp.activation == "swiglu" and mlp.kind == "plain" else OFFSETS["all"]
    found: dict[str, Any] = {
        "kv_heads": config.kv_heads or config.heads,
        "head_dim": config.channels,
        "offset": None,
        "offsets": list(offsets),
        "mlp": _canonical_mlp(mlp, config.dim),
    }
    turns = config.position == "rotary"
    scaled = turns and rope.scaling != "none"
    ramp = scaled and rope.scaling != "linear"
    found["rope"] = {
        "channels": rope.channels or config.channels if turns else None,
        "scaling": rope.scaling if scaled else "none",
        "factor": rope.factor if scaled else None,
        **{name: getattr(rope, name) if ramp else None for name in ("original", "low", "high")},
    }
    found["unused_places"] = config.unused_places if config.position == "learned" else None
    if isinstance(config, EncoderConfig):
        predicts = config.classes is None and config.head != "none"
        found["tied"] = config.tied if predicts else None
        found["head"] = config.head if config.classes is None else None
        found["pool"] = None if predicts else config.pool
    return found


def _canonical_mlp(mlp: PlainMLP | ExpertsMLP, dim: int) -> dict[str, Any]:
    found = {name: value for name, value in to_dict(mlp).items() if name not in IN_TRAINING}
    if isinstance(mlp, ExpertsMLP):
        found["gate"] = mlp.gate or default_gate(mlp.chosen)
        found["hidden"] = mlp.hidden or default_hidden(dim, mlp.chosen, mlp.activation)
    elif mlp.hidden is None:
        found["hidden"] = max(8, 8 * round(dim / 3)) if mlp.activation == "swiglu" else 4 * dim
    return found


def _with_places(config: Any, state: Mapping[str, Tensor]) -> tuple[Any, Mapping[str, Tensor]]:
    """Theirs give the class token a learned place: where ours has none, it is zero."""
    if not isinstance(config, ViTConfig) or config.placed or config.pool == "mean" or config.registers:
        return config, state
    return replace(config, placed=1), {**state, "places": torch.zeros(1, config.dim)}
