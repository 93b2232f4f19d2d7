"""Pairs as tokens: read, cleaned, split, encoded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from regard.config import Amount, Length, Natural, Rare, Share, Size, Vocab, config
from regard.data.array import Array
from regard.data.dialect import TableConfig
from regard.data.progress import Note
from regard.data.splits import TEST, TRAIN, VALIDATION, Folds, SplitConfig, check_splits, draw_splits, share_of_test
from regard.errors import RegardError
from regard.recipes.translation.made_pairs import MADE
from regard.recipes.translation.pairs import Handling, Pair, Pairs, leave_out, without_empty, without_repeats
from regard.recipes.translation.read_pairs import read_pairs
from regard.recipes.translation.search import find_ratio
from regard.recipes.translation.vocabulary import Vocabulary, learn_vocabulary

ENOUGH_FOR_BPE = 2000  # training pairs from which "auto" means subwords; fewer teach a model to spell better
BUILT_IN = "dates"


@config
class PairsConfig(TableConfig, SplitConfig):
    """Which pairs to read, and how to split them into tokens and batches."""

    paths: ClassVar[tuple[str, ...]] = ("path", "beside")

    # a table, a folder with train.en and train.de, or a file (see beside); dates or reverse: made pairs; None: dates
    path: str | None = None
    beside: str | None = None  # the other side of the file `path`: line i is the translation of line i
    source: str | None = None  # the column, or the language of files, to translate from; None: guess
    target: str | None = None  # the column, or the language of files, to translate to; None: guess
    pairs: Size = 40_000  # number of made pairs
    # auto: characters for dates and few pairs, words to reverse numbers, otherwise bpe
    tokens: Literal["auto", "characters", "bytes", "words", "bpe"] = "auto"
    vocabulary: Vocab = 8000  # largest vocabulary of words and bpe
    # shared: one vocabulary for both sides; separate: one for each
    vocabularies: Literal["shared", "separate"] = "shared"
    context: Length = 128  # longest side in tokens, its end included
    # pairs with an empty side, or with more tokens than `context`: skip and count them, or refuse the data
    wrong: Handling = "skip"
    # training pairs whose source is also in the validation or test split
    repeated: Literal["drop", "keep"] = "drop"
    # most tokens in a batch: pairs times the longer side, padding included; train.batch is the most pairs
    batch_tokens: Rare[Length] = 2048
    smoothing: Rare[Share] = 0.1  # share of each target token that is given to all tokens alike
    # validation pairs that are translated greedily at each evaluation in training, for their BLEU; 0: none
    bleu_pairs: Rare[Annotated[int, Field(ge=0, le=2**22)]] = 200
    folds: Rare[Folds | None] = None  # cross-validation: train once for each of this many parts of the data

    def __post_init__(self) -> None:
        check_splits(self, "pairs")
        if self.batch_tokens < self.context:
            raise RegardError(
                f"a batch must hold the longest pair: batch_tokens is {self.batch_tokens}, below "
                f"context={self.context}; use --data.batch-tokens {self.context} or more"
            )
        if self.beside is not None and (self.made is not None or self.path is None):
            raise RegardError(f"--data.beside {self.beside} goes with a file; give that with --data FILE")

    @property
    def made(self) -> str | None:
        """The name of made pairs; None: they are read from files. A file of that name is read."""
        if self.path is None:
            return BUILT_IN
        if self.path in MADE and not os.path.exists(self.path):
            return self.path
        return None


@config
class PairsInfo:
    """A summary of pairs in numbers."""

    path: str
    source: str  # what the sides are called
    target: str
    pairs: Natural
    train: Natural
    validation: Natural
    test: Natural = 0
    kind: str  # of the tokens
    vocabulary: Vocab  # of the target
    source_vocabulary: Vocab
    ratio: Amount = 2.0  # tokens of a target for each of its source, at most; see find_ratio


@dataclass(frozen=True, eq=False, kw_only=True)
class Corpus:
    """Pairs as ids, with their texts."""

    texts: Sequence[Pair]
    sources: Sequence[Array]  # ids, with the end
    targets: Sequence[Array]
    splits: Array  # uint8 n
    vocabulary: Vocabulary
    info: PairsInfo
    notes: tuple[str, ...] = ()

    def rows(self, split: int) -> Array:
        """The numbers of the pairs of a split."""
        return np.flatnonzero(self.splits == split)


def prepare_pairs(
    config: PairsConfig, *, seed: int, note: Note | None = None, vocabulary: Vocabulary | None = None
) -> Corpus:
    """Read, clean, split and encode the pairs. vocabulary: of an earlier run, used instead of a new one"""
    tell = note or (lambda what, share: None)
    tell("reading pairs", None)
    found = without_empty(_read(config, seed), config.wrong)
    splits = _split(found, config, seed)
    if config.repeated == "drop":
        found, splits = without_repeats(found, splits)
    if vocabulary is None:
        tell("learning the tokens", None)
        vocabulary = _learn(config, found.pairs, splits)
    tell("encoding pairs", None)
    return _encode(found, splits, config, vocabulary)


def read_other_pairs(config: PairsConfig, vocabulary: Vocabulary, seed: int) -> Corpus:
    """Other pairs, all of them in the test split; of data with a test split only that."""
    found = without_empty(_read(config, seed), config.wrong)
    if found.splits is not None and (found.splits == TEST).any():
        found = found.take(found.splits == TEST)
    splits = np.full(len(found), TEST, dtype=np.uint8)
    # nothing is left out of a figure because it is long: a model reads it as far as it can
    return _encode(found, splits, replace(config, context=2**22, batch_tokens=2**22), vocabulary)


def _read(config: PairsConfig, seed: int) -> Pairs:
    if config.made is not None:
        held = (config.validation, share_of_test(config, config.pairs))
        return MADE[config.made](config.pairs, held, seed)
    assert config.path is not None
    return read_pairs(config.path, config.beside, config.source, config.target, config)


def _split(found: Pairs, config: PairsConfig, seed: int) -> Array:
    """The split of each pair: its own, or drawn."""
    if found.splits is None:
        return draw_splits(len(found), config, seed, unit="pairs")
    if config.folds is not None:
        raise RegardError(
            f"{found.name} has splits of its own, so it cannot be cut into {config.folds} folds; give one file "
            "of pairs, or leave --data.folds out"
        )
    splits = found.splits.copy()
    train = np.flatnonzero(splits == TRAIN)
    share = 0.0
    if config.test is not None and not (splits == TEST).any():
        share = config.test
    wanted = 0.0 if (splits == VALIDATION).any() else config.validation
    if config.made is not None:
        return splits
    if share or wanted:
        splits[train] = draw_splits(len(train), _Shares(validation=wanted, test=share), seed, unit="pairs")
    return splits


@dataclass(frozen=True, kw_only=True)
class _Shares(SplitConfig):
    """Shares of pairs to draw from those to learn from."""


def _learn(config: PairsConfig, pairs: Sequence[Pair], splits: Array) -> Vocabulary:
    """Tokens from the training pairs; characters from all, because none may be unknown."""
    kind: str = config.tokens
    count = int((splits == TRAIN).sum())
    if kind == "auto":
        kind = _usual_tokens(config, count)
    chosen = pairs
    if kind != "characters":
        chosen = [pair for pair, split in zip(pairs, splits.tolist(), strict=True) if split == TRAIN]
    sources, targets = [pair.source for pair in chosen], [pair.target for pair in chosen]
    shared = config.vocabularies == "shared"
    return learn_vocabulary(kind, sources, targets, config.vocabulary, shared=shared)


def _usual_tokens(config: PairsConfig, count: int) -> str:
    if config.made is not None:
        return {"dates": "characters", "reverse": "words"}[config.made]
    return "bpe" if count >= ENOUGH_FOR_BPE else "characters"


def _encode(found: Pairs, splits: Array, config: PairsConfig, vocabulary: Vocabulary) -> Corpus:
    sources = [vocabulary.encode_source(pair.source) for pair in found.pairs]
    targets = [vocabulary.encode_target(pair.target) for pair in found.pairs]
    long = np.array([max(map(len, each)) > config.context for each in zip(sources, targets, strict=True)], dtype=bool)
    if long.any():
        kept = np.flatnonzero(~long).tolist()
        why = f"a side with more than {config.context:,} tokens"
        found = leave_out(found, long, config.wrong, why, "shorten them, or use a larger --data.context")
        sources, targets = [sources[i] for i in kept], [targets[i] for i in kept]
        splits = splits[~long]
    counts = np.bincount(splits, minlength=3)
    if not counts[TRAIN] and not counts[TEST]:
        raise RegardError(f"{found.name} has no pairs to learn from; give more pairs")
    learned = np.flatnonzero(splits == TRAIN) if counts[TRAIN] else np.arange(len(splits))
    info = PairsInfo(
        path=found.name,
        ratio=find_ratio([sources[i] for i in learned], [targets[i] for i in learned]),
        source=found.source,
        target=found.target,
        pairs=len(found),
        train=int(counts[TRAIN]),
        validation=int(counts[VALIDATION]),
        test=int(counts[TEST]),
        kind=vocabulary.target.name,
        vocabulary=vocabulary.target.size,
        source_vocabulary=vocabulary.source.size,
    )
    return Corpus(
        texts=found.pairs,
        sources=sources,
        targets=targets,
        splits=splits,
        vocabulary=vocabulary,
        info=info,
        notes=found.notes,
    )
