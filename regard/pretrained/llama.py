"""Llama, and what is a Llama by another name: Mistral (and its window), Qwen2 (and biases of queries, keys and
values), Qwen3 (and norms of queries and keys). SmolLM2 is a llama to the letter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from regard.models.attentions import FullAttention, WindowAttention, window_of
from regard.models.decoder import DecoderConfig
from regard.models.experts import PlainMLP
from regard.pretrained.family import Family
from regard.pretrained.foreign_config import ForeignConfig
from regard.pretrained.names import Names, Row, linear, norm, row
from regard.pretrained.rope import read_rope, write_rope

WINDOWED = ("mistral", "qwen2", "qwen3")
DEFAULT_CONTEXT = {"llama": 2048, "mistral": 131072, "qwen2": 32768, "qwen3": 32768}


def read(model_type: str, theirs: ForeignConfig, predicts: str) -> DecoderConfig:
    theirs.require("hidden_act", "silu")
    theirs.ignore("attention_dropout", "pretraining_tp", "rope_interleaved", "max_window_layers")
    heads = theirs.whole("num_attention_heads", 32)
    dim, depth = theirs.whole("hidden_size", 4096), theirs.whole("num_hidden_layers", 32)
    kv_heads, head_dim = theirs.get("num_key_value_heads", None), theirs.get("head_dim", None)
    if head_dim is None and model_type == "qwen3":
        head_dim = 128
    if head_dim is not None and head_dim * heads == dim:
        head_dim = None
    rope = read_rope(theirs)
    if rope.pop("rotary_share") not in (None, 1, 1.0):
        raise theirs.refuse("partial_rotary_factor", theirs.plain.get("partial_rotary_factor"), "all channels turned")
    attention_bias = model_type != "qwen2" and theirs.flag("attention_bias", False)
    window = read_window(model_type, theirs, depth)
    mlp_bias = model_type == "llama" and theirs.flag("mlp_bias", False)
    return DecoderConfig(
        vocab=theirs.whole("vocab_size", 32000),
        context=theirs.whole("max_position_embeddings", DEFAULT_CONTEXT[model_type]),
        dim=dim,
        depth=depth,
        heads=heads,
        kv_heads=None if kv_heads in (None, heads) else kv_heads,
        head_dim=head_dim,
        eps=theirs.number("rms_norm_eps", 1e-6),
        tied=theirs.flag("tie_word_embeddings", False),
        attention=FullAttention() if window is None else WindowAttention(width=window),
        offsets=OFFSETS[model_type == "qwen2", attention_bias, mlp_bias],
        position="rotary",
        norm="rmsnorm",
        mlp=PlainMLP(activation="swiglu", hidden=theirs.whole("intermediate_size", 11008)),
        qk_norm=model_type == "qwen3",
        **rope,
    )


# biases of queries, keys and values only; of the attention; of the MLP -> ours
OFFSETS: dict[tuple[bool, bool, bool], Any] = {
    (True, False, False): "qkv",
    (False, True, False): "attention",
    (False, False, True): "mlp",
    (False, True, True): "all",
    (False, False, False): "usual",
}


def read_window(model_type: str, theirs: ForeignConfig, depth: int) -> int | None:
    """How many tokens a token attends to; None: all before it. All layers must do the same."""
    types = theirs.get("layer_types", None)
    window = theirs.get("sliding_window", 4096 if model_type == "mistral" else None)
    if model_type not in WINDOWED:
        if window is not None:
            raise theirs.refuse("sliding_window", window, "none")
        return None
    if model_type != "mistral" and not theirs.flag("use_sliding_window", False):
        window = None
    if types is not None and len(set(types)) > 1:
        raise theirs.refuse("layer_types", types, "one type for all layers")
    first = theirs.plain.get("max_window_layers", 28)
    if types is None and model_type != "mistral" and window is not None:
        # before layer_types, layers from max_window_layers on had the window
        if 0 < first < depth:
            raise theirs.refuse("max_window_layers", first, "one type for all layers")
        if first >= depth:
            return None
    if types is not None and set(types) == {"full_attention"}:
        return None
    return window


def write(model_type: str, config: DecoderConfig) -> tuple[str, dict[str, Any]]:
    found: dict[str, Any] = {
        "vocab_size": config.vocab,
        "max_position_embeddings": config.context,
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads or config.heads,
        "head_dim": config.channels,
        "intermediate_size": config.mlp.hidden or max(8, 8 * round(config.dim / 3)),
        "rms_norm_eps": config.eps or 1e-6,
        "hidden_act": "silu",
        "tie_word_embeddings": config.tied,
        "rope_parameters": write_rope(config),
    }
    if model_type == "qwen2":
        del found["head_dim"]
    if model_type in ("llama", "qwen3"):
        found["attention_bias"] = config.offsets in ("attention", "all")
    if model_type == "llama":
        found["mlp_bias"] = config.offsets in ("mlp", "all")
    if model_type == "mistral":
        found["sliding_window"] = window_of(config)
    if model_type in ("qwen2", "qwen3"):
        window = window_of(config)
        windowed = window is not None
        kind = "sliding_attention" if windowed else "full_attention"
        found |= {"sliding_window": window, "use_sliding_window": windowed}
        found["layer_types"] = [kind] * config.depth
        found["max_window_layers"] = 0 if windowed else config.depth
    return CLASSES[model_type], found


def names(config: DecoderConfig) -> Names:
    rows: list[Row] = [row("model.embed_tokens.weight", "embed.weight"), *norm("model.norm", "stack.norm", shift=False)]
    queries = config.offsets in ("qkv", "attention", "all")
    mixed, mlps = config.offsets in ("attention", "all"), config.offsets in ("mlp", "all")
    for i in range(config.depth):
        theirs, ours = f"model.layers.{i}", f"stack.blocks.{i}"
        attention, mlp = f"{ours}.attention.f", f"{ours}.mlp.f"
        rows += norm(f"{theirs}.input_layernorm", f"{ours}.attention.norm", shift=False)
        for name in "qkv":
            rows += linear(f"{theirs}.self_attn.{name}_proj", f"{attention}.to_{name}", bias=queries)
        rows += linear(f"{theirs}.self_attn.o_proj", f"{attention}.mix", bias=mixed)
        if config.qk_norm:
            rows += norm(f"{theirs}.self_attn.q_norm", f"{attention}.norm_q", shift=False)
            rows += norm(f"{theirs}.self_attn.k_norm", f"{attention}.norm_k", shift=False)
        rows += norm(f"{theirs}.post_attention_layernorm", f"{ours}.mlp.norm", shift=False)
        for name in ("gate", "up", "down"):
            rows += linear(f"{theirs}.mlp.{name}_proj", f"{mlp}.{name}", bias=mlps)
    copies = {"lm_head.weight": "model.embed_tokens.weight"}
    if not config.tied:
        rows.append(row("lm_head.weight", "head.weight"))
        copies = {}
    left_out = (r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",)
    return Names(rows=tuple(rows), copies=copies, left_out=left_out)


CLASSES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}


def _family(model_type: str) -> Family:
    reads: Callable[[ForeignConfig, str], DecoderConfig] = partial(read, model_type)
    return Family(model_type, "decoder", {CLASSES[model_type]: "tokens"}, reads, partial(write, model_type), names)


LLAMA, MISTRAL, QWEN2, QWEN3 = (_family(model_type) for model_type in CLASSES)
