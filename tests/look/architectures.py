"""Small models of Hugging Face with random weights: what their own eager attention says is what a recording must say."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

VOCAB = 37
SPECIAL: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "vocab_size": VOCAB}
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
GROUPED = SIZES | {"num_key_value_heads": 2}
GPT: dict[str, Any] = {"n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
BART: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 1,
}
VIT: dict[str, Any] = {
    "image_size": 16,
    "patch_size": 4,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
SWIN: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 4,
    "embed_dim": 8,
    "depths": [2, 2],
    "num_heads": [2, 4],
    "window_size": 4,
}
DEBERTA: dict[str, Any] = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}

# name: model, config, its options, and what it is given
ARCHITECTURES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "GPT-2": ("GPT2LMHeadModel", "GPT2", GPT, "text"),
    "GPT-J": ("GPTJForCausalLM", "GPTJ", GPT | {"rotary_dim": 4}, "text"),
    "GPT-NeoX": ("GPTNeoXForCausalLM", "GPTNeoX", SIZES, "text"),
    "Llama": ("LlamaForCausalLM", "Llama", GROUPED, "text"),
    "Mistral, window of 4": ("MistralForCausalLM", "Mistral", GROUPED | {"sliding_window": 4}, "text"),
    "Mixtral": ("MixtralForCausalLM", "Mixtral", GROUPED | {"num_local_experts": 4}, "text"),
    "Qwen2": ("Qwen2ForCausalLM", "Qwen2", GROUPED, "text"),
    "Qwen3": ("Qwen3ForCausalLM", "Qwen3", GROUPED | {"head_dim": 8}, "text"),
    "Gemma": ("GemmaForCausalLM", "Gemma", GROUPED | {"head_dim": 8}, "text"),
    "Gemma 2": ("Gemma2ForCausalLM", "Gemma2", GROUPED | {"head_dim": 8, "attn_logit_softcapping": 5.0}, "text"),
    "Phi": ("PhiForCausalLM", "Phi", SIZES, "text"),
    "Falcon": ("FalconForCausalLM", "Falcon", SIZES, "text"),
    "OPT": ("OPTForCausalLM", "OPT", SIZES | {"ffn_dim": 48, "word_embed_proj_dim": 32}, "text"),
    "Bloom": ("BloomForCausalLM", "Bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4}, "text"),
    "MPT": ("MptForCausalLM", "Mpt", {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}, "text"),
    "GPT-OSS": (
        "GptOssForCausalLM",
        "GptOss",
        GROUPED | {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4},
        "text",
    ),
    "DeepSeek": (
        "DeepseekV3ForCausalLM",
        "DeepseekV3",
        SIZES
        | {
            "num_key_value_heads": 4,
            "q_lora_rank": 16,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 4,
            "v_head_dim": 6,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_group": 1,
            "topk_group": 1,
            "moe_intermediate_size": 16,
            "first_k_dense_replace": 1,
        },
        "text",
    ),
    "BERT": ("BertModel", "Bert", SIZES, "text"),
    "RoBERTa": ("RobertaModel", "Roberta", SIZES, "text"),
    "DistilBERT": ("DistilBertModel", "DistilBert", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}, "text"),
    "ALBERT": ("AlbertModel", "Albert", SIZES | {"embedding_size": 16}, "text"),
    "ELECTRA": ("ElectraModel", "Electra", SIZES | {"embedding_size": 16}, "text"),
    "DeBERTa": ("DebertaV2Model", "DebertaV2", SIZES | DEBERTA, "text"),
    "ModernBERT, window of 4": (
        "ModernBertModel",
        "ModernBert",
        SIZES | {"local_attention": 4, "cls_token_id": 1},
        "text",
    ),
    "CLIP, its text half": ("CLIPTextModel", "CLIPText", SIZES, "text"),
    "T5": (
        "T5ForConditionalGeneration",
        "T5",
        {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
        "two texts",
    ),
    "BART": ("BartForConditionalGeneration", "Bart", BART, "two texts"),
    "Marian": ("MarianMTModel", "Marian", BART, "two texts"),
    "ViT": ("ViTModel", "ViT", VIT, "image"),
    "DeiT": ("DeiTModel", "DeiT", VIT, "image"),
    "BEiT": ("BeitModel", "Beit", VIT | {"use_relative_position_bias": True}, "image"),
    "DINOv2": ("Dinov2Model", "Dinov2", VIT, "image"),
    "Swin": ("SwinModel", "Swin", SWIN, "image"),
}


def built(name: str, **more: Any) -> tuple[nn.Module, dict[str, Tensor]]:
    """The model in eval mode with its default attention, and inputs: a batch of two, the second one padded if it is text."""
    import transformers

    transformers.logging.set_verbosity_error()
    kind, config, options, given = ARCHITECTURES[name]
    torch.manual_seed(0)
    special = {} if given == "image" else SPECIAL
    model = getattr(transformers, kind)(getattr(transformers, f"{config}Config")(**special | options | more)).eval()
    for parameter in model.parameters():  # as they come, most weights are so small that attention is almost uniform
        parameter.data *= 3 if parameter.dim() > 1 and name != "T5" else 1
    if given == "image":
        size = options["image_size"]
        return model, {"pixel_values": torch.randn(2, 3, size, size)}
    ids, real = torch.randint(3, VOCAB, (2, 9)), torch.ones(2, 9, dtype=torch.long)
    real[1, 6:] = 0
    inputs = {"input_ids": ids, "attention_mask": real}
    return model, inputs | ({"decoder_input_ids": torch.randint(3, VOCAB, (2, 9))} if given == "two texts" else {})


def told(model: Any, inputs: dict[str, Tensor]) -> list[Tensor]:
    """The weights that the model itself gives with its eager attention, in the order in which they are computed.

    A fresh model is made for that: asking one that runs with SDPA for weights gives wrong ones in some (Falcon).
    """
    eager = type(model)._from_config(model.config, attn_implementation="eager").eval()
    eager.load_state_dict(model.state_dict())
    with torch.no_grad():
        out = eager(**inputs, output_attentions=True)
    if "decoder_input_ids" not in inputs:
        return list(out.attentions)
    pairs = zip(out.decoder_attentions, out.cross_attentions, strict=True)
    return [*out.encoder_attentions, *(weights for pair in pairs for weights in pair)]
