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
DROPPED = 0.3  # share of words and n-grams that are left out in training
ALONE = 0.5  # share of the rows of a training batch that teach the safe classifier
JUDGED = 5  # one of so many texts teaches the gate, and never the other classifier
RATE = 0.3  # how fast the gate moves: the gate itself is this many times its parameter


class BagOfNGrams(nn.Module):
    """x·parts/‖x‖ + y·words/‖y‖, where x and y are TF-IDF features of character n-grams and of words.   ids b n -> b classes

    x_g = (1 + log c)·r for an n-gram that is c times in the text and that is r rare. The buffers hold what the data
    says: rarities (0: never seen in training), the n-grams of each token, and tokens that count as the same. Until
    they are filled, tokens have no n-grams and are equally rare. The table starts at zero, so at first nothing is
    added. Tokens are counted, so every order is kept.
    """

    keeps: Group = EVERYTHING
    sparse_features = True  # for optimisers: a text has few of the features, and their vector has length √2
    penalty: float = 0.0  # for optimisers: L2 of the table, which the number of training texts decides

    same: Tensor
    spelling: Tensor
    word_rarity: Tensor
    part_rarity: Tensor

    def __init__(self, vocab: int, classes: int) -> None:
        super().__init__()
        # one table for both: first n-grams, then words
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

    def forward(self, tokens: Tensor, real: Tensor | None = None, spelling: Tensor | None = None) -> Tensor:
        """real: bool b n, False for padding, which may hold any id; spelling: rows of parts for each token, b n g,
        which says more than ids about tokens that the tokenizer does not know; None: those of the ids."""
        return self._add_up(tokens, real, spelling, DROPPED if self.training else 0.0)

    @torch.no_grad()
    def predict(self, tokens: Tensor, real: Tensor | None = None, spelling: Tensor | None = None) -> Tensor:
        """The same without dropout and gradients, in training too."""
        return self._add_up(tokens, real, spelling, 0.0)

    def evidence(
        self, tokens: Tensor, lengths: Tensor, real: Tensor | None = None, spelling: Tensor | None = None
    ) -> Tensor:
        """What each token adds by itself, where ‖y‖ and ‖x‖ are the two given lengths, the same for every text:
        so that it does not depend on the other tokens. Zeros for padding.   b n -> b n classes"""
        b, n = expect(tokens, "b n", name="tokens")
        ids = tokens.long()
        if real is not None:
            ids = ids.masked_fill(~real, 0)
        if spelling is None:
            spelling = self.spelling[ids]
        grams, words = spelling.long(), self.same[ids][..., None]
        rarities = (self.part_rarity[grams] / lengths[1], self.word_rarity[words] / lengths[0])
        weights = F.dropout(torch.cat(rarities, -1), DROPPED, self.training).to(self.table.dtype)
        rows = torch.cat((grams, ROWS + words), -1)
        found = F.embedding_bag(
            rows.view(b * n, -1), self.table, mode="sum", per_sample_weights=weights.view(b * n, -1)
        )
        return zero_padding(found.view(b, n, -1), real)

    def _add_up(self, tokens: Tensor, real: Tensor | None, spelling: Tensor | None, dropped: float) -> Tensor:
        b, n = expect(tokens, "b n", name="tokens")
        ids = tokens.long()
        if real is not None:
            ids = ids.masked_fill(~real, 0)
        if spelling is None:
            spelling = self.spelling[ids]
        expect(spelling, "b n g", name="spelling", b=b, n=n)
        grams = spelling.long()
        gram_rarity = zero_padding(self.part_rarity[grams], real)
        words = self.same[ids]
        word_rarity = zero_padding(self.word_rarity[words, None], real)[..., 0]
        parts = self._sum(grams.view(b, -1), gram_rarity.view(b, -1), slice(0, ROWS), dropped)
        return parts + self._sum(words, word_rarity, slice(ROWS, None), dropped)

    def _sum(self, rows: Tensor, rarity: Tensor, within: slice, dropped: float) -> Tensor:
        """Σ over features of weight · row of the table; a row that comes c times weighs (1 + log c) · rarity, and
        the weights have length 1.   b k -> b classes

        within: the part of the table that rows are numbers of; what is not there has rarity 0
        """
        table = self.table[within]
        times = torch.zeros(len(rows), len(table), dtype=rarity.dtype, device=rows.device)
        times = times.scatter_add_(1, rows, (rarity > 0).to(rarity.dtype)).gather(1, rows).clamp(min=1)
        weights = rarity * (1 + times.log()) / times  # of each occurrence
        length = (weights.square() * times).sum(1, keepdim=True).sqrt().clamp(min=1e-6)
        weights = F.dropout(weights / length, dropped).to(table.dtype)
        return F.embedding_bag(rows, table, mode="sum", per_sample_weights=weights)


# ── a gate between two classifiers of the same texts: one learns safely, the other is let in as far as it helps


class Gate(nn.Module):
    """safe + g·other, with one learned number g that starts at 0.   b classes, b classes -> b classes

    In training each row of a batch teaches one of three. `safe` learns by itself, so that it does not leave to
    `other` what that memorises. `other` learns what `safe` does not know. g learns from texts that `other` does not
    learn from: it opens only if that is right about texts that it has not seen. Which texts these are follows
    from their ids, so equal texts are on one side.
    """

    sparse_features = True  # for optimisers: gradient descent with a penalty
    penalty: float = 0.0  # for optimisers: the fewer texts there are, the less the gate is trusted

    def __init__(self) -> None:
        super().__init__()
        # g·t, and t − 1, both divided by RATE
        self.opened, self.surer = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """g·t and t."""
        return RATE * self.opened, (1 + RATE * self.surer).clamp(min=0.1)

    def forward(self, safe: Tensor, other: Tensor) -> Tensor:
        opened, surer = self.weights
        return safe + (opened / surer).to(other.dtype) * other

    def teach(self, safe: Tensor, known: Tensor, other: Tensor, tokens: Tensor, real: Tensor | None = None) -> Tensor:
        """The logits of a training batch.

        known: `safe` without dropout, so that `other` learns only what `safe` cannot; tokens: b n, real: bool b n or
        None, from which all were made
        """
        opened, surer = self.weights
        judged = surer * known.detach() + opened * other.detach()
        beside = torch.where(judges(tokens, real)[:, None], judged, known.detach() + other)
        alone = torch.rand(len(safe), 1, device=safe.device) < ALONE
        return torch.where(alone, safe, beside)


def judges(tokens: Tensor, real: Tensor | None = None) -> Tensor:
    """Does the text of each row teach a gate?   b n -> bool b"""
    ids = tokens.long() + 1
    if real is not None:
        ids = ids.masked_fill(~real, 0)
    places = torch.arange(1, ids.shape[1] + 1, device=ids.device)
    key = (ids * places).sum(1) % 1_000_003
    return key * 48_271 % 65_537 % JUDGED == 0  # (primes: neighbouring keys are spread)
