"""What tokens are made of: character n-grams, as rows of the table of a bag of n-grams."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.data.array import Array
from regard.data.tokenizer import Tokenizer
from regard.nn.ngram_logistic import LONGEST_SPELLING, ROWS

SHORTEST, LONGEST = 2, 5  # characters of an n-gram


def spell_vocabulary(tokenizer: Tokenizer) -> Array:
    """The rows of each id; the unknown has none.   vocab LONGEST_SPELLING"""
    spelling = spell([tokenizer.called(id) for id in range(tokenizer.size)])
    if tokenizer.unknown is not None:
        spelling[tokenizer.unknown] = 0
    return spelling


def spell(tokens: Sequence[str]) -> Array:
    """The rows of the n-grams of each token, then zeros.   n LONGEST_SPELLING"""
    spelling = np.zeros((len(tokens), LONGEST_SPELLING), dtype=np.int32)
    for place, token in enumerate(tokens):
        found = [hash_ngram(each) for each in character_ngrams(token)[:LONGEST_SPELLING]]
        spelling[place, : len(found)] = found
    return spelling


def spell_text(tokenizer: Tokenizer, text: str) -> Tensor:
    """The rows of each token of a text, also of those that the tokenizer does not know.   n LONGEST_SPELLING"""
    return torch.from_numpy(spell(tokenizer.split(text)))


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
