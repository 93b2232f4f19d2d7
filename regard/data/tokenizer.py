"""Tokenizers: text to ids and back. Each is a tokenizer.json of the package `tokenizers`, which decodes; characters, bytes
and words are encoded by NumPy (`fast_tokenizers.py`), which is several times faster.

`decode(encode(text)) == text` for every text without unknown parts, unless a tokenizer of others normalises (lower-cases,
strips accents). No code in a tokenizer.json is ever run.
"""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from regard import files
from regard.data.array import Array
from regard.data.text_files import cuts
from regard.data.trial import calm, check_count, check_tokenizer
from regard.errors import RegardError

CHUNK = 1 << 13  # characters
# chunks that the package encodes at once, on all cores: each token costs about a hundred bytes until it is an id
AT_ONCE = 16

# a key of tokenizer.json: the model expects the special tokens that it would add, and ends texts with some
FRAMED = "regard_framed"
MASKS = ("[MASK]", "<mask>")


class UnknownCharacter(RegardError):
    """An unknown character, and its place in the text."""

    def __init__(self, character: str, place: int, known: int) -> None:
        super().__init__(
            f"unknown character {character!r} (U+{ord(character):04X}) at place {place} of the text: it is "
            f"not among the {known} characters of this tokenizer; leave it out, or train with --data.tokens "
            "bytes, which knows all characters"
        )
        self.character, self.place = character, place


class Tokenizer:
    """encode: text -> ids, decode: ids -> text, by a tokenizer of the package. A file of others comes through `from_json`,
    which tries it first.

    It adds no special tokens and does not truncate. framed: {"ends": [ids]} of the key FRAMED; then it knows which
    special tokens its own file would add, `prefix` and `suffix`, and which end a text.
    """

    name: str = ""  # "characters", "bytes", "words", or the name of the algorithm: "bpe", "wordpiece", ...
    size: int  # ids are 0 ... size − 1
    unknown: int | None  # the id of unknown parts; None: there is none
    mask: int | None  # the id of masked tokens, where the vocabulary has one
    # ids that a model of others expects before and after each text
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    ends: tuple[str, ...] = ()  # signs with which it says that a text is over

    def __init__(self, inner: tokenizers.Tokenizer, framed: Any = None) -> None:
        self._inner, self._framed = inner, framed
        self._inner.no_truncation()
        self._inner.no_padding()
        self._data = json.loads(self._inner.to_str())
        vocabulary = self._inner.get_vocab(with_added_tokens=True)
        if not vocabulary:
            raise RegardError("its vocabulary is empty")
        model = self._data["model"]
        self.name = self.name or str(model.get("type", "subwords")).lower()
        self.size = max(vocabulary.values()) + 1
        self.unknown = vocabulary.get(model.get("unk_token") or "", model.get("unk_id"))
        self.mask = next((vocabulary[sign] for sign in MASKS if sign in vocabulary), None)
        self._added = {token["content"]: token["id"] for token in self._data.get("added_tokens", ())}
        self._pieces = self._find_pieces(vocabulary)
        if self._framed is not None:
            self._find_frame()
            self.ends = self._signs()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned integer type for all ids, little-endian, for files."""
        return np.min_scalar_type(self.size - 1).newbyteorder("<")

    def encode(self, text: str) -> Array:
        """The ids of a text.   int64. Unknown parts get the id `unknown`. If there is no such id, an error names the place."""
        try:
            with calm("encode this text"):
                return self._encode(text)
        except (UnicodeEncodeError, TypeError) as error:
            raise half_a_character(text) or error from error

    def _encode(self, text: str) -> Array:
        bounds = list(pairwise([0, *cuts(text, CHUNK), len(text)]))
        ids: list[Array] = [np.zeros(0, dtype=np.int64)]
        for first in range(0, len(bounds), AT_ONCE):
            chunks = [text[start:stop] for start, stop in bounds[first : first + AT_ONCE]]
            found = self._inner.encode_batch_fast(chunks, add_special_tokens=False)
            for chunk, encoding in zip(chunks, found, strict=True):
                check_count(len(encoding), len(chunk))
                ids.append(np.array(encoding.ids, dtype=np.int64))
        return np.concatenate(ids)

    def frame(self, ids: Array, most: int | None = None) -> Array:
        """The ids of a whole text with those that the model expects before and after; `most` in all."""
        if not self.prefix and not self.suffix:
            return ids
        if most is not None:
            ids = ids[: max(0, most - len(self.prefix) - len(self.suffix))]
        return np.array([*self.prefix, *ids, *self.suffix], dtype=np.int64)

    def decode(self, ids: Sequence[int] | Array) -> str:
        """The text of these ids."""
        known = self._check_ids(ids).tolist()
        if self._pieces is not None:
            return b"".join(self._pieces[id] for id in known).decode("utf-8", "replace")
        with calm("decode these ids"):
            return str(self._inner.decode(known, skip_special_tokens=False))

    def stream(self) -> BytePieces | Growing:
        """Decodes ids one by one: all results of its `add` and `rest`, joined, equal `decode` of all ids."""
        return Growing(self) if self._pieces is None else BytePieces(self._pieces)

    def called(self, id: int) -> str:
        """How one id is displayed: its text, or its bytes if it is only a part of a character."""
        if self._pieces is None:
            return self.decode([id])
        return self._pieces[id].decode("utf-8", "backslashreplace")

    def split(self, text: str) -> list[str]:
        """What each id of a text stands for; unknown parts as they are in the text."""
        return [self.called(id) for id in self.encode(text).tolist()]

    def unknowns(self, text: str) -> tuple[str, ...]:
        """The unknown characters or words of a text, each once, in their order."""
        if self.unknown is None:
            return ()
        encoding = self._inner.encode(text, add_special_tokens=False)
        found = zip(encoding.ids, encoding.offsets, strict=True)
        return tuple(dict.fromkeys(text[start:stop] for id, (start, stop) in found if id == self.unknown))

    def to_json(self) -> dict[str, Any]:
        """The content of a tokenizer.json."""
        if self._framed is not None:
            return {**self._data, FRAMED: self._framed}
        return dict(self._data)

    def _check_ids(self, ids: Sequence[int] | Array) -> Array:
        array = np.asarray(ids)
        if array.size == 0:
            return np.zeros(0, dtype=np.int64)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise RegardError(f"ids must be one row of whole numbers, got shape {array.shape} of {array.dtype}")
        if array.min() < 0 or array.max() >= self.size:
            place = int(((array < 0) | (array >= self.size)).argmax())
            raise RegardError(
                f"ids must be from 0 to {self.size - 1}, got {array[place]} at place {place}; "
                "decode with the tokenizer that encoded them"
            )
        return array

    def _signs(self) -> tuple[str, ...]:
        """The texts of the ids that end a text."""
        ids = self._framed.get("ends", []) if isinstance(self._framed, dict) else None
        if not isinstance(ids, list) or not all(type(id) is int and 0 <= id < self.size for id in ids):
            raise RegardError(f'its "{FRAMED}" must be {{"ends": [ids]}}, got {str(self._framed)[:60]}')
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

    def _find_pieces(self, vocabulary: dict[str, int]) -> list[bytes] | None:
        """The bytes of each id, if a text is nothing but these one after another; None: only the package can decode."""
        decoder = (self._data.get("decoder") or {}).get("type")
        if decoder not in ("ByteLevel", "Fuse"):
            return None
        byte_of = {sign: byte for byte, sign in enumerate(byte_signs())}
        pieces = [b""] * self.size
        for text, id in vocabulary.items():
            if decoder == "Fuse" or text in self._added or any(sign not in byte_of for sign in text):
                pieces[id] = text.encode("utf-8")
            else:
                pieces[id] = bytes(byte_of[sign] for sign in text)
        return pieces


# ── files


def save(tokenizer: Tokenizer, path: files.PathLike) -> None:
    """Write tokenizer.json atomically: an error leaves no half-written file."""
    files.write_json(path, tokenizer.to_json())


def load(path: files.PathLike) -> Tokenizer:
    """The tokenizer of a tokenizer.json. The path may also be a folder with such a file: a run or a model."""
    if os.path.isdir(path):
        path = Path(path) / "tokenizer.json"
    try:
        with files.readable_as(path, "a tokenizer.json"):
            return from_json(files.read_json(path))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}; give a tokenizer.json, or its folder") from error
    except ValueError as error:
        words = str(error)
        raise RegardError(
            words if words.startswith(str(path)) else f"{path} is not a tokenizer.json: {words}"
        ) from error


def from_json(data: Any) -> Tokenizer:
    """The inverse of `to_json`. What was not made here is tried in a process of its own first."""
    from regard.data.fast_tokenizers import (
        BytePairs,  # here: they build on this file
        Bytes,
        Characters,
        Words,
    )

    if not isinstance(data, dict) or not isinstance(data.get("model"), dict):
        raise RegardError('it has no key "model" with an object, so it is no tokenizer of the package tokenizers')
    vocabulary = data["model"].get("vocab")
    texts = list(vocabulary) if isinstance(vocabulary, dict) else []
    kinds = {Words.sign: lambda: Words(texts[1:]), byte_signs()[0]: Bytes}
    with suppress(RegardError):  # then it is none of ours
        found = kinds.get(texts[0] if texts else "", lambda: Characters("".join(texts)))()
        if found.to_json() == data:
            return found
    known = without_frame(data)
    check_tokenizer(known)
    with calm("read it"):
        inner = tokenizers.Tokenizer.from_str(json.dumps(known))
        return (BytePairs if BytePairs.fits(data) else Tokenizer)(inner, data.get(FRAMED))


def without_frame(data: dict[str, Any]) -> dict[str, Any]:
    """The content of a tokenizer.json as the package knows it."""
    return {key: value for key, value in data.items() if key != FRAMED}


# ── parts


class BytePieces:
    """A stream for ids that are pieces of UTF-8. It holds back the bytes of an incomplete character."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, id: int) -> str:
        return self._decoder.decode(self._pieces[id])

    def rest(self) -> str:
        return self._decoder.decode(b"", final=True)


class Growing:
    """A stream for any tokenizer. It decodes the last ids with and without the newest id; the difference is
    the new text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
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


def byte_signs() -> list[str]:
    """The character that byte-level vocabularies write for each byte: the byte itself if it is printable,
    otherwise a code point from 256 on."""
    seen = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    hidden = iter(range(256, 512))
    return [chr(byte) if byte in seen else chr(next(hidden)) for byte in range(256)]


def half_a_character(text: str) -> ValueError | None:
    """The error for a lone surrogate, which UTF-8 cannot encode (a command line can contain one); None: the
    text has none."""
    found = re.search("[\ud800-\udfff]", text)
    return found and RegardError(
        f"character {found[0]!r} at place {found.start()} of the text is half a character "
        "(a lone surrogate), which UTF-8 does not have; leave it out"
    )


def unknown_words(tokenizer: Tokenizer, text: str) -> str | None:
    """A note about the words of a text that the model does not know; None: it knows all."""
    unknown = () if tokenizer.unknown is None else tokenizer.unknowns(text)
    if not unknown:
        return None
    some = ", ".join(word if word.isprintable() else repr(word) for word in unknown[:3]) + (
        ", ..." if len(unknown) > 3 else ""
    )
    what = "1 word is" if len(unknown) == 1 else f"{len(unknown)} different words are"
    return f"{what} unknown to the model: {some}"
