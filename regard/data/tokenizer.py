"""Tokenizers: text to ids and back. Characters, bytes and words are here; subwords are in `subwords.py`.

`decode(encode(text)) == text` for every text without unknown parts. Vocabularies are sorted, so ids are the
same in every process. A tokenizer is one JSON file, and no code in it is ever run.
"""

from __future__ import annotations

import codecs
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, compress, repeat
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from regard import files
from regard.data.array import Array
from regard.errors import RegardError, nearest


class Stream(Protocol):
    """Decodes ids one by one. All results of `add` and `rest`, joined, equal `decode` of all ids."""

    def add(self, id: int) -> str:
        """The new text after this id. An incomplete character is held back."""
        ...

    def rest(self) -> str:
        """The text that was held back, at the end."""
        ...


class UnknownCharacter(RegardError):
    """An unknown character, and its place in the text."""

    def __init__(self, character: str, place: int, known: int) -> None:
        super().__init__(
            f"unknown character {character!r} (U+{ord(character):04X}) at place {place} of the text: it is "
            f"not among the {known} characters of this tokenizer; leave it out, or train with --data.tokens "
            "bytes, which knows all characters"
        )
        self.character, self.place = character, place


class Tokenizer(ABC):
    """encode: text -> ids, decode: ids -> text."""

    name: str  # "characters", "bytes", "words", or the name of the algorithm: "bpe", "wordpiece", ...
    size: int  # ids are 0 ... size − 1
    unknown: int | None = None  # the id of unknown parts; None: there is none
    mask: int | None = None  # the id of masked tokens, where the vocabulary has one
    # ids that a model of others expects before and after each text
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    ends: tuple[str, ...] = ()  # signs with which it says that a text is over

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned integer type for all ids, little-endian as in files."""
        return np.min_scalar_type(max(self.size - 1, 0)).newbyteorder("<")

    @abstractmethod
    def encode(self, text: str) -> Array:
        """The ids of a text, as `dtype`. Unknown parts get the id `unknown`. If there is no such id, an error
        names the place."""

    def frame(self, ids: Array, most: int | None = None) -> Array:
        """The ids of a whole text with those that the model expects before and after; `most` in all."""
        if not self.prefix and not self.suffix:
            return ids
        if most is not None:
            ids = ids[: max(0, most - len(self.prefix) - len(self.suffix))]
        parts = (self.prefix, ids, self.suffix)
        return np.concatenate([np.asarray(part, dtype=self.dtype) for part in parts])

    @abstractmethod
    def decode(self, ids: Sequence[int] | Array) -> str:
        """The text of these ids."""

    @abstractmethod
    def stream(self) -> Stream:
        """Decode one id after another."""

    def called(self, id: int) -> str:
        """How one id is displayed: its text, or its bytes if it is only a part of a character."""
        return self.decode([id])

    def split(self, text: str) -> list[str]:
        """What each id of a text stands for; unknown parts as they are in the text."""
        return [self.called(id) for id in self.encode(text).tolist()]

    @abstractmethod
    def unknowns(self, text: str) -> tuple[str, ...]:
        """The unknown characters or words of a text, each once, in their order."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The tokenizer as plain data, for JSON."""

    def _checked(self, ids: Sequence[int] | Array) -> Array:
        array = np.asarray(ids)
        if array.ndim != 1:
            raise RegardError(
                f"ids must be one row of whole numbers, got shape {array.shape}; decode row by row"
            )
        if array.size == 0:
            return np.zeros(0, dtype=np.int64)
        if array.dtype.kind not in "iu":
            raise RegardError(f"ids must be whole numbers, got {array.dtype}")
        if array.min() < 0 or array.max() >= self.size:
            place = int(((array < 0) | (array >= self.size)).argmax())
            raise RegardError(
                f"ids must be from 0 to {self.size - 1}, got {array[place]} at place {place}; "
                "decode with the tokenizer that encoded them"
            )
        return array


class Characters(Tokenizer):
    """One id for each character of the training text, in the order of their code points."""

    name = "characters"

    def __init__(self, characters: str) -> None:
        if not characters or list(characters) != sorted(set(characters)):
            raise RegardError("characters must be different, sorted, and at least one; use sorted(set(text))")
        if half := half_a_character(characters):
            raise half
        self.characters, self.size = characters, len(characters)
        self._points = _points(characters).astype("<u4")
        self._table = np.full(int(self._points[-1]) + 2, self.size, dtype=np.min_scalar_type(self.size))
        self._table[self._points] = np.arange(self.size)  # all others, and all above, give `size`

    def encode(self, text: str) -> Array:
        ids: Array = self._table.take(_points(text), mode="clip")
        unknown = ids == self.size
        if unknown.any():
            place = int(unknown.argmax())
            raise UnknownCharacter(text[place], place, self.size)
        return ids.astype(self.dtype, copy=False)

    def decode(self, ids: Sequence[int] | Array) -> str:
        return self._points[self._checked(ids)].tobytes().decode("utf-32-le", "surrogatepass")

    def stream(self) -> Stream:
        return _Each(self)

    def unknowns(self, text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for each in text if each not in self.characters))

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "characters": self.characters}


class Bytes(Tokenizer):
    """One id for each byte of the text in UTF-8: 256 ids, and nothing is unknown."""

    name, size = "bytes", 256

    def encode(self, text: str) -> Array:
        try:
            return np.frombuffer(text.encode("utf-8"), dtype=np.uint8)
        except UnicodeEncodeError as error:
            raise half_a_character(text) or error from error

    def decode(self, ids: Sequence[int] | Array) -> str:
        return self._checked(ids).astype(np.uint8).tobytes().decode("utf-8", "replace")

    def called(self, id: int) -> str:
        return shown_bytes(bytes([id]))

    def stream(self) -> Stream:
        return BytePieces([bytes([each]) for each in range(256)])

    def unknowns(self, text: str) -> tuple[str, ...]:
        return ()

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name}


class Words(Tokenizer):
    """One id for each word, each run of spaces, and each other character. Id 0 is for unknown words; a word
    that is known in other case only has the id of that.

    A single space between two words has no id; `decode` puts it back. "I like dogs." becomes I·like·dogs·.
    and "yes, no" becomes yes·,·␣·no. So whitespace and punctuation are kept, and a text has about as many
    ids as words.
    """

    name, unknown, sign = "words", 0, "<unknown>"

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.vocabulary = tuple(vocabulary)
        if list(self.vocabulary) != sorted({*self.vocabulary, " "}) or "" in self.vocabulary:
            raise RegardError(
                "a vocabulary of words must be sorted, without repeats, and hold the space; "
                "use learn('words', texts)"
            )
        if half := half_a_character("".join(self.vocabulary)):
            raise half
        self.size = 1 + len(self.vocabulary)
        self._texts = (self.sign, *self.vocabulary)
        self._ids = {text: id for id, text in enumerate(self.vocabulary, start=1)}
        # of words that differ only in case, the last is in lower case: capitals sort before
        self._folded = {text.casefold(): id for text, id in self._ids.items()}
        self._is_word = np.array([True, *(_WORD.fullmatch(text) is not None for text in self.vocabulary)])

    @property
    def words(self) -> tuple[str, ...]:
        """The words alone, without spaces and signs."""
        return tuple(text for text, word in zip(self._texts, self._is_word, strict=True) if word)[1:]

    def encode(self, text: str) -> Array:
        return self._parse(text)[0]

    def split(self, text: str) -> list[str]:
        return self._parse(text)[1]

    def _parse(self, text: str) -> tuple[Array, list[str]]:
        """The ids of a text, and what each of them stands for."""
        found = _TOKEN.findall(text)
        ids = np.fromiter(map(self._ids.get, found, repeat(0)), dtype=self.dtype, count=len(found))
        for place in np.flatnonzero(ids == 0).tolist():
            ids[place] = self._folded.get(found[place].casefold(), 0)
        word = self._is_word[ids]
        implied = ids[1:-1] == self._ids[" "]
        implied &= word[:-2]
        implied &= word[2:]
        keep = np.ones(len(ids), dtype=bool)
        keep[1:-1] = ~implied
        return ids[keep], list(compress(found, keep.tolist()))

    def decode(self, ids: Sequence[int] | Array) -> str:
        ids = self._checked(ids)
        word = self._is_word[ids]
        spaced = [""] * len(ids)
        for place in np.flatnonzero(word[1:] & word[:-1]).tolist():
            spaced[place + 1] = " "
        texts = [self._texts[id] for id in ids.tolist()]
        return "".join(chain.from_iterable(zip(spaced, texts, strict=True)))

    def stream(self) -> Stream:
        return _EachWord(self)

    def unknowns(self, text: str) -> tuple[str, ...]:
        found = (each for each in _TOKEN.findall(text) if each.casefold() not in self._folded)
        return tuple(dict.fromkeys(found))

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "vocabulary": list(self.vocabulary)}


# ── files and learning


def save(tokenizer: Tokenizer, path: files.PathLike) -> None:
    """Write tokenizer.json atomically: an error leaves no half-written file."""
    files.write_json(path, tokenizer.to_json())


def load(path: files.PathLike) -> Tokenizer:
    """The tokenizer of a tokenizer.json, ours or Hugging Face's. The path may also be a folder with such a
    file: a run or a model."""
    if os.path.isdir(path):
        path = Path(path) / "tokenizer.json"
    try:
        with files.readable_as(path, "a tokenizer.json"):
            return from_json(files.read_json(path))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error}; give a tokenizer.json (ours or Hugging Face's), or its folder"
        ) from error
    except ValueError as error:
        words = str(error)
        raise RegardError(
            words if words.startswith(str(path)) else f"{path} is not a tokenizer.json: {words}"
        ) from error


def from_json(data: Any) -> Tokenizer:
    """The inverse of `to_json`. A dict with the key "model" is a tokenizer of Hugging Face."""
    if isinstance(data, dict) and "model" in data:
        from regard.data.subwords import Subwords  # here: it builds on this file

        return Subwords(data)
    name = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(name, str) or name not in _READERS:
        raise RegardError(
            'it has neither the key "model" (Hugging Face) nor a "kind" of ' + ", ".join(_READERS)
        )
    return _READERS[name](data)


def learn(tokens: str, texts: Iterable[str], size: int = 8192) -> Tokenizer:
    """Learn a tokenizer from texts. `size` is the largest vocabulary of words and bpe; the most frequent
    entries are kept."""
    if tokens == "characters":
        return Characters("".join(sorted(set().union(*texts))))
    if tokens == "bytes":
        return Bytes()
    if tokens == "words":
        return Words(_frequent_words(texts, size))
    if tokens == "bpe":
        from regard.data.subwords import learn_bpe

        return learn_bpe(texts, size)
    near = nearest(tokens, TOKENIZERS)
    raise RegardError(
        f"tokens must be one of {', '.join(TOKENIZERS)}, got {tokens!r}"
        + (f"; did you mean '{near}'?" if near else "")
    )


TOKENIZERS = ("characters", "bytes", "words", "bpe")

_COUNTED = 2_000_000  # different words counted at once; beyond, the rare ones are forgotten to save memory


def _frequent_words(texts: Iterable[str], size: int) -> list[str]:
    if size < 2:
        raise RegardError(
            f"a vocabulary of words needs at least 2 ids, the unknown and the space, got {size}"
        )
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_TOKEN.findall(text))
        least = 1
        while len(counts) > _COUNTED:
            counts = Counter({word: count for word, count in counts.items() if count > least})
            least *= 2
    counts.pop(" ", None)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return sorted([" ", *ranked[: size - 2]])


def _characters_of(data: dict[str, Any]) -> Characters:
    if not isinstance(data.get("characters"), str):
        raise RegardError('kind "characters" needs them as text under the key "characters"')
    return Characters(data["characters"])


def _words_of(data: dict[str, Any]) -> Words:
    words = data.get("vocabulary")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise RegardError('kind "words" needs them as a list under the key "vocabulary"')
    return Words(words)


_READERS: dict[str, Callable[[dict[str, Any]], Tokenizer]] = {
    "characters": _characters_of,
    "bytes": lambda data: Bytes(),
    "words": _words_of,
}


# ── parts

_WORD = re.compile(r"\w++(?:['’]\w++)*+")  # letters, digits and _, with apostrophes inside: don't
_TOKEN = re.compile(_WORD.pattern + r"| ++|[^\w ]")  # every character of a text is in exactly one of these


class BytePieces:
    """A stream for ids that are pieces of UTF-8. It holds back the bytes of an incomplete character."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, id: int) -> str:
        return self._decoder.decode(self._pieces[id])

    def rest(self) -> str:
        return self._decoder.decode(b"", final=True)


class _Each:
    """A stream for ids that each have a text of their own."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def add(self, id: int) -> str:
        return self._tokenizer.decode([id])

    def rest(self) -> str:
        return ""


class _EachWord(_Each):
    """A stream for words; it puts back the space between two words."""

    _tokenizer: Words
    _after_word = False

    def follow(self, id: int) -> None:
        """Continue after this id; its text was returned already."""
        self._after_word = bool(self._tokenizer._is_word[id])

    def add(self, id: int) -> str:
        text = super().add(id)
        word = bool(self._tokenizer._is_word[id])
        space, self._after_word = " " if word and self._after_word else "", word
        return space + text


def shown_bytes(piece: bytes) -> str:
    """The text of some bytes; bytes of an incomplete character are written as \\x and two digits."""
    return piece.decode("utf-8", "backslashreplace")


def half_a_character(text: str) -> ValueError | None:
    """The error for a lone surrogate, which UTF-8 cannot encode (a command line can contain one); None: the
    text has none."""
    found = re.search("[\ud800-\udfff]", text)
    return found and RegardError(
        f"character {found[0]!r} at place {found.start()} of the text is half a character "
        "(a lone surrogate), which UTF-8 does not have; leave it out"
    )


def _points(text: str) -> Array:
    """The code points of a text, one byte each if they fit."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def unknown_words(tokenizer: Tokenizer, text: str) -> str | None:
    """A note about the words of a text that the model does not know; None: it knows all."""
    if tokenizer.unknown is not None:
        unknown = tokenizer.unknowns(text)
    else:
        unknown = ()
    if not unknown:
        return None
    some = ", ".join(word if word.isprintable() else repr(word) for word in unknown[:3]) + (
        ", ..." if len(unknown) > 3 else ""
    )
    if len(unknown) == 1:
        what = "1 word is"
    else:
        what = f"{len(unknown)} different words are"
    return f"{what} unknown to the model: {some}"
