"""GPT-2: a decoder with learned positions and layer norms."""

from __future__ import annotations

from typing import Any

from regard.models.decoder import DecoderConfig
from regard.models.experts import PlainMLP
from regard.pretrained.family import Family
from regard.pretrained.foreign_config import ACTIVATION_NAMES, ACTIVATIONS, ForeignConfig
from regard.pretrained.names import Names, Row, Stacked, Transposed, linear, norm, row


def read(theirs: ForeignConfig, predicts: str) -> DecoderConfig:
    theirs.require("scale_attn_weights", True)
    theirs.require("scale_attn_by_inverse_layer_idx", False)
    theirs.require("add_cross_attention", False)
    theirs.ignore("attn_pdrop", "embd_pdrop", "resid_pdrop", "reorder_and_upcast_attn", "n_ctx")
    theirs.ignore(*(name for name in theirs.plain if name.startswith("summary_")))
    dim = theirs.whole("n_embd", 768)
    hidden = theirs.get("n_inner", None)
    return DecoderConfig(
        vocab=theirs.whole("vocab_size", 50257),
        context=theirs.whole("n_positions", 1024),
        dim=dim,
        depth=theirs.whole("n_layer", 12),
        heads=theirs.whole("n_head", 12),
        eps=theirs.number("layer_norm_epsilon", 1e-5),
        mlp=PlainMLP(
            activation=theirs.choice("activation_function", "gelu_new", ACTIVATIONS),
            hidden=4 * dim if hidden is None else hidden,
        ),
        tied=theirs.flag("tie_word_embeddings", True),
        position="learned",
        norm="layernorm",
        qk_norm=False,
        offset=True,
    )


def write(config: DecoderConfig) -> tuple[str, dict[str, Any]]:
    return "GPT2LMHeadModel", {
        "vocab_size": config.vocab,
        "n_positions": config.context,
        "n_embd": config.dim,
        "n_layer": config.depth,
        "n_head": config.heads,
        "n_inner": config.mlp.hidden or 4 * config.dim,
        "layer_norm_epsilon": config.eps or 1e-5,
        "activation_function": ACTIVATION_NAMES.get(config.mlp.activation, config.mlp.activation),
        "tie_word_embeddings": config.tied,
    }


def names(config: DecoderConfig) -> Names:
    rows: list[Row] = [
        row("transformer.wte.weight", "embed.weight"),
        row("transformer.wpe.weight", "stack.position.of.table"),
        *norm("transformer.ln_f", "stack.norm"),
    ]
    for i in range(config.depth):
        theirs, ours = f"transformer.h.{i}", f"stack.blocks.{i}"
        attention, mlp = f"{ours}.attention.f", f"{ours}.mlp.f"
        maps = [f"{attention}.{name}" for name in ("to_q", "to_k", "to_v")]
        rows += norm(f"{theirs}.ln_1", f"{ours}.attention.norm")
        rows += linear(f"{theirs}.attn.c_attn", *maps, weight=Transposed(3), joined=Stacked(3))
        rows += linear(f"{theirs}.attn.c_proj", f"{attention}.mix", weight=Transposed())
        rows += norm(f"{theirs}.ln_2", f"{ours}.mlp.norm")
        rows += linear(f"{theirs}.mlp.c_fc", f"{mlp}.up", weight=Transposed())
        rows += linear(f"{theirs}.mlp.c_proj", f"{mlp}.down", weight=Transposed())
    copies = {"lm_head.weight": "transformer.wte.weight"}
    if not config.tied:
        rows.append(row("lm_head.weight", "head.weight"))
        copies = {}
    return Names(
        rows=tuple(rows),
        copies=copies,
        left_out=(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",),
        prefix="transformer.",
    )


GPT2 = Family("gpt2", "decoder", {"GPT2LMHeadModel": "tokens"}, read, write, names)
