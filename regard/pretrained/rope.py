"""Rotary settings of Hugging Face: rope_theta and rope_scaling of older files, rope_parameters of newer ones."""

from __future__ import annotations

import math
from typing import Any

from regard.errors import RegardError
from regard.models.sequence_model import RopeConfig, SequenceConfig
from regard.pretrained.foreign_config import ForeignConfig

KNOWN = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "attention_factor"),
}


def read_rope(theirs: ForeignConfig, theta: str = "rope_theta", share: str = "partial_rotary_factor") -> dict[str, Any]:
    """Our options for what a config.json says of its rotary positions; `rotary_share` is the share of channels
    that turn. theta, share: what the family called them before rope_parameters"""
    given: dict[str, Any] = {}
    for name in ("rope_scaling", "rope_parameters"):
        found = theirs.get(name, None) or {}
        if not isinstance(found, dict):
            raise RegardError(f"{theirs.where}: {name} must be an object, got {found!r}")
        given |= found
    kind = given.pop("rope_type", given.pop("type", "default")) or "default"
    given.pop("type", None)
    base = given.pop("rope_theta", theirs.get(theta, 10_000.0))
    turned = given.pop("partial_rotary_factor", theirs.get(share, None))
    context = theirs.plain.get("max_position_embeddings")
    found = {"base": float(base), "rotary_share": turned}
    if kind not in KNOWN:
        raise theirs.refuse("rope_type", kind, f"only {', '.join(KNOWN)}")
    unknown = sorted(name for name in given if name not in KNOWN[kind] and given[name] is not None)
    if unknown:
        raise theirs.refuse(unknown[0], given[unknown[0]], f"rope_type {kind!r} without it")
    if kind == "default":
        return found
    factor = float(given["factor"])
    rope: dict[str, Any] = {"scaling": kind, "factor": factor}
    if kind != "linear":
        rope["original"] = given.get("original_max_position_embeddings") or context
    if kind == "llama3":
        rope |= {"low": float(given["low_freq_factor"]), "high": float(given["high_freq_factor"])}
    if kind == "yarn":
        usual = 0.1 * math.log(factor) + 1
        amplitude = given.get("attention_factor")
        if amplitude is not None and not math.isclose(amplitude, usual, rel_tol=1e-6):
            raise theirs.refuse("attention_factor", amplitude, f"that of yarn with factor {factor:g}: {usual:.6g}")
        rope |= {"low": float(given.get("beta_slow") or 1.0), "high": float(given.get("beta_fast") or 32.0)}
    return found | {"rope": RopeConfig(**rope)}


def write_rope(config: SequenceConfig) -> dict[str, Any]:
    """rope_parameters that say the same."""
    found: dict[str, Any] = {"rope_type": "default", "rope_theta": config.base}
    if config.rope.channels is not None:
        found["partial_rotary_factor"] = config.rope.channels / config.channels
    if config.rope.scaling == "none":
        return found
    found |= {"rope_type": config.rope.scaling, "factor": config.rope.factor}
    if config.rope.scaling != "linear":
        found["original_max_position_embeddings"] = config.rope.original
    if config.rope.scaling == "llama3":
        found |= {"low_freq_factor": config.rope.low, "high_freq_factor": config.rope.high}
    if config.rope.scaling == "yarn":
        found |= {"beta_slow": config.rope.low, "beta_fast": config.rope.high}
    return found
