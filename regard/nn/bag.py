"""A bag of n-grams: the linear classifier of texts that few labels are enough for, as a part of a model."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.padding import zero_padding
from regard.shapes import expect
from regard.symmetry.groups import EVERYTHING, Group

ROWS = 2**15  # of the table of n-grams, which share rows by a hash
LONGEST_SPELLING = 64  # n-grams of a token that are kept: all of a word of 16 letters
DROPPED = 0.3  # share of tokens and n-grams that are left out in training
SCALE = 12.0  # length of the two vectors of features: how fast the table learns beside other weights


class BagOfNGrams(nn.Module):
    """c (Σ_i r_i·words[t_i] / ‖r‖ + Σ_i Σ_g s_g·parts[g] / ‖s‖): a linear map of TF-IDF
    features.   ids b n -> b classes

    i runs over the real tokens, g over the character n-grams of token i; r and s say how rare they are, and c is
    SCALE. The buffers hold what the data says: rarities, n-grams of each token, and tokens that count as the
    same. Until they are filled, tokens have no n-grams and are equally rare. The table starts at zero, so at
    first nothing is added. A sum over tokens, each by itself, so every order is kept.
    """

    keeps: Group = EVERYTHING
    sparse_features = True  # for optimisers: a text has few of the features

    same: Tensor
    spelling: Tensor
    word_rarity: Tensor
    part_rarity: Tensor

    def __init__(self, vocab: int, classes: int) -> None:
        super().__init__()
        # one table for both, so that an optimiser moves both at one rate: first n-grams, then words
        self.table = nn.Parameter(torch.zeros(ROWS + vocab, classes))
        self.register_buffer("same", torch.arange(vocab))  # the row of words of each token
        self.register_buffer("word_rarity", torch.ones(vocab))
        # rows of parts for each token; row 0 stands for no n-gram
        self.register_buffer("spelling", torch.zeros(vocab, LONGEST_SPELLING, dtype=torch.int32))
        self.register_buffer("part_rarity", torch.zeros(ROWS))

    @property
    def parts(self) -> Tensor:
        return self.table[:ROWS]

    @property
    def words(self) -> Tensor:
        return self.table[ROWS:]

    def forward(self, tokens: Tensor, real: Tensor | None = None) -> Tensor:
        """real: bool b n, False for padding, which may hold any id."""
        b, _ = expect(tokens, "b n", name="tokens")
        ids = tokens.long()
        if real is not None:
            ids = ids.masked_fill(~real, 0)
        rarity = zero_padding(self.word_rarity[ids, None], real)[..., 0]  # b n
        grams = self.spelling[ids].long()  # b n g
        gram_rarity = zero_padding(self.part_rarity[grams], real)
        words = self._sum(ROWS + self.same[ids], rarity)
        parts = self._sum(grams.view(b, -1), gram_rarity.view(b, -1))
        return SCALE * (words + parts)

    def evidence(self, tokens: Tensor, lengths: Tensor, real: Tensor | None = None) -> Tensor:
        """What each token adds by itself, where ‖r‖ and ‖s‖ are the two given lengths, the same for every text:
        so that it does not depend on the other tokens. Zeros for padding.   b n -> b n classes"""
        b, n = expect(tokens, "b n", name="tokens")
        ids = tokens.long()
        if real is not None:
            ids = ids.masked_fill(~real, 0)
        grams = self.spelling[ids].long().view(b * n, -1)  # b·n g
        ones = torch.cat((self.word_rarity[ids].view(-1, 1), self.part_rarity[grams]), 1)
        lengths = torch.cat((lengths[:1], lengths[1:].expand(grams.shape[1])))
        weights = F.dropout(SCALE * ones / lengths, DROPPED, self.training).to(self.table.dtype)
        rows = torch.cat((ROWS + self.same[ids].view(-1, 1), grams), 1)
        found = F.embedding_bag(rows, self.table, mode="sum", per_sample_weights=weights)
        return zero_padding(found.view(b, n, -1), real)

    def _sum(self, rows: Tensor, weights: Tensor) -> Tensor:
        """Σ over the features of weight · row of the table, for weights of length 1.   b f -> b classes"""
        length = weights.norm(dim=1, keepdim=True).clamp(min=1e-6)
        weights = F.dropout(weights / length, DROPPED, self.training)
        weights = weights.to(self.table.dtype)
        return F.embedding_bag(rows, self.table, mode="sum", per_sample_weights=weights)
