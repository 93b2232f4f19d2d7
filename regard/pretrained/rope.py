"""Rotary settings of Hugging Face: rope_theta and rope_scaling of older files, rope_parameters of newer ones."""

from __future__ import annotations

import math
from typing import Any

from regard.errors import RegardError
from regard.models.sequence_model import SequenceConfig
from regard.pretrained.foreign_config import ForeignConfig

KNOWN = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "attention_factor"),
}


def read_rope(
    theirs: ForeignConfig, theta: str = "rope_theta", share: str = "partial_rotary_factor"
) -> dict[str, Any]:
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
    found |= {"rope_scaling": kind, "rope_factor": factor}
    if kind != "linear":
        found["rope_original"] = given.get("original_max_position_embeddings") or context
    if kind == "llama3":
        found |= {"rope_low": float(given["low_freq_factor"]), "rope_high": float(given["high_freq_factor"])}
    if kind == "yarn":
        usual = 0.1 * math.log(factor) + 1
        amplitude = given.get("attention_factor")
        if amplitude is not None and not math.isclose(amplitude, usual, rel_tol=1e-6):
            raise theirs.refuse(
                "attention_factor", amplitude, f"that of yarn with factor {factor:g}: {usual:.6g}"
            )
        found |= {
            "rope_low": float(given.get("beta_slow") or 1.0),
            "rope_high": float(given.get("beta_fast") or 32.0),
        }
    return found


def write_rope(config: SequenceConfig) -> dict[str, Any]:
    """rope_parameters that say the same."""
    found: dict[str, Any] = {"rope_type": "default", "rope_theta": config.base}
    if config.rotary_channels is not None:
        found["partial_rotary_factor"] = config.rotary_channels / config.channels
    if config.rope_scaling == "none":
        return found
    found |= {"rope_type": config.rope_scaling, "factor": config.rope_factor}
    if config.rope_scaling != "linear":
        found["original_max_position_embeddings"] = config.rope_original
    if config.rope_scaling == "llama3":
        found |= {"low_freq_factor": config.rope_low, "high_freq_factor": config.rope_high}
    if config.rope_scaling == "yarn":
        found |= {"beta_slow": config.rope_low, "beta_fast": config.rope_high}
    return found
