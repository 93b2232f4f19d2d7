"""Subwords: byte-pair encoding learned here, or any tokenizer.json of Hugging Face. Needs
`tokenizers`.

A tokenizer learned here works on bytes, so nothing is unknown and decoding returns the exact text. Other
tokenizers may normalise (lower-case, strip accents); then decoding returns the normalised text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.data.foreign_tokenizer import calm, check_count, check_tokenizer
from regard.data.text_cuts import cuts
from regard.data.tokenizer import BytePieces, Stream, Tokenizer, half_a_character, shown_bytes
from regard.errors import RegardError

_CHUNK = 1 << 13  # characters encoded at once: each token costs about a hundred bytes until it is an id
_REMEMBERED = 1 << 17  # segments whose ids are kept, some 30 MB

# A text falls into segments before each space, tab or line end that follows something visible: " like", "\n
#  def".
# (Spaces of other kinds never begin or end one, because not everybody agrees which characters they are.)
# In plain ASCII it falls into the very words that GPT-2's pattern makes, which come again more often.
_SEGMENT = re.compile(r"[ \t\r\n]*+(?:\S++|[^\S \t\r\n]++[ \t\r\n]*+)*+")
_WORD = re.compile(r"'(?:[stmd]|re|ve|ll)| ?[A-Za-z]++| ?[0-9]++| ?[^\sA-Za-z0-9]++|\s+(?!\S)|\s+", re.ASCII)

# a key of tokenizer.json: the model expects the special tokens that it would add, and ends texts with some
FRAMED = "regard_framed"
MASKS = ("[MASK]", "<mask>")


class Subwords(Tokenizer):
    """A Hugging Face tokenizer, from the contents of its tokenizer.json. It adds no special tokens and does
    not truncate. With the key FRAMED it knows which ones its own file would add, `prefix` and `suffix`, and
    which end a text: {"ends": [ids]}."""

    def __init__(self, data: dict[str, Any]) -> None:
        package = _package()
        framed = data.get(FRAMED)
        data = {key: value for key, value in data.items() if key != FRAMED}
        check_tokenizer(data)
        with calm("read it"):
            self._inner = package.Tokenizer.from_str(json.dumps(data))
        self._inner.no_truncation()
        self._inner.no_padding()
        self._data = json.loads(self._inner.to_str())
        vocabulary = self._inner.get_vocab(with_added_tokens=True)
        if not vocabulary:
            raise RegardError("its vocabulary is empty")
        model = self._data["model"]
        self.name = str(model.get("type", "subwords")).lower()
        self.size = max(vocabulary.values()) + 1
        self.unknown = vocabulary.get(model.get("unk_token") or "", model.get("unk_id"))
        self._added = {token["content"]: token["id"] for token in self._data.get("added_tokens", ())}
        self._pieces = self._byte_pieces(vocabulary)
        self._by_segments = self._segments_stand_alone()
        self._memory: dict[str, tuple[int, ...]] = {}
        self.mask = next((vocabulary[sign] for sign in MASKS if sign in vocabulary), None)
        self._framed = framed
        if framed is not None:
            self._find_frame()
            self.ends = self._signs(framed)

    def encode(self, text: str) -> Array:
        try:
            with calm("encode this text"):
                return np.fromiter(chain.from_iterable(self._ids(text)), dtype=self.dtype)
        except (UnicodeEncodeError, TypeError) as error:
            raise half_a_character(text) or error from error

    def decode(self, ids: Sequence[int] | Array) -> str:
        ids = self._checked(ids).tolist()
        if self._pieces is not None:
            return b"".join(self._pieces[id] for id in ids).decode("utf-8", "replace")
        with calm("decode these ids"):
            return str(self._inner.decode(ids, skip_special_tokens=False))

    def called(self, id: int) -> str:
        if self._pieces is None:
            return super().called(id)
        return shown_bytes(self._pieces[id])

    def stream(self) -> Stream:
        if self._pieces is None:
            return _Growing(self)
        return BytePieces(self._pieces)

    def unknowns(self, text: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        if self.unknown is not None:
            encoding = self._inner.encode(text, add_special_tokens=False)
            for id, (start, stop) in zip(encoding.ids, encoding.offsets, strict=True):
                if id == self.unknown:
                    found[text[start:stop]] = None
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        if self._framed is not None:
            return {**self._data, FRAMED: self._framed}
        return dict(self._data)

    def _signs(self, framed: Any) -> tuple[str, ...]:
        """The texts of the ids that end a text."""
        ids = framed.get("ends", []) if isinstance(framed, dict) else None
        if not isinstance(ids, list) or not all(type(id) is int and 0 <= id < self.size for id in ids):
            raise RegardError(f'its "{FRAMED}" must be {{"ends": [ids]}}, got {str(framed)[:60]}')
        return tuple(sign for sign, id in self._added.items() if id in ids and sign)

    def _find_frame(self) -> None:
        """The ids that the tokenizer's own file puts around a text."""
        with calm("read it"):
            bare = self._inner.encode("a", add_special_tokens=False).ids
            whole = self._inner.encode("a", add_special_tokens=True).ids
        count = len(bare)
        starts = [i for i in range(len(whole) - count + 1) if whole[i : i + count] == bare]
        if not starts:
            raise RegardError("it changes a text when it adds special tokens, and not only around it")
        self.prefix, self.suffix = tuple(whole[: starts[0]]), tuple(whole[starts[0] + count :])

    def _ids(self, text: str) -> Iterator[Iterable[int]]:
        """The ids of a text, part by part."""
        start = 0
        for stop in [*cuts(text, _CHUNK), len(text)]:
            if self._by_segments:
                yield from self._remembered(text[start:stop])
            elif stop > start:
                found = self._inner.encode(text[start:stop], add_special_tokens=False).ids
                check_count(len(found), stop - start)
                yield found
            start = stop

    def _remembered(self, text: str) -> Iterator[Iterable[int]]:
        """The same ids, several times faster: the ids of segments that occurred before are kept."""
        plain = text.isascii() and not any(token in text for token in self._added)
        segments = (_WORD if plain else _SEGMENT).findall(text)
        if len(self._memory) > _REMEMBERED:
            self._memory.clear()
        new = [each for each in dict.fromkeys(segments) if each not in self._memory]
        for segment, encoding in zip(
            new, self._inner.encode_batch_fast(new, add_special_tokens=False), strict=True
        ):
            self._memory[segment] = tuple(encoding.ids)
        return map(self._memory.__getitem__, segments)

    def _segments_stand_alone(self) -> bool:
        """Whether no token crosses the border of a segment. This holds for the pattern of GPT-2 without a
        normaliser."""
        split, model = self._data.get("pre_tokenizer") or {}, self._data["model"]
        whole = all(
            _SEGMENT.fullmatch(token["content"]) and not (token["lstrip"] or token["rstrip"])
            for token in self._data.get("added_tokens", ())
        )
        return (
            whole
            and self._data.get("normalizer") is None
            and model.get("type") == "BPE"
            and not model.get("dropout")
            and split.get("type") == "ByteLevel"
            and split.get("use_regex", True)
            and not split.get("add_prefix_space")
        )

    def _byte_pieces(self, vocabulary: dict[str, int]) -> list[bytes] | None:
        """The bytes of each id, if the tokenizer is purely byte-level; None: only the package can decode."""
        decoder = self._data.get("decoder") or {}
        if decoder.get("type") != "ByteLevel":
            return None
        byte_of = {sign: byte for byte, sign in enumerate(byte_signs())}
        pieces = [b""] * self.size
        for text, id in vocabulary.items():
            if text in self._added or any(sign not in byte_of for sign in text):
                pieces[id] = text.encode("utf-8")
            else:
                pieces[id] = bytes(byte_of[sign] for sign in text)
        return pieces


def learn_bpe(texts: Iterable[str], size: int) -> Subwords:
    """Byte-pair encoding with at most `size` ids: the 256 bytes, then the most frequent pairs."""
    if size < 257:
        raise RegardError(
            f"bpe needs more ids than the 256 bytes, got vocabulary={size}; use 512 or more, or "
            "--data.tokens bytes"
        )
    package = _package()
    level = package.pre_tokenizers.ByteLevel
    inner = package.Tokenizer(package.models.BPE())
    inner.pre_tokenizer = level(add_prefix_space=False)
    inner.decoder = package.decoders.ByteLevel()
    trainer = package.trainers.BpeTrainer(
        vocab_size=size, min_frequency=2, show_progress=False, initial_alphabet=level.alphabet()
    )
    inner.train_from_iterator(_chunks(texts), trainer)
    return Subwords(json.loads(inner.to_str()))


class _Growing:
    """A stream for any tokenizer. It decodes the last ids with and without the newest id; the difference is
    the new text."""

    def __init__(self, tokenizer: Subwords) -> None:
        self._tokenizer = tokenizer
        self._told: list[int] = []  # the ids last told, for what joins them to the next
        self._held: list[int] = []  # ids since then

    def follow(self, id: int) -> None:
        """Continue after this id; its text was returned already."""
        self._told = [id]

    def add(self, id: int) -> str:
        self._held.append(id)
        new = self.rest()
        if not new or new.endswith("\N{REPLACEMENT CHARACTER}"):
            return ""
        self._told, self._held = self._held, []
        return new

    def rest(self) -> str:
        before = self._tokenizer.decode(self._told)
        return self._tokenizer.decode(self._told + self._held)[len(before) :]


def _chunks(texts: Iterable[str]) -> Iterator[str]:
    """The text in short pieces, because the package collects hundreds of pieces before it starts to count."""
    for text in texts:
        start = 0
        for stop in [*cuts(text, _CHUNK), len(text)]:
            yield text[start:stop]
            start = stop


def byte_signs() -> list[str]:
    """The character that byte-level vocabularies write for each byte: the byte itself if it is printable,
    otherwise a code point from 256 on."""
    seen = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    hidden = iter(range(256, 512))
    return [chr(byte) if byte in seen else chr(next(hidden)) for byte in range(256)]


def _package() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(
            "bpe and tokenizer.json files of Hugging Face need the package tokenizers: "
            "pip install 'regard[text]', or choose characters, bytes or words"
        ) from error
    return tokenizers
