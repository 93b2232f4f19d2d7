"""Tokenizers that NumPy and Arrow make fast: one id for each character, byte or word; and byte pairs that split as GPT-2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import Any

import numpy as np
from tokenizers import Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Inner

from regard.data.array import Array
from regard.data.text_files import cuts
from regard.data.tokenizer import Tokenizer, UnknownCharacter, byte_signs, half_a_character
from regard.errors import RegardError

# ── characters and bytes


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


# ── words

IN_WORD, BLANK, APOSTROPHE, ALONE = range(4)  # kinds of characters: of words, the space, ' and ’, all others
LAST_IN_WORD = 0x40000  # no character from here on is part of a word: Unicode has no letters there


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
    kind = _kinds_for_words().take(points_of(text), mode="clip")
    inside = np.flatnonzero(kind == APOSTROPHE)
    inside = inside[(inside > 0) & (inside < len(kind) - 1)]
    kind[inside[(kind[inside - 1] == IN_WORD) & (kind[inside + 1] == IN_WORD)]] = IN_WORD
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
def _kinds_for_words() -> Array:
    """The kind of each character by its code point; the last is that of all others."""
    kinds = np.full(LAST_IN_WORD + 1, ALONE, dtype=np.uint8)
    for run in re.finditer(r"\w+", "".join(map(chr, range(LAST_IN_WORD)))):
        kinds[run.start() : run.end()] = IN_WORD
    kinds[ord(" ")] = BLANK
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


# ── pairs of bytes

SHORT = 1000  # characters; in a shorter text hardly a piece comes twice
LONG = 1 << 21  # characters whose pieces are gathered at once
AT_ONCE = 1 << 12  # pieces that the package encodes at once: each takes a kilobyte until it is ids
# kinds of characters. Whether an odd one (a control character, a space of other kinds) is white space, not everybody agrees.
LETTER, DIGIT, SIGN, OTHER, SPACE, ODD = range(6)
LAST_SPACE = 0x3001  # no character from here on is white space


class BytePairs(Tokenizer):
    """A tokenizer none of whose tokens crosses the borders that `find_pieces` finds."""

    @staticmethod
    def fits(data: dict[str, Any]) -> bool:
        """Does a tokenizer.json split as GPT-2, without a normaliser?"""
        split, model = data.get("pre_tokenizer") or {}, data["model"]
        return (
            data.get("normalizer") is None
            and model.get("type") == "BPE"
            and not model.get("dropout")
            and split.get("type") == "ByteLevel"
            and split.get("use_regex", True)
            and not split.get("add_prefix_space")
        )

    def _encode(self, text: str) -> Array:
        if len(text) < SHORT or any(token in text for token in self._added):
            return super()._encode(text)
        bounds = pairwise([0, *cuts(text, LONG), len(text)])
        return np.concatenate([self._encode_pieces(text[start:stop]) for start, stop in bounds])

    def _encode_pieces(self, text: str) -> Array:
        import pyarrow  # here: it takes a while

        pieces = cut(text, find_pieces(text)).dictionary_encode()
        distinct = pieces.dictionary.to_pylist()
        ids: list[list[int]] = []
        for first in range(0, len(distinct), AT_ONCE):
            found = self._inner.encode_batch_fast(distinct[first : first + AT_ONCE], add_special_tokens=False)
            ids += [each.ids for each in found]
        borders = np.cumsum([0, *map(len, ids)], dtype=np.int32)
        flat = np.fromiter(chain.from_iterable(ids), dtype=np.int64, count=int(borders[-1]))
        each = pyarrow.ListArray.from_arrays(borders, flat)
        found_ids: Array = each.take(pieces.indices).flatten().to_numpy()
        return found_ids


def find_pieces(text: str) -> Array:
    """Borders where GPT-2's pattern surely begins a new word, then the end of the text: before white space that follows
    something visible, and between letters, digits and signs of ASCII."""
    kind = _kinds_for_pairs().take(points_of(text), mode="clip")
    before, after = kind[:-1], kind[1:]
    plain = (before < OTHER) & (after < OTHER)
    begins = (before != after) & (plain | ((before < SPACE) & (after == SPACE)))
    return np.concatenate([[0], 1 + np.flatnonzero(begins), [len(kind)]])


@cache
def _kinds_for_pairs() -> Array:
    """The kind of each character by its code point; the last is that of all others."""
    kinds = np.full(LAST_SPACE + 1, OTHER, dtype=np.uint8)
    for point, sign in enumerate(map(chr, range(LAST_SPACE))):
        if sign in " \t\r\n":
            kinds[point] = SPACE
        elif sign.isspace() or not sign.isprintable():
            kinds[point] = ODD
        elif sign.isascii() and sign != "'":  # with letters, ' is a word of its own: 's
            kinds[point] = LETTER if sign.isalpha() else DIGIT if sign.isdigit() else SIGN
    return kinds
