"""The chat template of a GGUF file, among its facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.data.chat_template import ChatTemplate, try_template
from regard.errors import RegardError

# what a template calls a sign -> the fact that holds its id
SIGNS = {
    "bos_token": "tokenizer.ggml.bos_token_id",
    "eos_token": "tokenizer.ggml.eos_token_id",
    "unk_token": "tokenizer.ggml.unknown_token_id",
    "pad_token": "tokenizer.ggml.padding_token_id",
}


def read_gguf_template(facts: Mapping[str, Any]) -> tuple[ChatTemplate | None, tuple[str, ...]]:
    """The template, or None and why; a file without one says nothing."""
    source, tokens = facts.get("tokenizer.chat_template"), facts.get("tokenizer.ggml.tokens")
    if not isinstance(source, str) or not isinstance(tokens, list):
        return None, ()
    ids = {sign: facts.get(fact) for sign, fact in SIGNS.items()}
    signs = {sign: str(tokens[id]) for sign, id in ids.items() if type(id) is int and 0 <= id < len(tokens)}
    template = ChatTemplate(source, signs)
    try:
        try_template(template)
    except RegardError as error:
        return None, (f"its chat template is left out: {error}",)
    return template, ()
