"""One id for each character, or for each byte of UTF-8: byte-pair encoding without pairs, encoded by NumPy."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from tokenizers import Tokenizer as Inner
from tokenizers import decoders, models, pre_tokenizers

from regard.data.array import Array
from regard.data.tokenizer import Tokenizer, UnknownCharacter, byte_signs, half_a_character
from regard.errors import RegardError


class Characters(Tokenizer):
    """One id for each character of the training text, in the order of their code points."""

    name = "characters"

    def __init__(self, characters: str) -> None:
        if not characters or list(characters) != sorted(set(characters)):
            raise RegardError("characters must be different, sorted, and at least one; use sorted(set(text))")
        if half := half_a_character(characters):
            raise half
        inner = _signs(characters)
        inner.decoder = decoders.Fuse()
        super().__init__(inner)
        self.characters = characters
        points = points_of(characters)
        # all others, and all above, give `size`
        self._table = np.full(int(points[-1]) + 2, self.size, dtype=np.int64)
        self._table[points] = np.arange(self.size)

    def _encode(self, text: str) -> Array:
        ids: Array = self._table.take(points_of(text), mode="clip")
        unknown = ids == self.size
        if unknown.any():
            place = int(unknown.argmax())
            raise UnknownCharacter(text[place], place, self.size)
        return ids

    def unknowns(self, text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for each in text if each not in self.characters))


class Bytes(Tokenizer):
    """One id for each byte of the text in UTF-8: 256 ids, and nothing is unknown."""

    name = "bytes"

    def __init__(self) -> None:
        inner = _signs(byte_signs())
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        inner.decoder = decoders.ByteLevel()
        super().__init__(inner)

    def _encode(self, text: str) -> Array:
        return np.frombuffer(text.encode("utf-8"), dtype=np.uint8).astype(np.int64)


def find_characters(texts: Iterable[str]) -> str:
    """All different characters of some texts, sorted."""
    seen = np.zeros(0x110000, dtype=bool)
    for text in texts:
        seen[points_of(text)] = True
    return "".join(map(chr, np.flatnonzero(seen)))


def points_of(text: str) -> Array:
    """The code points of a text, one byte each if they fit."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _signs(signs: Iterable[str]) -> Inner:
    """Byte-pair encoding without pairs: each sign is a token."""
    return Inner(models.BPE(vocab={sign: id for id, sign in enumerate(signs)}, merges=[]))
