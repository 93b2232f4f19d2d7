"""Text with labels: a CSV or JSONL file with a text and a label in each row becomes batches for a
classifier."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import torch

from regard.config import check_positive, check_sizes
from regard.data.array import Array
from regard.data.batch import Batch, Epochs, Source, generator, pad_rows
from regard.data.encode_text import learn_in_subprocess
from regard.data.labels import sort_labels
from regard.data.missing import is_empty, is_missing
from regard.data.progress import Note
from regard.data.splits import stratified_mask
from regard.data.table_rows import SUFFIXES, place_of, stream_rows
from regard.data.text_files import Piece, find, pieces, sample_pieces
from regard.data.tokenizer import Tokenizer, half_a_character, learn
from regard.errors import RegardError
from regard.recipes.text.dataset import LEARNED_PIECE, TokenChoice, check_tokens
from regard.recipes.text.given_tokenizer import load_given_tokenizer

Missing = Literal["refuse", "drop"]

# "auto" means words, unless their mean length between spaces is larger than this: then the language has no
# spaces between words, hardly a word occurs twice, and "auto" means characters.
LONGEST_MEAN_WORD = 12.0


@dataclass(frozen=True, kw_only=True)
class LabelledConfig:
    """Which table to read, and how to split its texts into tokens."""

    paths: ClassVar[tuple[str, ...]] = ("path", "tokenizer")

    path: str  # a CSV, TSV, JSONL or Parquet file
    text: str = "text"  # the column (JSONL: the key) with the text
    label: str = "label"  # the column with the label
    # rows without a text or a label (empty, NA, N/A, NaN, null, ?): an error, or left out and counted
    missing: Missing = "refuse"
    tokens: TokenChoice = "auto"  # auto: words, or characters for languages without spaces between words
    tokenizer: str | None = None  # a tokenizer.json (ours or Hugging Face's) to use instead
    vocabulary: int = 8192  # largest vocabulary of words and bpe
    context: int = 256  # tokens per text; longer texts are cut off
    validation: float = 0.1  # share of the rows of each label in the validation split, drawn by the seed
    sample: float = 100.0  # megabytes of text, drawn by the seed, from which bpe is learned
    smoothing: float = 0.0  # share of each label that is given to all classes alike

    def __post_init__(self) -> None:
        check_sizes(self)
        check_positive(self, "vocabulary", "context", "sample")
        check_tokens(self)
        if not 0 <= self.validation < 1:
            raise RegardError(
                f"validation is a share of the rows: at least 0 and below 1, got {self.validation}"
            )
        if not 0 <= self.smoothing < 1:
            raise RegardError(f"smoothing is a share of each label, from 0 to below 1, got {self.smoothing}")
        if self.missing not in get_args(Missing):
            raise RegardError(f"missing must be one of {', '.join(get_args(Missing))}, got {self.missing!r}")
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
    rows, notes = _read_rows(config.path, config.text, config.label, config.missing)
    labels = sort_labels(row.label for row in rows)
    if len(labels) < 2:
        raise RegardError(
            f"{config.path} has only the label '{labels[0]}' in column '{config.label}'; "
            "a classifier needs at least two"
        )
    number = {label: i for i, label in enumerate(labels)}
    classes = np.array([number[row.label] for row in rows])
    held = stratified_mask(classes, config.validation, seed)
    if config.validation and not held.any():
        raise RegardError(
            f"{config.path} has one row for each label, too few for a validation split; give more rows, or "
            "use --data.validation 0"
        )
    if tokenizer is None:
        tokenizer = _tokenizer(config, rows, held, seed, tell)
    return replace(_encode_rows(config.path, rows, tokenizer, labels, classes, held, tell), notes=notes)


def read_other_labelled(
    config: LabelledConfig, labels: tuple[str, ...], tokenizer: Tokenizer, note: Note | None = None
) -> LabelledCorpus:
    """All rows of another file with these labels, as one validation split."""
    rows, notes = _read_rows(config.path, config.text, config.label, config.missing)
    number = {label: i for i, label in enumerate(labels)}
    for row in rows:
        if row.label not in number:
            raise RegardError(
                f"line {row.line} of {config.path} has the label '{row.label}', but the model knows "
                f"{', '.join(labels[:5])}{', ...' * (len(labels) > 5)}; remove the row, or correct its label"
            )
    classes, held = np.array([number[row.label] for row in rows]), np.ones(len(rows), dtype=bool)
    tell: Note = note or (lambda what, share: None)
    return replace(_encode_rows(config.path, rows, tokenizer, labels, classes, held, tell), notes=notes)


def _encode_rows(
    path: str,
    rows: list[Row],
    tokenizer: Tokenizer,
    labels: tuple[str, ...],
    classes: Array,
    held: Array,
    note: Note,
) -> LabelledCorpus:
    encoded = []
    for place, row in enumerate(rows):
        encoded.append(_encode(tokenizer, row, path))
        if place % 1000 == 0:
            note("encoding", place / len(rows))
    note("encoding", 1.0)
    starts = np.cumsum([0, *map(len, encoded)])
    return LabelledCorpus(path, tokenizer, labels, np.concatenate(encoded), starts, classes, held)


@dataclass(frozen=True, kw_only=True)
class LabelledInfo:
    """A summary of texts with labels in numbers."""

    path: str
    rows: int
    train: int  # rows
    validation: int
    labels: tuple[str, ...]
    counts: tuple[int, ...]  # rows of each label
    tokens: int
    longest: int
    kind: str  # of the tokens
    vocabulary: int

    def __post_init__(self) -> None:
        check_sizes(self)


@dataclass(frozen=True, eq=False)
class LabelledCorpus:
    """Texts as ids with their classes; row i is ids[starts[i]:starts[i + 1]]. A class is an index
    into `labels`."""

    path: str
    tokenizer: Tokenizer
    labels: tuple[str, ...]
    ids: Array
    starts: Array
    classes: Array
    held: Array  # bool: rows for validation
    notes: tuple[str, ...] = ()  # on rows that were left out

    @property
    def info(self) -> LabelledInfo:
        """A summary in numbers, for people and for later commands."""
        return LabelledInfo(
            path=self.path,
            rows=len(self.classes),
            train=int((~self.held).sum()),
            validation=int(self.held.sum()),
            labels=self.labels,
            counts=tuple(np.bincount(self.classes, minlength=len(self.labels)).tolist()),
            tokens=len(self.ids),
            longest=int(np.diff(self.starts).max()),
            kind=self.tokenizer.name,
            vocabulary=self.tokenizer.size,
        )

    def source(self, batch: int, context: int, seed: int) -> Source:
        """Batches of this many rows, each cut off after `context` tokens."""
        return LabelledSource(self, batch, context, seed)

    def held_batches(self, batch: int, context: int) -> Iterator[Batch]:
        """The validation split, rows of similar length together."""
        held = np.flatnonzero(self.held)
        held = held[np.argsort(np.minimum(np.diff(self.starts), context)[held], kind="stable")]
        for start in range(0, len(held), batch):
            yield self.take(held[start : start + batch], context)

    def take(self, rows: Array, context: int) -> Batch:
        """Some rows as a batch."""
        bounds = zip(self.starts[rows], self.starts[rows + 1], strict=True)
        tokens, real = pad_rows([self.ids[start:stop] for start, stop in bounds], context)
        return Batch(tokens, torch.from_numpy(self.classes[rows].astype(np.int64)), real)


class LabelledSource(Source):
    """Rows in shuffled batches, rows of similar length together.   tokens b n, real b n, target b

    Batches are as long as their longest row. The rows of a step depend on (seed, step) alone, see `Epochs`.
    """

    def __init__(self, corpus: LabelledCorpus, batch: int, context: int, seed: int) -> None:
        if context < 1:
            raise RegardError(f"context must be at least 1, got {context}")
        self._corpus, self.context = corpus, context
        lengths = np.minimum(np.diff(corpus.starts), context)
        self._epochs = Epochs(np.flatnonzero(~corpus.held), batch, seed, lengths)

    def batch(self, step: int) -> Batch:
        return self._corpus.take(self._epochs.rows(step), self.context)

    def validation(self) -> Iterator[Batch]:
        return self._corpus.held_batches(self._epochs.batch, self.context)


# ── reading rows


class Row(NamedTuple):
    """A text and its label, and the line of the file where they begin."""

    line: int
    text: str
    label: str


def read_rows(path: str, text: str = "text", label: str = "label") -> list[Row]:
    """The rows of a CSV, TSV, JSONL or Parquet file. A missing cell is an error that names its line."""
    return _read_rows(path, text, label, "refuse")[0]


def _read_rows(path: str, text: str, label: str, missing: Missing) -> tuple[list[Row], tuple[str, ...]]:
    """The rows, and a note on those that were left out because a cell of them is missing."""
    (file, *others) = find(path)
    if others or not looks_labelled(file.path):
        raise RegardError(
            f"labelled text is one file that ends in {', '.join(SUFFIXES)}, got {path}; "
            "rename it, or leave the labels out for plain text"
        )
    table = stream_rows(file.path, (text, label))
    if table.names:
        check_column(text, table.names, path, (label,))
        check_column(label, table.names, path, (text,))
    rows, bad = [], []
    for line, cells in table.rows:
        if is_empty(cells.get(text)) or is_missing(cells.get(label)):
            bad.append(line)
            continue
        rows.append(
            Row(
                line,
                check_text(cells[text], file.path, line, text),
                label_text(cells[label], file.path, line, label),
            )
        )
        if half := half_a_character("".join(rows[-1][1:])):
            raise RegardError(f"line {line} of {path}: {half}")
    if bad and missing == "refuse":
        raise RegardError(
            f"{path} has {len(bad):,} row{'s' if len(bad) > 1 else ''} without a '{text}' or a '{label}', "
            f"in {_name_lines(bad)}; fill in these rows, remove them, or leave them out with --data.missing "
            f"drop; missing are empty cells and null, and in '{label}' also NA, N/A, NaN and ?"
        )
    if not rows:
        without = f" with a '{text}' and a '{label}'" if bad else ""
        raise RegardError(f"{path} has no rows{without}; give at least one for each of two labels")
    if not bad:
        return rows, ()
    return rows, (f"left out {len(bad):,} rows without a '{text}' or a '{label}': {_name_lines(bad)}",)


def _name_lines(lines: list[int]) -> str:
    """lines 2, 3, 4, 5, 6 and 3 more"""
    named = ", ".join(map(str, lines[:5])) + (f" and {len(lines) - 5} more" if len(lines) > 5 else "")
    return f"line{'s' if len(lines) > 1 else ''} {named}"


def check_column(name: str, names: list[str], path: str, taken: tuple[str, ...]) -> None:
    """Raise if a table has no such column. taken: columns that are something else, never suggested"""
    place_of(name, names, path, "choose columns with --data.text and --data.label", taken)


def check_text(value: Any, path: str, line: int, column: str) -> str:
    """The text of a cell; raise if it is something else."""
    if not isinstance(value, str):
        raise RegardError(
            f"line {line} of {path} has {value!r} in '{column}', which is not text; put it in quotes"
        )
    return value


def label_text(value: Any, path: str, line: int, column: str) -> str:
    """The label of a cell as text; raise for what is no label."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        value = json.dumps(value, default=str)
        if value not in ("true", "false"):
            raise RegardError(
                f"line {line} of {path} has {value} in '{column}'; a label is text, a whole number, true "
                "or false"
            )
    return str(value).strip()


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
        return learn(
            tokens, (row.text for row in rows) if tokens == "characters" else texts, config.vocabulary
        )
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        path = Path(folder) / "texts.txt"
        path.write_text("\n".join(texts), "utf-8", newline="\n")
        parts: list[Piece] = sample_pieces(
            pieces(find(str(path)), LEARNED_PIECE), config.sample * 1e6, generator(seed, 0)
        )
        return learn_in_subprocess(tokens, parts, config.vocabulary, note)


def _encode(tokenizer: Tokenizer, row: Row, path: str) -> Array:
    try:
        return tokenizer.encode(row.text)
    except ValueError as error:
        raise RegardError(f"line {row.line} of {path}: {error}") from error
