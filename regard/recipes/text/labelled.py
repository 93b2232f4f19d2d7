"""Text with labels: a CSV or JSONL file with a text and a label in each row becomes batches for a
classifier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch

from regard.config import Amount, Length, Natural, Rare, Share, Vocab, config
from regard.data.array import Array
from regard.data.batch import Batch, Epochs, Source, generator, pad_rows
from regard.data.dialect import TableConfig
from regard.data.learn_tokenizer import learn
from regard.data.progress import Note
from regard.data.splits import TEST, TRAIN, VALIDATION, SplitConfig, check_splits
from regard.data.table_formats import SUFFIXES
from regard.data.targets import Asks, Numbers, explain_asks
from regard.data.text_files import sample_sizes
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.recipes.text.dataset import TokenChoice, check_tokens
from regard.recipes.text.given_tokenizer import load_given_tokenizer
from regard.recipes.text.label_targets import choose_targets, find_targets
from regard.recipes.text.labelled_rows import Missing, Row, read_rows
from regard.recipes.text.spelling import spell, spell_vocabulary

# "auto" means words, unless their mean length between spaces is larger than this: then the language has no
# spaces between words, hardly a word occurs twice, and "auto" means characters.
LONGEST_MEAN_WORD = 12.0


@config
class LabelledConfig(TableConfig, SplitConfig):
    """Which table to read, and how to split its texts into tokens."""

    paths: ClassVar[tuple[str, ...]] = ("path", "tokenizer")

    path: str  # a CSV, TSV, JSONL or Parquet file
    text: str = "text"  # the column (JSONL: the key) with the text
    label: str = "label"  # the column with the label
    # what labels are; auto: numbers if some have a fraction, or if they are over ten whole numbers with gaps
    asks: Asks = "auto"
    # rows without a text or a label (empty, NA, N/A, NaN, null, ?): an error, or left out and counted
    missing: Missing = "refuse"
    tokens: TokenChoice = "auto"  # auto: words, or characters for languages without spaces between words
    tokenizer: str | None = None  # a tokenizer.json (ours or Hugging Face's) to use instead
    vocabulary: Vocab = 8192  # largest vocabulary of words and bpe
    context: Length = 256  # tokens per text; longer texts are cut off
    sample: Rare[Amount] = 100.0  # megabytes of text, drawn by the seed, from which bpe is learned
    smoothing: Rare[Share] = 0.0  # share of each label that is given to all classes alike

    def __post_init__(self) -> None:
        check_tokens(self)
        check_splits(self, "rows")
        if self.text == self.label:
            raise RegardError(f"text and label must be different columns, got '{self.text}' for both")


def looks_labelled(path: str | None) -> bool:
    """Is this the path of a table with labels, by its suffix?"""
    return path is not None and path.lower().endswith(SUFFIXES)


def prepare_labelled(
    config: LabelledConfig, *, seed: int, note: Note | None = None, tokenizer: Tokenizer | None = None
) -> LabelledCorpus:
    """All rows as ids, with a split drawn by the seed. `tokenizer` (of an earlier run) is used instead of the
    config's."""
    tell: Note = note or (lambda what, share: None)
    tell("reading", None)
    rows, notes = read_rows(config.path, config.text, config.label, config.missing, config)
    labels, target, splits, numbers = choose_targets(rows, config, seed)
    if tokenizer is None:
        tokenizer = _tokenizer(config, rows, splits != TRAIN, seed, tell)
    found = _encode_rows(config, rows, tokenizer, labels, target, splits, tell)
    said = explain_asks([row.label for row in rows], config.asks, config.label)
    return replace(found, numbers=numbers, notes=(*notes, *said))


def read_other_labelled(
    config: LabelledConfig, known: LabelledInfo, tokenizer: Tokenizer, note: Note | None = None
) -> LabelledCorpus:
    """All rows of another file with labels that the model knows, or numbers, as one test split."""
    rows, notes = read_rows(config.path, config.text, config.label, config.missing, config)
    target = find_targets(rows, config, known)
    splits = np.full(len(rows), TEST, dtype=np.uint8)
    tell: Note = note or (lambda what, share: None)
    found = _encode_rows(config, rows, tokenizer, known.labels, target, splits, tell)
    return replace(found, numbers=known.numbers, notes=notes)


def _encode_rows(
    config: LabelledConfig,
    rows: list[Row],
    tokenizer: Tokenizer,
    labels: tuple[str, ...],
    target: Array,
    splits: Array,
    note: Note,
) -> LabelledCorpus:
    encoded: list[Array] = []
    unknown: dict[int, str] = {}
    first = 0
    for place, row in enumerate(rows):
        ids = _encode(tokenizer, row, config.path)
        strange = np.flatnonzero(ids == tokenizer.unknown).tolist()
        if strange:
            parts = tokenizer.split(row.text)
            unknown |= {first + each: parts[each] for each in strange}
        ids = tokenizer.frame(ids, config.context)
        first += len(ids)
        encoded.append(ids.astype(tokenizer.dtype))
        if place % 1000 == 0:
            note("encoding", place / len(rows))
    note("encoding", 1.0)
    starts = np.cumsum([0, *map(len, encoded)])
    ids = np.concatenate(encoded)
    return LabelledCorpus(config.path, tokenizer, labels, ids, starts, target, splits, unknown)


@config
class LabelledInfo:
    """A summary of texts with labels in numbers."""

    path: str
    rows: Natural
    train: Natural  # rows
    validation: Natural
    test: Natural = 0
    labels: tuple[str, ...]  # the classes; none if labels are numbers
    counts: tuple[Natural, ...]  # rows of each label
    tokens: Natural
    longest: Natural
    kind: str  # of the tokens
    vocabulary: Vocab
    numbers: Numbers | None = None  # what is predicted if it is a number


@dataclass(frozen=True, eq=False)
class LabelledCorpus:
    """Texts as ids with their targets; row i is ids[starts[i]:starts[i + 1]]. A target is an index into
    `labels`, or a standardised number."""

    path: str
    tokenizer: Tokenizer
    labels: tuple[str, ...]
    ids: Array
    starts: Array
    target: Array
    splits: Array  # TRAIN, VALIDATION or TEST, of each
    unknown: dict[int, str] = field(default_factory=dict)  # by their place in ids: what has no id of its own
    notes: tuple[str, ...] = ()  # on rows that were left out, and on the labels
    numbers: Numbers | None = None  # None: targets are classes

    @property
    def held(self) -> Array:
        """bool: rows that are not for training."""
        found: Array = self.splits != TRAIN
        return found

    @cached_property
    def _unlike(self) -> dict[str, int]:
        """Unknown tokens, each with its row of `spellings`."""
        unlike = dict.fromkeys(self.unknown.values())
        return {token: self.tokenizer.size + i for i, token in enumerate(unlike)}

    @cached_property
    def forms(self) -> Array:
        """The row of `spellings` of each of the ids."""
        forms = self.ids.astype(np.int64)
        for place, token in self.unknown.items():
            forms[place] = self._unlike[token]
        return forms

    @cached_property
    def spellings(self) -> Array:
        """What tokens are made of, see `spell`: those of the tokenizer, then unknown ones."""
        return np.concatenate([spell_vocabulary(self.tokenizer), spell(list(self._unlike))])

    @property
    def info(self) -> LabelledInfo:
        """A summary in numbers, for people and for later commands."""
        return LabelledInfo(
            path=self.path,
            rows=len(self.target),
            train=int((~self.held).sum()),
            validation=int((self.splits == VALIDATION).sum()),
            test=int((self.splits == TEST).sum()),
            labels=self.labels,
            counts=self._counts(),
            tokens=len(self.ids),
            longest=int(np.diff(self.starts).max()),
            kind=self.tokenizer.name,
            vocabulary=self.tokenizer.size,
            numbers=self.numbers,
        )

    def _counts(self) -> tuple[int, ...]:
        """How many rows each label has."""
        if self.target.dtype.kind == "f":
            return ()
        return tuple(np.bincount(self.target, minlength=len(self.labels)).tolist())

    def source(self, batch: int, context: int, seed: int, spelled: bool = False) -> Source:
        """Batches of this many rows, each cut off after `context` tokens. spelled: with what tokens are made of"""
        return LabelledSource(self, batch, context, seed, spelled)

    def batches(self, split: int, batch: int, context: int, spelled: bool = False) -> Iterator[Batch]:
        """All of one split, rows of similar length together."""
        held = self.rows_of(split, context)
        for start in range(0, len(held), batch):
            yield self.take(held[start : start + batch], context, spelled)

    def rows_of(self, split: int, context: int) -> Array:
        """The numbers of the rows of a split, in the order of its batches."""
        held = np.flatnonzero(self.splits == split)
        ordered: Array = held[np.argsort(np.minimum(np.diff(self.starts), context)[held], kind="stable")]
        return ordered

    def take(self, rows: Array, context: int, spelled: bool = False) -> Batch:
        """Some rows as a batch."""
        bounds = list(zip(self.starts[rows], self.starts[rows + 1], strict=True))
        tokens, real = pad_rows([self.ids[start:stop] for start, stop in bounds], context)
        spelling = None
        if spelled:
            forms, _ = pad_rows([self.forms[start:stop] for start, stop in bounds], context)
            spelling = torch.from_numpy(self.spellings[forms.numpy()])
        inputs = {"tokens": tokens, "real": real, "spelling": spelling}
        return Batch(inputs, torch.from_numpy(self.target[rows]), size=tokens.numel())


class LabelledSource(Source):
    """Rows in shuffled batches, rows of similar length together.   tokens b n, real b n, target b

    Batches are as long as their longest row. The rows of a step depend on (seed, step) alone, see `Epochs`.
    """

    def __init__(self, corpus: LabelledCorpus, batch: int, context: int, seed: int, spelled: bool = False) -> None:
        if context < 1:
            raise RegardError(f"context must be at least 1, got {context}")
        self._corpus, self.context, self.spelled = corpus, context, spelled
        lengths = np.minimum(np.diff(corpus.starts), context)
        self._epochs = Epochs(np.flatnonzero(~corpus.held), batch, seed, lengths)

    def batch(self, step: int) -> Batch:
        return self._corpus.take(self._epochs.rows(step), self.context, self.spelled)

    def validation(self) -> Iterator[Batch]:
        return self._corpus.batches(VALIDATION, self._epochs.batch, self.context, self.spelled)


# ── split and tokens


def _tokenizer(config: LabelledConfig, rows: list[Row], held: Array, seed: int, note: Note) -> Tokenizer:
    """The tokenizer of the config, learned from the train split (characters: from all rows, so that none is
    unknown)."""
    if config.tokenizer is not None:
        return load_given_tokenizer(config.tokenizer)
    tokens: str = config.tokens
    texts = [row.text for row, out in zip(rows, held, strict=True) if not out]
    if tokens == "auto":
        words = [len(word) for text in texts for word in text.split()]
        if np.mean(words) <= LONGEST_MEAN_WORD:
            tokens = "words"
        else:
            tokens = "characters"
    if tokens != "bpe":
        return learn(tokens, (row.text for row in rows) if tokens == "characters" else texts, config.vocabulary)
    return learn_subwords(texts, config.vocabulary, config.sample, seed, note)


def learn_subwords(texts: list[str], vocabulary: int, sample: float, seed: int, note: Note) -> Tokenizer:
    """A tokenizer of bpe, from at most so many megabytes of these texts."""
    note("learning bpe", None)
    chosen = sample_sizes([len(text.encode()) for text in texts], sample * 1e6, generator(seed, 0))
    return learn("bpe", ["\n".join(texts[place] for place in chosen)], vocabulary)


def _encode(tokenizer: Tokenizer, row: Row, path: str) -> Array:
    try:
        return tokenizer.encode(row.text)
    except ValueError as error:
        raise RegardError(f"line {row.line} of {path}: {error}") from error
