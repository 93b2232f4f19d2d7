"""Text with labels: a CSV or JSONL file with a text and a label in each row becomes batches for a
classifier, or for a regression if labels are numbers."""

from __future__ import annotations

import csv
import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from regard.config import check_positive, check_sizes
from regard.data.array import Array
from regard.data.batch import Batch, Epochs, Source, generator, pad_rows
from regard.data.encode_text import learn_in_subprocess
from regard.data.progress import Note
from regard.data.targets import Asks, Numbers, check_asks, explain_asks
from regard.data.text_files import Piece, find, pieces, read_lines, sample_pieces
from regard.data.tokenizer import Tokenizer, half_a_character, learn
from regard.errors import RegardError, nearest
from regard.recipes.text.dataset import LEARNED_PIECE, TokenChoice, check_tokens
from regard.recipes.text.given_tokenizer import load_given_tokenizer
from regard.recipes.text.label_targets import choose_targets, find_targets

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")

# "auto" means words, unless their mean length between spaces is larger than this: then the language has no
# spaces between words, hardly a word occurs twice, and "auto" means characters.
LONGEST_MEAN_WORD = 12.0


@dataclass(frozen=True, kw_only=True)
class LabelledConfig:
    """Which table to read, and how to split its texts into tokens."""

    paths: ClassVar[tuple[str, ...]] = ("path", "tokenizer")

    path: str  # a CSV, TSV or JSONL file
    text: str = "text"  # the column (JSONL: the key) with the text
    label: str = "label"  # the column with the label
    # what labels are; auto: numbers if some have a fraction, or if they are over ten whole numbers with gaps
    asks: Asks = "auto"
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
        check_asks(self.asks)
        if not 0 <= self.validation < 1:
            raise RegardError(
                f"validation is a share of the rows: at least 0 and below 1, got {self.validation}"
            )
        if not 0 <= self.smoothing < 1:
            raise RegardError(f"smoothing is a share of each label, from 0 to below 1, got {self.smoothing}")
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
    rows = read_rows(config.path, config.text, config.label)
    labels, target, held, numbers = choose_targets(rows, config, seed)
    if tokenizer is None:
        tokenizer = _tokenizer(config, rows, held, seed, tell)
    found = _encode_rows(config.path, rows, tokenizer, labels, target, held, tell)
    said = explain_asks([row.label for row in rows], config.asks, config.label)
    return replace(found, numbers=numbers, notes=said)


def read_other_labelled(
    config: LabelledConfig, known: LabelledInfo, tokenizer: Tokenizer, note: Note | None = None
) -> LabelledCorpus:
    """All rows of another file with labels that the model knows, or numbers, as one validation split."""
    rows, tell = read_rows(config.path, config.text, config.label), note or (lambda what, share: None)
    target, held = find_targets(rows, config, known), np.ones(len(rows), dtype=bool)
    return _encode_rows(config.path, rows, tokenizer, known.labels, target, held, tell)


def _encode_rows(
    path: str,
    rows: list[Row],
    tokenizer: Tokenizer,
    labels: tuple[str, ...],
    target: Array,
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
    return LabelledCorpus(path, tokenizer, labels, np.concatenate(encoded), starts, target, held)


@dataclass(frozen=True, kw_only=True)
class LabelledInfo:
    """A summary of texts with labels in numbers."""

    path: str
    rows: int
    train: int  # rows
    validation: int
    labels: tuple[str, ...]  # the classes; none if labels are numbers
    counts: tuple[int, ...]  # rows of each label
    tokens: int
    longest: int
    kind: str  # of the tokens
    vocabulary: int
    numbers: Numbers | None = None  # what is predicted if it is a number

    def __post_init__(self) -> None:
        check_sizes(self)


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
    held: Array  # bool: rows for validation
    numbers: Numbers | None = None  # None: targets are classes
    notes: tuple[str, ...] = ()  # what the user should know about the labels

    @property
    def info(self) -> LabelledInfo:
        """A summary in numbers, for people and for later commands."""
        return LabelledInfo(
            path=self.path,
            rows=len(self.target),
            train=int((~self.held).sum()),
            validation=int(self.held.sum()),
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
        return Batch(tokens, torch.from_numpy(self.target[rows]), real)


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
    """The rows of a CSV, TSV or JSONL file. An empty cell is an error that names its line."""
    (file, *others) = find(path)
    suffix = Path(file.path).suffix.lower()
    if others or suffix not in SUFFIXES:
        raise RegardError(
            f"labelled text is one file that ends in {', '.join(SUFFIXES)}, got {path}; "
            "rename it, or leave the labels out for plain text"
        )
    lines = read_lines(file.path)
    if suffix in SUFFIXES[2:]:
        table = _json_rows(lines, file.path, text, label)
    else:
        table = _csv_rows(lines, file.path, text, label)
    rows, bad = [], []
    for line, values in table:
        if any(value is None or not str(value).strip() for value in values):
            bad.append(line)
        else:
            rows.append(
                Row(line, _text(values[0], file.path, line, text), _label(values[1], file.path, line, label))
            )
            if half := half_a_character("".join(rows[-1][1:])):
                raise RegardError(f"line {line} of {path}: {half}")
    if bad:
        named = ", ".join(map(str, bad[:5])) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
        raise RegardError(
            f"{path} has no '{text}' or no '{label}' in line{'s' if len(bad) > 1 else ''} {named}; "
            "fill in these rows, or remove them"
        )
    if not rows:
        raise RegardError(f"{path} has no rows; give at least one for each of two labels")
    return rows


def _csv_rows(lines: Iterator[str], path: str, text: str, label: str) -> Iterator[tuple[int, list[Any]]]:
    first, line = next(lines), 1
    with _any_length():
        try:
            headers = {
                mark: [name.strip() for name in next(csv.reader([first], delimiter=mark))] for mark in ",;\t"
            }
            mark = max(headers, key=lambda each: ({text, label} <= set(headers[each]), len(headers[each])))
            names = headers[mark]
            places = [_column(name, names, path) for name in (text, label)]
            reader, line = csv.reader(lines, delimiter=mark, strict=True), 2
            for row in reader:
                if len(row) > len(names):
                    raise RegardError(
                        f"line {line} of {path} has {len(row)} values, but there are {len(names)} columns; "
                        f"a text with '{mark}' or a line end in it needs double quotes around it"
                    )
                if row:  # an empty line is no row
                    yield line, [row[place] if place < len(row) else None for place in places]
                line = reader.line_num + 2  # where the next row begins; this one may have had several lines
        except csv.Error as error:
            raise RegardError(
                f"{path} is not CSV from line {line} on: {error}; a text with quotes in it needs "
                'double quotes around it, and "" for each quote inside'
            ) from error


def _json_rows(lines: Iterator[str], path: str, text: str, label: str) -> Iterator[tuple[int, list[Any]]]:
    for line, content in enumerate(lines, start=1):
        if not content.strip():
            continue
        try:
            row = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise RegardError(
                f"line {line} of {path} is not JSON: {error}; JSONL has one object in each line"
            ) from error
        if not isinstance(row, dict):
            raise RegardError(
                f"line {line} of {path} is a {type(row).__name__}, not an object "
                f'such as {{"{text}": "...", "{label}": "..."}}'
            )
        if line == 1:
            for name in (text, label):
                _column(name, list(row), path)
        yield line, [row.get(text), row.get(label)]


def _column(name: str, names: list[str], path: str) -> int:
    if name not in names:
        near = nearest(name, names)
        raise RegardError(
            f"{path} has no column '{name}', it has: {', '.join(names)}; "
            "choose columns with --data.text and --data.label"
            + (f" (did you mean '{near}'?)" if near else "")
        )
    return names.index(name)


def _text(value: Any, path: str, line: int, column: str) -> str:
    if not isinstance(value, str):
        raise RegardError(
            f"line {line} of {path} has {value!r} in '{column}', which is not text; put it in quotes"
        )
    return value


def _label(value: Any, path: str, line: int, column: str) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        value = json.dumps(value)
        if value not in ("true", "false"):
            raise RegardError(
                f"line {line} of {path} has {value} in '{column}'; a label is text, a number, true or false"
            )
    return str(value).strip()


@contextmanager
def _any_length() -> Iterator[None]:
    """Lift the global size limit of the csv module while reading."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


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
