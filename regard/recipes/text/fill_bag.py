"""What a bag of n-grams must know of a tokenizer and of the training texts."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from regard.data.array import Array
from regard.data.tokenizer import Tokenizer
from regard.nn.ngram_logistic import ROWS, BagOfNGrams
from regard.recipes.text.labelled import LabelledCorpus

STRENGTH = 10.0  # of the data against the L2 penalty: C of logistic regression
TOGETHER = 256  # texts whose n-grams are counted at once


def fill_bag(bag: BagOfNGrams, rows: LabelledCorpus, share: float = 1.0) -> None:
    """Give a new bag its buffers and its penalty. share: of the rows of a batch, those that teach it"""
    same = fold_tokens(rows.tokenizer, len(bag.same))
    trained = np.flatnonzero(~rows.held)
    count = len(trained)
    bag.penalty = share / (STRENGTH * count)
    bag.same.copy_(torch.from_numpy(same))
    bag.spelling[: rows.tokenizer.size] = torch.from_numpy(rows.spellings[: rows.tokenizer.size])
    words, parts = count_texts(rows, trained, same)
    bag.word_rarity.copy_(torch.from_numpy(rarity(words[same], count)))
    bag.part_rarity.copy_(torch.from_numpy(rarity(parts, count)))


def usual_lengths(bag: BagOfNGrams, rows: LabelledCorpus) -> Tensor:
    """The mean length of the features of words, and of n-grams, of a training text, for a bag that is filled.   2"""
    text = np.repeat(np.arange(len(rows.target)), np.diff(rows.starts))
    ids, count = rows.ids.astype(np.int64), len(rows.target)
    words = bag.word_rarity[bag.same].square()
    grams = bag.part_rarity[bag.spelling.long()].square().sum(1)
    squares = [each.double().numpy()[ids] for each in (words, grams)]
    found = [np.sqrt(np.bincount(text, each, minlength=count))[~rows.held].mean() for each in squares]
    return torch.tensor(found).clamp(min=1e-6)


def fold_tokens(tokenizer: Tokenizer, vocab: int) -> Array:
    """For each id the first one that is the same in lower case."""
    first: dict[str, int] = {}
    same = np.arange(vocab)
    for id in range(tokenizer.size):
        same[id] = first.setdefault(tokenizer.called(id).casefold(), id)
    return same


def count_texts(rows: LabelledCorpus, texts: Array, same: Array) -> tuple[Array, Array]:
    """In how many of these texts each token is, and each n-gram. Unknown tokens and the row of no n-gram are in
    none.   len(same), ROWS"""
    words, parts = np.zeros(len(same), dtype=np.int64), np.zeros(ROWS, dtype=np.int64)
    for start in range(0, len(texts), TOGETHER):
        some = texts[start : start + TOGETHER]
        places = np.concatenate([np.arange(rows.starts[row], rows.starts[row + 1]) for row in some])
        number = np.repeat(np.arange(len(some)), np.diff(rows.starts)[some])
        words += _count_rows(number, same[rows.ids[places].astype(np.int64)], len(same))
        parts += _count_rows(number[:, None], rows.spellings[rows.forms[places]], ROWS)
    if rows.tokenizer.unknown is not None:
        words[rows.tokenizer.unknown] = 0
    parts[0] = 0
    return words, parts


def _count_rows(text: Array, row: Array, count: int) -> Array:
    """In how many texts each row is."""
    has = np.zeros((TOGETHER, count), dtype=bool)
    has[text, row] = True
    found: Array = has.sum(0)
    return found


def rarity(texts: Array, count: int) -> Array:
    """1 + log of (texts / texts with it), one text more having it: the inverse document frequency. 0 for what no
    text has: nothing is learned about it."""
    return np.where(texts > 0, 1.0 + np.log((1 + count) / (1 + texts)), 0.0)
