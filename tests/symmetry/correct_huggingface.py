"""Correct models of Hugging Face: small configs with random weights, nothing is downloaded.

What each promises is written out by hand. A causal mask of theirs goes by slots and not by places, so `reordering` is promised
by encoders only; padding at the left is promised where places are relative, or can be given.
"""

from __future__ import annotations

from typing import Any

import torch

from regard.symmetry.groups import Shifts
from regard.symmetry.roles import Inputs, Roles, Stream
from tests.symmetry.correct import ROW, TOKENS, Made, Table, adder, ids

LIBRARY = "Hugging Face"
TABLE: Table = {}
add = adder(TABLE)
VOCAB = 37
EITHER = ("right", "left")
SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2}


def config_of(name: str, **options: Any) -> Any:
    import transformers

    return getattr(transformers, f"{name}Config")(**SPECIAL | {"vocab_size": VOCAB} | options)


def built(name: str, config: Any) -> Any:
    import transformers

    transformers.logging.set_verbosity_error()  # some say that they fall back to a slower way, which is no matter here
    return getattr(transformers, name)(config)


def step(model: Any, new: Inputs, past: Any) -> tuple[Any, Any]:
    """New tokens go on from the past."""
    out = model(**new, past_key_values=past, use_cache=True)
    return out, out.past_key_values


GPT: dict[str, Any] = {"n_positions": 128, "n_embd": 32, "n_layer": 2, "n_head": 4}
LLAMA: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
}
GROUPED = LLAMA | {"num_key_value_heads": 2}
DECODES = f"{TOKENS} causality cache padding"


@add(DECODES, name="GPT-2", of="GPT2", **GPT)
@add(f"{DECODES} shift", name="GPT-J", seldom=True, of="GPTJ", rotary_dim=4, keeps=Shifts(), **GPT)
@add(f"{DECODES} shift", name="Llama", of="Llama", keeps=Shifts(), **GROUPED)
@add(f"{DECODES} shift", name="Mistral, window of 4", of="Mistral", sliding_window=4, keeps=Shifts(), **GROUPED)
@add(f"{DECODES} shift", name="Mixtral", seldom=True, of="Mixtral", num_local_experts=4, keeps=Shifts(), **GROUPED)
@add(f"{DECODES} shift", name="Qwen2", seldom=True, of="Qwen2", keeps=Shifts(), **GROUPED)
@add(f"{DECODES} shift", name="Gemma", seldom=True, of="Gemma", head_dim=8, keeps=Shifts(), **GROUPED)
@add(f"{DECODES} shift", name="Phi", seldom=True, of="Phi", keeps=Shifts(), **LLAMA)
@add(f"{DECODES} shift", name="GPT-NeoX", seldom=True, of="GPTNeoX", keeps=Shifts(), **LLAMA)
@add(f"{DECODES} shift", name="Falcon", seldom=True, of="Falcon", keeps=Shifts(), **LLAMA)
@add(DECODES, name="OPT", of="OPT", ffn_dim=48, word_embed_proj_dim=32, **LLAMA)
@add(DECODES, name="Bloom", of="Bloom", places=None, hidden_size=32, n_layer=2, n_head=4)
@add(DECODES, name="MPT", seldom=True, of="Mpt", places=None, d_model=32, n_layers=2, n_heads=4, max_seq_len=128)
def decoder(of: str, places: str | None = "position_ids", keeps: Any = None, **options: Any) -> Made:
    stream = Stream("input_ids", mask="attention_mask", places=places, sides=EITHER)
    roles = Roles(streams=(stream,), step=step, promises={"causality": "holds", "reordering": "not promised"})
    model = built("GPT2LMHeadModel" if of == "GPT2" else f"{of}ForCausalLM", config_of(of, **options))
    return model, {"input_ids": ids(VOCAB)}, {"roles": roles, "symmetry": keeps}


@add(f"{TOKENS} causality padding", name="Mamba", seldom=True)
def mamba() -> Made:
    stream = Stream("input_ids", mask="attention_mask", sides=EITHER)
    model = built("MambaForCausalLM", config_of("Mamba", hidden_size=16, num_hidden_layers=2, state_size=4))
    return (model, {"input_ids": ids(VOCAB)}, {"roles": Roles(streams=(stream,), promises={"causality": "holds"})})


DEBERTA: dict[str, Any] = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
ENCODES = f"{TOKENS} padding reordering"


@add(ENCODES, name="BERT", of="BertModel", **LLAMA)
@add(ENCODES, name="BERT, masked tokens", seldom=True, of="BertForMaskedLM", **LLAMA)
@add(ENCODES, name="RoBERTa", of="RobertaModel", **LLAMA)
@add(ENCODES, name="DistilBERT", of="DistilBertModel", dim=32, n_layers=2, n_heads=4, hidden_dim=48)
@add(ENCODES, name="ALBERT", seldom=True, of="AlbertModel", embedding_size=16, **LLAMA)
@add(ENCODES, name="ELECTRA", seldom=True, of="ElectraModel", embedding_size=16, **LLAMA)
def encoder(of: str, **options: Any) -> Made:
    stream = Stream("input_ids", mask="attention_mask", places="position_ids", sides=EITHER)
    name = of.removesuffix("ForMaskedLM").removesuffix("Model")
    roles = Roles(streams=(stream,), promises={"reordering": "holds"})
    return built(of, config_of(name, **options)), {"input_ids": ids(VOCAB)}, {"roles": roles}


@add(f"{TOKENS} padding")
def BERT_classifier() -> Made:
    """One answer for a row, and segments that run along the tokens."""
    stream = Stream("input_ids", mask="attention_mask", places="position_ids", along=("token_type_ids",))
    model = built("BertForSequenceClassification", config_of("Bert", num_labels=3, **LLAMA))
    segments = (torch.arange(9) > 4).long().expand(3, -1)
    return model, {"input_ids": ids(VOCAB), "token_type_ids": segments}, {"roles": Roles(streams=(stream,))}


@add(f"{TOKENS} padding", name="DeBERTa", seldom=True, of="DebertaV2", **DEBERTA, **LLAMA)
@add(f"{TOKENS} padding", name="ModernBERT, window of 4", seldom=True, of="ModernBert", local_attention=4, **LLAMA)
def relative_encoder(of: str, **options: Any) -> Made:
    stream = Stream("input_ids", mask="attention_mask", sides=EITHER)
    return (
        built(f"{of}Model", config_of(of, **options)),
        {"input_ids": ids(VOCAB)},
        {"roles": Roles(streams=(stream,))},
    )


@add(f"{TOKENS} padding causality", name="CLIP, its text half", seldom=True)
def clip_text() -> Made:
    stream = Stream("input_ids", mask="attention_mask", places="position_ids")
    roles = Roles(streams=(stream,), promises={"causality": "holds", "reordering": "not promised"})
    return built("CLIPTextModel", config_of("CLIPText", **LLAMA)), {"input_ids": ids(VOCAB)}, {"roles": roles}


BART: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 128,
}


@add(DECODES, name="T5", of="T5", d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
@add(DECODES, name="BART", seldom=True, of="Bart", **BART)
@add(DECODES, name="Marian", seldom=True, of="Marian", decoder_start_token_id=0, **BART)
def encoder_decoder(of: str, **options: Any) -> Made:
    model = built("MarianMTModel" if of == "Marian" else f"{of}ForConditionalGeneration", config_of(of, **options))
    streams = (Stream("decoder_input_ids", mask="decoder_attention_mask"), Stream("input_ids", mask="attention_mask"))
    roles = Roles(streams=streams, step=step, promises={"causality": "holds"})
    return model, {"input_ids": ids(VOCAB, n=10), "decoder_input_ids": ids(VOCAB, n=7)}, {"roles": roles}


VIT: dict[str, Any] = {
    "image_size": 16,
    "patch_size": 4,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
MAPS: dict[str, Any] = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}
BATCH_NORM = {"neighbours in training": "not promised"}


@add(ROW, name="ViT", of="ViT", **VIT)
@add(ROW, name="DeiT", of="DeiT", **VIT)
@add(ROW, name="BEiT", seldom=True, of="Beit", use_relative_position_bias=True, **VIT)
@add(ROW, name="DINOv2", seldom=True, of="Dinov2", **VIT)
@add(
    ROW,
    name="Swin",
    of="Swin",
    image_size=32,
    patch_size=4,
    embed_dim=8,
    depths=[2, 2],
    num_heads=[2, 2],
    window_size=4,
)
@add(ROW, name="ConvNeXt", of="ConvNext", **MAPS)
@add(ROW, name="ResNet", seldom=True, of="ResNet", embedding_size=8, mixes=True, promises=BATCH_NORM, **MAPS)
def vision(of: str, promises: Any = None, **options: Any) -> Made:
    import transformers

    config = getattr(transformers, f"{of}Config")(**options)
    size = options.get("image_size", 32)
    roles = Roles(grid="pixel_values", promises=promises or {})
    return built(f"{of}Model", config), {"pixel_values": torch.randn(3, 3, size, size)}, {"roles": roles}
