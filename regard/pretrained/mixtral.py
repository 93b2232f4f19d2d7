"""Mixtral: a Mistral whose MLPs are experts, of which each token passes a few."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.models.decoder import DecoderConfig
from regard.models.experts import ExpertsMLP
from regard.nn.moe import default_hidden
from regard.pretrained import llama
from regard.pretrained.family import Family
from regard.pretrained.foreign_config import ForeignConfig
from regard.pretrained.names import Names, Row, row

CLASS = "MixtralForCausalLM"
# what is meant where a configuration is silent
DEFAULTS: Mapping[str, Any] = {
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "rms_norm_eps": 1e-5,
    "sliding_window": None,
}
ROPE = {"rope_type": "default", "rope_theta": 1_000_000.0}
MAPS = {"gate": "w1", "down": "w2", "up": "w3"}


def read(theirs: ForeignConfig, predicts: str) -> DecoderConfig:
    # what counts in training only
    theirs.ignore("router_aux_loss_coef", "router_jitter_noise", "output_router_logits")
    count, chosen = theirs.whole("num_local_experts", 8), theirs.whole("num_experts_per_tok", 2)
    if chosen == 1:
        raise theirs.refuse("num_experts_per_tok", chosen, "2 experts or more for each token")
    silent = {} if {"rope_theta", "rope_parameters"} & set(theirs.plain) else {"rope_parameters": ROPE}
    theirs.plain = {**DEFAULTS, **silent, **theirs.plain}
    dense = llama.read("mistral", theirs, predicts)
    mlp = ExpertsMLP(count=count, chosen=chosen, activation="swiglu", hidden=dense.mlp.hidden, gate="chosen")
    return replace(dense, mlp=mlp)


def experts_of(config: DecoderConfig) -> ExpertsMLP:
    """Its experts. What has none is written with some, too: what it is read as again then differs from it."""
    return config.mlp if isinstance(config.mlp, ExpertsMLP) else ExpertsMLP()


def write(config: DecoderConfig) -> tuple[str, dict[str, Any]]:
    mlp = experts_of(config)
    _, found = llama.write("mistral", config)
    found |= {
        "num_local_experts": mlp.count,
        "num_experts_per_tok": mlp.chosen,
        "intermediate_size": mlp.hidden or default_hidden(config.dim, mlp.chosen, "swiglu"),
    }
    return CLASS, found


def names(config: DecoderConfig) -> Names:
    mlp = experts_of(config)
    dense = llama.names(config)
    rows: list[Row] = [each for each in dense.rows if ".mlp." not in each.theirs]
    stacks: dict[str, tuple[str, ...]] = {}
    for i in range(config.depth):
        theirs, ours = f"model.layers.{i}.block_sparse_moe", f"stack.blocks.{i}.mlp.f"
        rows.append(row(f"{theirs}.gate.weight", f"{ours}.route.router.weight"))
        for name, their_name in MAPS.items():
            stacks[f"{ours}.{name}.weight"] = tuple(
                f"{theirs}.experts.{number}.{their_name}.weight" for number in range(mlp.count)
            )
    return replace(dense, rows=tuple(rows), stacks=stacks)


MIXTRAL = Family("mixtral", "decoder", {CLASS: "tokens"}, read, write, names)
