"""Tokenizers with the settings that Hugging Face reads beside them."""

from __future__ import annotations

from typing import Any

from regard.data.tokenizer import Tokenizer, without_frame

SPECIAL = {
    "pad_token": ("[PAD]", "<pad>"),
    "mask_token": ("[MASK]", "<mask>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]",),
    "sep_token": ("[SEP]",),
    "bos_token": ("<s>", "<|endoftext|>", "<|begin_of_text|>"),
    "eos_token": ("</s>", "<|endoftext|>", "<|im_end|>", "<|end_of_text|>"),
}


def export_tokenizer(tokenizer: Tokenizer, context: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """tokenizer.json and tokenizer_config.json."""
    data = without_frame(tokenizer.to_json())
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
    }
    known = {str(token.get("content")) for token in data.get("added_tokens") or ()}
    for name, signs in SPECIAL.items():
        found = next((sign for sign in signs if sign in known), None)
        if found is not None:
            settings[name] = found
    return data, settings
