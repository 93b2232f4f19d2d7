"""What an architecture of Hugging Face promises, law by law: "holds", or "not promised" where it cannot, or
does not claim to.

Read off the configuration, the forward and the modules. What cannot be known is left out; a law of hygiene
that is left out counts as promised, because a user relies on it.
"""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from regard.symmetry.roles import Roles

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
CAPACITY = (
    "expert_capacity",
    "capacity_factor",
    "moe_eval_capacity_token_fraction",
)  # tokens compete for places at an expert
RANDOM = ("noise", "noise_sequence", "noise_scale")  # it draws numbers, also in eval mode, unless it is given them
EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "canine": ("padding",),  # pools characters by fours, whatever the mask
    "convbert": ("padding",),  # convolves over neighbouring tokens, whatever the mask
    "cpmant": (
        "causality",
        "cache",
        "padding",
        "precision",
    ),  # reads a prompt both ways, and takes the id 0 for padding
    "fastspeech2_conformer": (
        "neighbours",
        "padding",
    ),  # how much it says follows from values, so rows have no common length
    "funnel": ("padding",),  # pools tokens by twos, whatever the mask
    "mobilebert": ("padding",),  # reads three tokens at once; only the pad id itself reads as nothing
    "nystromformer": ("padding",),  # its landmarks are means of equal parts, padding included
    "reformer": ("padding",),  # hashes; works in chunks
    "sam3_lite_text_text_model": ("padding",),  # stretches its places to the length
    "unlimited_ocr": ("cache",),  # what is read at once is kept for good, and what is written only for a while
    "vilt": (
        "determinism",
        "neighbours",
        "padding",
        "precision",
    ),  # draws which patches it reads, and their order, at random
    "xclip": ("neighbours",),  # writes a prompt for each pair of a text and a video
}
RIGHT_ONLY = ("recurrent_gemma",)  # its recurrence has no mask
CACHES = ("past_key_values", "cache_params", "state")  # what a model calls its past


def is_causal(model: nn.Module) -> bool:
    """Does its attention look back only? Its modules say so, or else its configuration and its place in the
    library."""
    said = {module.is_causal for module in model.modules() if isinstance(getattr(module, "is_causal", None), bool)}
    if len(said) == 1:
        return bool(said.pop())
    config: Any = model.config
    if getattr(config, "attn_type", None) == "bi":  # XLNet
        return False
    if getattr(config, "is_decoder", None) is not None:
        return bool(config.is_decoder)
    names = inspect.signature(model.forward).parameters
    return any(name in names for name in CACHES) or _generates(model)


def _generates(model: nn.Module) -> bool:
    """Is its class, or one of the same family, listed among those that write text from left to right?"""
    from transformers.models.auto import modeling_auto as auto

    model_type = getattr(model.config, "model_type", None)
    return (
        model_type in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        and model_type not in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    )


def sides(model: nn.Module, places: bool) -> tuple[str, ...]:
    """Where padding may be put. At the left only if places can be given, or count as differences: T5's
    buckets, ALiBi."""
    config: Any = model.config
    relative = getattr(config, "relative_attention_num_buckets", None) is not None or config.model_type in (
        "bloom",
        "mpt",
    )
    layer_types = getattr(config.get_text_config(), "layer_types", None) or ()
    # counted from the left, where padding would move them
    blocks = any("compressed" in str(layer) for layer in layer_types)
    alone = blocks or config.model_type in RIGHT_ONLY
    if (places or relative) and not alone:
        return ("right", "left")
    return ("right",)


def promises(model: nn.Module, roles: Roles, follows: bool) -> dict[str, str]:
    """Law -> what is promised. `follows`: the output has one entry for each token."""
    never = ["permutation", *EXCEPTIONS.get(str(getattr(model.config, "model_type", "")), ())]
    never += ["shift", "rotation", "reflection"] if roles.grid is not None else []
    found = {}
    if roles.streams:
        causal = roles.stream is not None and (roles.stream.tokens.startswith("decoder_") or is_causal(model))
        found["causality"] = "holds" if causal else "not promised"
        never += ["reordering"] if causal else []  # a causal mask goes by slots, not by places
        if not follows and (causal or roles.read is not None):
            never += [
                "padding",
                "reach",
            ]  # pooled at a token that is found by its id, such as the last that is not padding
    if _has(model, *EXPERTS) or hasattr(model.config, "num_queries"):
        never += ["precision"]  # a rounding may send a token to another expert, or choose another box
    if _has(model, *CAPACITY):
        never += ["neighbours"]
    if any(name in inspect.signature(model.forward).parameters or hasattr(model.config, name) for name in RANDOM):
        never += ["determinism", "neighbours", "precision"]
    return {**found, **dict.fromkeys(never, "not promised")}


def _has(model: nn.Module, *names: str) -> bool:
    """Has its configuration, or a part of it, one of these fields with a number above 1?"""
    parts = [model.config, *(getattr(model.config, part, None) for part in ("text_config", "encoder", "decoder"))]
    values = [getattr(part, name, None) for part in parts for name in names]
    return any(isinstance(value, int | float) and value > 1 for value in values)
