"""Tokenizers of ours in the form of Hugging Face."""

from __future__ import annotations

from typing import Any

from regard.data.subwords import FRAMED, byte_signs
from regard.data.tokenizer import Bytes, Characters, Tokenizer

SPECIAL = {
    "pad_token": ("[PAD]", "<pad>"),
    "mask_token": ("[MASK]", "<mask>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]",),
    "sep_token": ("[SEP]",),
    "bos_token": ("<s>", "<|endoftext|>", "<|begin_of_text|>"),
    "eos_token": ("</s>", "<|endoftext|>", "<|im_end|>", "<|end_of_text|>"),
}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}


def export_tokenizer(tokenizer: Tokenizer, context: int) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """tokenizer.json and tokenizer_config.json; None: Hugging Face has no such tokenizer."""
    if isinstance(tokenizer, Characters):
        data = _pairs(
            dict(zip(tokenizer.characters, range(tokenizer.size), strict=True)), None, {"type": "Fuse"}
        )
    elif isinstance(tokenizer, Bytes):
        data = _pairs({sign: byte for byte, sign in enumerate(byte_signs())}, BYTE_LEVEL, BYTE_LEVEL)
    else:
        data = {key: value for key, value in tokenizer.to_json().items() if key != FRAMED}
        if "model" not in data:
            return None
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


def _pairs(vocabulary: dict[str, int], split: Any, decoder: Any) -> dict[str, Any]:
    """Byte-pair encoding without pairs: each sign is a token."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": split,
        "post_processor": None,
        "decoder": decoder,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
