"""Byte-pair encoding that splits as GPT-2: the package encodes each piece of a text once, however often it comes."""

from __future__ import annotations

from functools import cache
from itertools import chain, pairwise
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.data.characters import points_of
from regard.data.safe_split import cuts
from regard.data.tokenizer import Tokenizer
from regard.data.words import cut

SHORT = 1000  # characters; in a shorter text hardly a piece comes twice
LONG = 1 << 21  # characters whose pieces are gathered at once
AT_ONCE = 1 << 12  # pieces that the package encodes at once: each takes a kilobyte until it is ids
# kinds of characters. Whether an odd one (a control character, a space of other kinds) is white space, not everybody agrees.
LETTER, DIGIT, SIGN, OTHER, SPACE, ODD = range(6)
LAST = 0x3001  # no character from here on is white space


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
        import pyarrow  # type: ignore[import-untyped]  # here: it takes a while

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
    kind = _kinds().take(points_of(text), mode="clip")
    before, after = kind[:-1], kind[1:]
    plain = (before < OTHER) & (after < OTHER)
    begins = (before != after) & (plain | ((before < SPACE) & (after == SPACE)))
    return np.concatenate([[0], 1 + np.flatnonzero(begins), [len(kind)]])


@cache
def _kinds() -> Array:
    """The kind of each character by its code point; the last is that of all others."""
    kinds = np.full(LAST + 1, OTHER, dtype=np.uint8)
    for point, sign in enumerate(map(chr, range(LAST))):
        if sign in " \t\r\n":
            kinds[point] = SPACE
        elif sign.isspace() or not sign.isprintable():
            kinds[point] = ODD
        elif sign.isascii() and sign != "'":  # with letters, ' is a word of its own: 's
            kinds[point] = LETTER if sign.isalpha() else DIGIT if sign.isdigit() else SIGN
    return kinds
