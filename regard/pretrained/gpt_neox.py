"""GPT-NeoX (Pythia): attention and MLP beside each other, and a part of each head turned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.models.decoder import DecoderConfig
from regard.models.experts import PlainMLP
from regard.models.sequence_model import RopeConfig
from regard.pretrained.family import Family
from regard.pretrained.foreign_config import ACTIVATION_NAMES, ACTIVATIONS, ForeignConfig
from regard.pretrained.names import ByHead, Names, Row, linear, norm, row
from regard.pretrained.rope import read_rope, write_rope


def read(theirs: ForeignConfig, predicts: str) -> DecoderConfig:
    theirs.require("is_decoder", False, True)
    theirs.ignore("attention_dropout", "hidden_dropout", "rotary_pct", "rotary_emb_base")
    dim, heads = theirs.whole("hidden_size", 6144), theirs.whole("num_attention_heads", 64)
    rope = read_rope(theirs, "rotary_emb_base", "rotary_pct")
    share = rope.pop("rotary_share")
    turned = int(dim // heads * (0.25 if share is None else share))
    parallel = theirs.flag("use_parallel_residual", True)
    return DecoderConfig(
        vocab=theirs.whole("vocab_size", 50432),
        context=theirs.whole("max_position_embeddings", 2048),
        dim=dim,
        depth=theirs.whole("num_hidden_layers", 44),
        heads=heads,
        eps=theirs.number("layer_norm_eps", 1e-5),
        mlp=PlainMLP(
            activation=theirs.choice("hidden_act", "gelu", ACTIVATIONS), hidden=theirs.whole("intermediate_size", 24576)
        ),
        tied=theirs.flag("tie_word_embeddings", False),
        offsets="all" if theirs.flag("attention_bias", True) else "mlp",
        placement="parallel" if parallel else "pre",
        position="rotary",
        norm="layernorm",
        qk_norm=False,
        base=rope["base"],
        rope=replace(rope.get("rope", RopeConfig()), channels=None if turned == dim // heads else turned),
    )


def write(config: DecoderConfig) -> tuple[str, dict[str, Any]]:
    rope = write_rope(config)
    rope.setdefault("partial_rotary_factor", 1.0)
    return "GPTNeoXForCausalLM", {
        "vocab_size": config.vocab,
        "max_position_embeddings": config.context,
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "intermediate_size": config.mlp.hidden or 4 * config.dim,
        "layer_norm_eps": config.eps or 1e-5,
        "hidden_act": ACTIVATION_NAMES.get(config.mlp.activation, config.mlp.activation),
        "tie_word_embeddings": config.tied,
        "attention_bias": config.offsets == "all" or (config.offsets == "usual" and config.offset),
        "use_parallel_residual": config.placement == "parallel",
        "rope_parameters": rope,
    }


def names(config: DecoderConfig) -> Names:
    rows: list[Row] = [
        row("gpt_neox.embed_in.weight", "embed.weight"),
        *norm("gpt_neox.final_layer_norm", "stack.norm"),
    ]
    attends = config.offsets == "all"
    by_head = ByHead(config.heads)
    for i in range(config.depth):
        theirs, ours = f"gpt_neox.layers.{i}", f"stack.blocks.{i}"
        attention, mlp = f"{ours}.attention.f", f"{ours}.mlp.f"
        maps = [f"{attention}.{name}" for name in ("to_q", "to_k", "to_v")]
        rows += norm(f"{theirs}.input_layernorm", f"{ours}.attention.norm")
        rows += linear(f"{theirs}.attention.query_key_value", *maps, bias=attends, weight=by_head, joined=by_head)
        rows += linear(f"{theirs}.attention.dense", f"{attention}.mix", bias=attends)
        rows += norm(f"{theirs}.post_attention_layernorm", f"{ours}.mlp.norm")
        rows += linear(f"{theirs}.mlp.dense_h_to_4h", f"{mlp}.up")
        rows += linear(f"{theirs}.mlp.dense_4h_to_h", f"{mlp}.down")
    copies = {"embed_out.weight": "gpt_neox.embed_in.weight"}
    if not config.tied:
        rows.append(row("embed_out.weight", "head.weight"))
        copies = {}
    return Names(
        rows=tuple(rows),
        copies=copies,
        left_out=(r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",),
    )


GPT_NEOX = Family("gpt_neox", "decoder", {"GPTNeoXForCausalLM": "tokens"}, read, write, names)
