"""One id for each word: NumPy finds where words begin, Arrow which of them are the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from tokenizers import Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Inner

from regard.data.array import Array
from regard.data.characters import points_of
from regard.data.tokenizer import Tokenizer, half_a_character
from regard.errors import RegardError

LETTER, SPACE, APOSTROPHE, SIGN = range(4)  # kinds of characters: of words, the space, ' and ’, all others
LAST = 0x40000  # no character from here on is part of a word: Unicode has no letters there


class Words(Tokenizer):
    """One id for each word, each run of spaces, and each other character. Id 0 is for unknown words; a word
    that is known in other case only has the id of that.

    A single space between two words has no id; `decode` puts it back. "I like dogs." becomes I·like·dogs·.
    and "yes, no" becomes yes·,·␣·no. So whitespace and punctuation are kept, and a text has about as many
    ids as words.
    """

    name, sign = "words", "<unknown>"

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.vocabulary = tuple(vocabulary)
        if list(self.vocabulary) != sorted({*self.vocabulary, " "}) or "" in self.vocabulary:
            raise RegardError(
                "a vocabulary of words must be sorted, without repeats, and hold the space; use learn('words', texts)"
            )
        if "\0" in self.vocabulary:  # it stands for the ends of words, see `_file_of`
            raise RegardError("a vocabulary of words cannot hold the character NUL; leave it out of the text")
        if half := half_a_character("".join(self.vocabulary)):
            raise half
        super().__init__(_file_of(self.sign, self.vocabulary))
        self._ids = {text: id for id, text in enumerate(self.vocabulary, start=1)}
        # of words that differ only in case, the last is in lower case: capitals sort before
        self._folded = {text.casefold(): id for text, id in self._ids.items()}
        self._is_word = np.array([True, *(_is_word(text) for text in self.vocabulary)])

    @property
    def words(self) -> tuple[str, ...]:
        """The words alone, without spaces and signs."""
        return tuple(filter(_is_word, self.vocabulary))

    def _encode(self, text: str) -> Array:
        return self._parse(text)[0]

    def split(self, text: str) -> list[str]:
        return [text[start:stop] for start, stop in self._parse(text)[1].tolist()]

    def _parse(self, text: str) -> tuple[Array, Array]:
        """The ids of a text, and where what they stand for begins and ends.   n, n 2"""
        borders = find_borders(text)
        found = cut(text, borders).dictionary_encode()
        known = [self._id(each) for each in found.dictionary.to_pylist()]
        ids = np.array(known, dtype=np.int64)[found.indices.to_numpy()]
        word = self._is_word[ids]
        keep = np.ones(len(ids), dtype=bool)
        keep[1:-1] = ~((ids[1:-1] == self._ids[" "]) & word[:-2] & word[2:])
        return ids[keep], np.stack([borders[:-1], borders[1:]], 1)[keep]

    def _id(self, text: str) -> int:
        return self._ids.get(text) or self._folded.get(text.casefold(), 0)

    def unknowns(self, text: str) -> tuple[str, ...]:
        found = cut(text, find_borders(text)).dictionary_encode().dictionary.to_pylist()
        return tuple(each for each in found if self._id(each) == 0)


def find_borders(text: str) -> Array:
    """Where each word, run of spaces and other character of a text begins, then the end of the text.

    A word has letters, digits and _, and apostrophes inside (don't). Every character is in exactly one of these.
    """
    kind = _kinds().take(points_of(text), mode="clip")
    inside = np.flatnonzero(kind == APOSTROPHE)
    inside = inside[(inside > 0) & (inside < len(kind) - 1)]
    kind[inside[(kind[inside - 1] == LETTER) & (kind[inside + 1] == LETTER)]] = LETTER
    begins = kind >= APOSTROPHE
    begins[1:] |= kind[1:] != kind[:-1]
    begins[:1] = True
    return np.append(np.flatnonzero(begins), len(kind))


def cut(text: str, borders: Array) -> Any:
    """The parts of a text between borders as an array of Arrow, without a copy of each."""
    import pyarrow  # type: ignore[import-untyped]  # here: it takes a while

    data = text.encode("utf-8")
    if len(data) > len(text):
        first = (np.frombuffer(data, dtype=np.uint8) & 0xC0) != 0x80  # of the bytes of a character
        borders = np.append(np.flatnonzero(first), len(data))[borders]
    buffers = [pyarrow.py_buffer(each) for each in (borders.astype(np.int64), data)]
    return pyarrow.LargeStringArray.from_buffers(len(borders) - 1, *buffers)


@cache
def _kinds() -> Array:
    """The kind of each character by its code point; the last is that of all others."""
    kinds = np.full(LAST + 1, SIGN, dtype=np.uint8)
    for run in re.finditer(r"\w+", "".join(map(chr, range(LAST)))):
        kinds[run.start() : run.end()] = LETTER
    kinds[ord(" ")] = SPACE
    kinds[[ord("'"), ord("’")]] = APOSTROPHE
    return kinds


def _is_word(text: str) -> bool:
    return re.match(r"\w", text) is not None


def _file_of(sign: str, vocabulary: Sequence[str]) -> Inner:
    """The tokenizer.json. The package does not find words of other case. NUL marks the ends of words until it is
    known where two of them meet."""
    letter = r"[\p{L}\p{N}_]"
    inner = Inner(models.WordLevel({text: id for id, text in enumerate((sign, *vocabulary))}, unk_token=sign))
    between, each = (Regex(f"(?<={letter}) (?={letter})"), Regex(rf"{letter}+(?:['’]{letter}+)*| +|[^{letter[1:-1]} ]"))
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(between, "removed"), pre_tokenizers.Split(each, "isolated")]
    )
    begins, ends = Regex(rf"\A(?={letter}|{sign}\z)"), Regex(rf"(?<={letter}|\0{sign})\z")
    inner.decoder = decoders.Sequence(
        [
            decoders.Replace(begins, "\0"),
            decoders.Replace(ends, "\0"),
            decoders.Fuse(),
            decoders.Replace("\0\0", " "),
            decoders.Replace("\0", ""),
        ]
    )
    return inner
