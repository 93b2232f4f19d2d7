"""The tokenizer of a GGUF file as a tokenizer.json of Hugging Face."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CONTROL, USER, UNKNOWN = 3, 4, 2  # types of tokens
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # how SentencePiece writes a space


def _byte_level(regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": regex}


def _split(pattern: str) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, _byte_level(False)]}


# how a text is cut into words, by tokenizer.ggml.pre
SPLITS: dict[str, dict[str, Any]] = {
    "gpt-2": _byte_level(True),
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, _byte_level(True)]},
    "qwen2": _split(WORDS % ""),
    "llama-bpe": _split(WORDS % "{1,3}"),
}


def read_tokenizer(facts: Mapping[str, Any]) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """The content of a tokenizer.json, or None and why."""
    tokens = facts.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        return None, ("the file has no tokenizer, so the model reads ids only",)
    if len(set(tokens)) < len(tokens):
        return None, ("two tokens of the file are the same, so the model reads ids only",)
    kind, split = facts.get("tokenizer.ggml.model"), facts.get("tokenizer.ggml.pre", "default")
    if kind == "gpt2":
        if split not in SPLITS:
            what = f"tokenizer.ggml.pre={split!r} is not known (known: {', '.join(SPLITS)})"
            return None, (f"{what}, so the model reads ids only",)
        found = _pairs(tokens, facts, SPLITS[split])
    elif kind == "llama":
        found = _pieces(tokens, facts)
    else:
        return None, (f"tokenizer.ggml.model={kind!r} is not known, so the model reads ids only",)
    return found | {"added_tokens": _added(tokens, facts), "post_processor": _frame(tokens, facts)}, ()


def _whole(model: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "normalizer": None,
        "pre_tokenizer": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            **model,
        },
    }


def _pairs(tokens: list[str], facts: Mapping[str, Any], split: dict[str, Any]) -> dict[str, Any]:
    """Byte-pair encoding, as GPT-2 has it."""
    merges = [str(merge) for merge in facts.get("tokenizer.ggml.merges") or ()]
    model = {"vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}
    return _whole(model) | {"pre_tokenizer": split, "decoder": _byte_level(True)}


def _pieces(tokens: list[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    """SentencePiece's byte-pair encoding, as Llama 2 has it: pieces with scores, and bytes for the rest."""
    scores = facts.get("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(tokens):
        scores = [float(-i) for i in range(len(tokens))]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    unknown = facts.get("tokenizer.ggml.unknown_token_id", 0)
    model = {
        "vocab": vocabulary,
        "merges": _merges(vocabulary, scores),
        "unk_token": tokens[unknown] if type(unknown) is int and 0 <= unknown < len(tokens) else None,
        "fuse_unk": True,
        "byte_fallback": True,
    }
    spaces: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": " "}, "content": SPACE}]
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if facts.get("tokenizer.ggml.add_space_prefix", True):
        spaces = [{"type": "Prepend", "prepend": SPACE}, *spaces]
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return _whole(model) | {
        "normalizer": {"type": "Sequence", "normalizers": spaces},
        "decoder": {"type": "Sequence", "decoders": decoders},
    }


def _merges(vocabulary: Mapping[str, int], scores: list[float]) -> list[list[str]]:
    """Pairs of pieces that make a piece, the best first: what scores say, said by an order."""
    found: list[tuple[float, int, int, str, str]] = []
    for piece, number in vocabulary.items():
        halves = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
        known = [(a, b) for a, b in halves if a in vocabulary and b in vocabulary]
        known.sort(key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
        found += [(scores[number], len(a), len(b), a, b) for a, b in known]
    found.sort(key=lambda each: each[:3], reverse=True)
    return [[a, b] for *_, a, b in found]


def _added(tokens: list[str], facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Tokens that are never cut: control signs, and those of users."""
    types = facts.get("tokenizer.ggml.token_type") or []
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [
        {"id": i, "content": token, "special": kind != USER, **plain}
        for i, (token, kind) in enumerate(zip(tokens, types, strict=False))
        if kind in (CONTROL, USER, UNKNOWN) and token
    ]


def _frame(tokens: list[str], facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """The sign at the beginning of each text, where the model expects one."""
    begin = facts.get("tokenizer.ggml.bos_token_id")
    wanted = facts.get("tokenizer.ggml.add_bos_token", facts.get("tokenizer.ggml.model") == "llama")
    if not wanted or type(begin) is not int or not 0 <= begin < len(tokens):
        return None
    sign = tokens[begin]
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": sign, "type_id": 0}}, text],
        "pair": [{"SpecialToken": {"id": sign, "type_id": 0}}, text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {sign: {"id": sign, "ids": [begin], "tokens": [sign]}},
    }
