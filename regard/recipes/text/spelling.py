"""What tokens are made of and how rare they are: what a bag of n-grams must know of a tokenizer and its
texts."""

from __future__ import annotations

import zlib

import numpy as np
import torch

from regard.data.array import Array
from regard.data.tokenizer import Tokenizer
from regard.nn.bag import LONGEST_SPELLING, ROWS, BagOfNGrams
from regard.recipes.text.labelled import LabelledCorpus

SHORTEST, LONGEST = 2, 5  # characters of an n-gram


def fill_bag(bag: BagOfNGrams, rows: LabelledCorpus) -> None:
    """Give a new bag its tables, from the tokenizer and the training texts."""
    vocab = len(bag.words)
    same, spelling = fold_tokens(rows.tokenizer, vocab), spell_tokens(rows.tokenizer, vocab)
    count, texts = count_texts(rows, same)
    used = texts[same]
    parts = np.zeros(ROWS)
    np.add.at(parts, spelling, (used * (same == np.arange(vocab)))[:, None])
    part_rarity = rarity(np.minimum(parts, count), count)
    part_rarity[0] = 0.0
    for name, values in (
        ("same", same),
        ("spelling", spelling),
        ("word_rarity", rarity(used, count)),
        ("part_rarity", part_rarity),
    ):
        buffer = bag.get_buffer(name)
        buffer.copy_(torch.from_numpy(values))


def fold_tokens(tokenizer: Tokenizer, vocab: int) -> Array:
    """For each id the first one that is the same in lower case."""
    first: dict[str, int] = {}
    same = np.arange(vocab)
    for id in range(tokenizer.size):
        same[id] = first.setdefault(tokenizer.called(id).casefold(), id)
    return same


def spell_tokens(tokenizer: Tokenizer, vocab: int) -> Array:
    """For each id the rows of its n-grams, then zeros.   vocab LONGEST_SPELLING"""
    spelling = np.zeros((vocab, LONGEST_SPELLING), dtype=np.int32)
    for id in range(tokenizer.size):
        if id != tokenizer.unknown:
            found = [hash_ngram(each) for each in character_ngrams(tokenizer.called(id))][:LONGEST_SPELLING]
            spelling[id, : len(found)] = found
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


def count_texts(rows: LabelledCorpus, same: Array) -> tuple[int, Array]:
    """The number of training texts, and in how many of them each token is."""
    text = np.repeat(np.arange(len(rows.target)), np.diff(rows.starts))
    trained = ~rows.held[text]
    pairs = np.unique(text[trained] * len(same) + same[rows.ids[trained].astype(np.int64)])
    return int((~rows.held).sum()), np.bincount(pairs % len(same), minlength=len(same))


def usual_lengths(bag: BagOfNGrams, rows: LabelledCorpus) -> torch.Tensor:
    """The mean length of the rarities of words, and of n-grams, of a training text, for a bag that is filled.   2"""
    text = np.repeat(np.arange(len(rows.target)), np.diff(rows.starts))
    ids, count = rows.ids.astype(np.int64), len(rows.target)
    grams = bag.part_rarity[bag.spelling.long()].square().sum(1)
    squares = [each.double().numpy()[ids] for each in (bag.word_rarity.square(), grams)]
    found = [np.sqrt(np.bincount(text, each, minlength=count))[~rows.held].mean() for each in squares]
    return torch.tensor(found).clamp(min=1e-6)


def rarity(texts: Array, count: int) -> Array:
    """1 + log of (texts / texts with it), one text more having it: the inverse document frequency."""
    return 1.0 + np.log((1 + count) / (1 + texts))
