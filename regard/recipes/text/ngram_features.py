"""What a bag of n-grams must know of a tokenizer and of the training texts: what tokens are made of, and how rare it is.

A text is an array of ids, and of those that the tokenizer does not know, what stands there.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data.array import Array
from regard.data.tokenizer import Tokenizer
from regard.nn.ngram_logistic import LONGEST_SPELLING, ROWS, BagOfNGrams

SHORTEST, LONGEST = 2, 5  # characters of an n-gram
STRENGTH = 10.0  # of the data against the L2 penalty: C of logistic regression
TOGETHER = 256  # texts whose n-grams are counted at once


class TokenIds(NamedTuple):
    """A text as ids.   n"""

    ids: Array
    unknown: Mapping[int, str] = {}  # place -> the text of a token that has no id of its own


# ── what tokens are made of: character n-grams, as rows of a table


class Spelling:
    """The rows of the n-grams of each token, then zeros.   n LONGEST_SPELLING"""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.table = spell([tokenizer.called(id) for id in range(tokenizer.size)])
        if tokenizer.unknown is not None:
            self.table[tokenizer.unknown] = 0

    def __call__(self, text: TokenIds) -> Array:
        """The rows of the tokens of a text, also of those that the tokenizer does not know."""
        found: Array = self.table[text.ids]
        if text.unknown:
            found[list(text.unknown)] = spell(list(text.unknown.values()))
        return found


def spell(tokens: Sequence[str]) -> Array:
    """The rows of the n-grams of each token, then zeros.   n LONGEST_SPELLING"""
    spelling = np.zeros((len(tokens), LONGEST_SPELLING), dtype=np.int32)
    for place, token in enumerate(tokens):
        found = [hash_ngram(each) for each in character_ngrams(token)[:LONGEST_SPELLING]]
        spelling[place, : len(found)] = found
    return spelling


def character_ngrams(token: str) -> list[str]:
    """The n-grams of a token in lower case, the shortest first; < and > mark its ends."""
    marked = f"<{token.strip().casefold()}>"
    if marked == "<>":
        return []
    return [
        marked[start : start + length]
        for length in range(SHORTEST, LONGEST + 1)
        for start in range(len(marked) - length + 1)
    ]


def hash_ngram(ngram: str) -> int:
    """The row of an n-gram: 1 ... ROWS − 1, the same in every process."""
    return 1 + zlib.crc32(ngram.encode()) % (ROWS - 1)


# ── how rare they are in the training texts


def fill_bag(
    bag: BagOfNGrams, tokenizer: Tokenizer, spelling: Spelling, texts: Sequence[TokenIds], share: float = 1.0
) -> None:
    """Give a new bag its buffers and its penalty. share: of the texts of a batch, those that teach it"""
    same = fold_tokens(tokenizer, len(bag.same))
    bag.penalty = share / (STRENGTH * len(texts))
    bag.same.copy_(torch.from_numpy(same))
    bag.spelling[: tokenizer.size] = torch.from_numpy(spelling.table)
    words, parts = np.zeros(len(same), dtype=np.int64), np.zeros(ROWS, dtype=np.int64)
    for start in range(0, len(texts), TOGETHER):
        some = texts[start : start + TOGETHER]
        number = np.repeat(np.arange(len(some)), [len(text.ids) for text in some])
        words += _count_texts(number, same[np.concatenate([text.ids for text in some])], len(same))
        parts += _count_texts(number[:, None], np.concatenate([spelling(text) for text in some]), ROWS)
    if tokenizer.unknown is not None:
        words[tokenizer.unknown] = 0
    parts[0] = 0  # the row of no n-gram
    bag.word_rarity.copy_(torch.from_numpy(rarity(words[same], len(texts))))
    bag.part_rarity.copy_(torch.from_numpy(rarity(parts, len(texts))))


def usual_lengths(bag: BagOfNGrams, texts: Sequence[TokenIds]) -> Tensor:
    """The mean length of the features of words, and of n-grams, of a training text, for a bag that is filled.   2"""
    number, ids = np.repeat(np.arange(len(texts)), [len(text.ids) for text in texts]), [text.ids for text in texts]
    words = bag.word_rarity[bag.same].square()
    grams = bag.part_rarity[bag.spelling.long()].square().sum(1)
    squares = [each.double().numpy()[np.concatenate(ids)] for each in (words, grams)]
    found = [np.sqrt(np.bincount(number, each, minlength=len(texts))).mean() for each in squares]
    return torch.tensor(found).clamp(min=1e-6)


def fold_tokens(tokenizer: Tokenizer, vocab: int) -> Array:
    """For each id the first one that is the same in lower case."""
    first: dict[str, int] = {}
    same = np.arange(vocab)
    for id in range(tokenizer.size):
        same[id] = first.setdefault(tokenizer.called(id).casefold(), id)
    return same


def _count_texts(text: Array, row: Array, count: int) -> Array:
    """In how many of some texts each row is."""
    has = np.zeros((TOGETHER, count), dtype=bool)
    has[text, row] = True
    found: Array = has.sum(0)
    return found


def rarity(texts: Array, count: int) -> Array:
    """1 + log of (texts / texts with it), one text more having it: the inverse document frequency. 0 for what no
    text has: nothing is learned about it."""
    return np.where(texts > 0, 1.0 + np.log((1 + count) / (1 + texts)), 0.0)
