"""Small configurations of Hugging Face's architectures: every default, made small by rules on the names of its fields.

No rule names an architecture. What a rule cannot know (sizes that one model wants to divide another) is in EXCEPTIONS.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

WIDTH, HEADS, HEAD, INNER, VOCAB, PLACES, LAYERS = 32, 4, 8, 48, 120, 160, 2
Rule = Callable[[int], int]


def to(size: int) -> Rule:
    """No larger than size."""
    return lambda given: min(given, size)


# The first pattern that matches a whole field name decides. Numbers in lists are made small one by one, keeping their ratios.
RULES: tuple[tuple[str, Rule], ...] = (
    (r"type_vocab_size|pretraining_tp|.*(range|factor|_eps|rate|coefficient|cost|index|idx)", to(10**9)),
    (r".*vocab_size|n_token|vocab_size_per_layer_input", to(VOCAB)),
    (r".*(token_ids?|token_index|_token)", lambda given: given if given < VOCAB else 40 + given % 61),
    (r"(|.*_)(num_key_value_heads|num_kv_heads|n_kv_heads)", lambda given: 1 if given == 1 else 2),  # fewer than heads
    (r"(|.*_)(num_heads|attention_heads|n_heads?|num_attention_heads|heads)|linear_num_(key|value)_heads", to(HEADS)),
    (r"(|.*_)(d_head|head_dim|d_kv|attention_head_dim|attention_head_size|rotary_dim)", to(HEAD)),
    (r"(q|kv|o)_lora_rank", to(16)),
    (r".*(intermediate_size|ffn_dim|d_ff|n_inner|d_inner|inner_dim|mlp_dim)", to(INNER)),
    (r".*(feedforward_dim|dim_feedforward|ffn_hidden_size)", to(INNER)),
    (
        r"(|.*_)(num_hidden_layers|n_layers?|num_layers|num_blocks|depth|encoder_layers|decoder_layers|layers)",
        to(LAYERS),
    ),
    (r"(|.*_)num_(en|de)coder_layers", to(LAYERS)),
    (r"depths|layer_depths|num_block_repeats|first_k_dense_replace|.*_offset", to(1)),
    (r".*_(period|interval|pattern)", to(2)),
    (r"max_.*positions?(_embeddings)?|n_positions|n_ctx|max_seq_len|max_sequence_length", to(PLACES)),
    (r"sliding_window|local_attention|window_size|attention_window|attention_chunk_size", to(8)),
    (r"(|.*_)image_size|input_size", to(32)),
    (r"(|.*_)patch_size", to(4)),
    (r"num_experts_per_tok|moe_topk|moe_k|top_k|topk", to(2)),
    (r"(|.*_)(num_experts|num_local_experts|n_routed_experts|moe_num_experts)", to(4)),
    (r"n_group|topk_group|num_expert_group", to(1)),
    (
        r"(|.*_)(hidden_sizes?|d_model|n_embd|embed_dims?|emb_dim|dim|hidden_dim|embedding_size|embedding_dim)",
        to(WIDTH),
    ),
    (r"(|.*_)(projection_dim|word_embed_proj_dim)", to(WIDTH)),
)
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
SWIN = {"image_size": 64, "patch_size": 2, "window_size": 4}  # every stage has a whole number of windows
EXCEPTIONS: dict[str, dict[str, Any]] = {
    "audio-spectrogram-transformer": {"max_length": 64, "num_mel_bins": 32},
    "bamba": {"attn_layer_indices": [1]},
    "bit": {"embedding_size": 32, "num_groups": 4, "hidden_sizes": [32, 64, 96, 128]},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "donut-swin": SWIN,
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "glm4v_text": {"rope_parameters": MROPE},
    "glm_ocr_text": {"rope_parameters": MROPE},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "grounding-dino": {"num_queries": 100},
    "hunyuan_v1_dense": {"head_dim": HEAD},
    "hunyuan_v1_moe": {"head_dim": HEAD},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 2},
    "maskformer-swin": SWIN,
    "ministral": {"head_dim": HEAD},
    "mm-grounding-dino": {"num_queries": 100},
    "nemotron": {"num_key_value_heads": 2},
    "pegasus_x": {"block_size": 8, "num_global_tokens": 2},
    "qwen2_5_vl_text": {"rope_parameters": MROPE},
    "qwen2_vl_text": {"rope_parameters": MROPE},
    "reformer": {"axial_pos_embds_dim": (8, 24), "axial_pos_shape": (4, 8), "lsh_attn_chunk_length": 8}
    | {"local_attn_chunk_length": 8},
    "swin": SWIN,
    "swin2sr": {"image_size": 16, "window_size": 4, "depths": [2, 2], "num_heads": [2, 2]},
    "wav2vec2-bert": {"vocab_size": VOCAB},
    "wav2vec2-conformer": {"vocab_size": VOCAB},
    "xmod": {"default_language": "en_XX"},
    "zamba": {"num_hidden_layers": 3},
}


def shrunk(name: str, value: Any) -> Any:
    """One field's value, made small if a rule knows its name."""
    if isinstance(value, bool) or not isinstance(value, int | list | tuple):
        return value
    rule = next((rule for pattern, rule in RULES if re.fullmatch(pattern, name)), None)
    if rule is None:
        return value
    if isinstance(value, int):
        return rule(value) if value > 0 else value
    if not all(isinstance(each, int) for each in value) or not value or min(value) <= 0:
        return value
    if "image" in name or "token" in name or "depth" in name or "patch" in name:
        return type(value)(rule(each) for each in value)
    least = min(value)
    if "head" in name:
        return type(value)(max(1, each // least) for each in value)
    low = min(least, max(8, rule(least) // 2))
    return type(value)(-(-low * each // least // 8) * 8 for each in value)


def default(field: Any) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default


def shrunk_picture(value: Any, size: int) -> Any:
    return min(value, size) if isinstance(value, int) else type(value)(min(each, size) for each in value)


def small(cls: Any, **given: Any) -> Any:
    """A small configuration of a class; `given` goes before every rule."""
    from transformers import PreTrainedConfig

    common = {field.name for field in fields(PreTrainedConfig)}
    given_by_class = {
        field.name: default(field) for field in fields(cls) if field.name not in common and field.name[0] != "_"
    }
    values = {name: less for name, value in given_by_class.items() if (less := shrunk(name, value)) != value}
    if "layer_types" in given_by_class and "num_hidden_layers" in values:
        values["num_hidden_layers"] = 2 * LAYERS  # one of each type
    if {"depths", "hidden_sizes", "embed_dims"} & set(given_by_class) and "image_size" in values:
        values["image_size"] = shrunk_picture(given_by_class["image_size"], 64)  # every stage halves it
    for name, value in given_by_class.items():
        if name.endswith("num_key_value_heads") and value == given_by_class.get(name.replace("key_value", "attention")):
            values[name] = HEADS
    for key, spec in cls.sub_configs_defaults.items():
        if spec.optional and key not in given:
            continue
        inner = (
            spec.config_class
            if issubclass(spec.config_class, PreTrainedConfig)
            else spec.get_config_class(spec.model_type)
        )
        values[key] = small(inner, **{name: shrunk(name, value) for name, value in spec.init_kwargs.items()})
    return cls(**{**values, **given})
