"""Text for language models: files become one long row of ids, mapped from disk, and windows of it become
batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import torch

from regard.data import cache as store
from regard.data.array import Array
from regard.data.batch import IGNORE, Batch, Source, generator
from regard.data.learn_tokenizer import encode, learn_from_pieces
from regard.data.progress import Note
from regard.data.slices import Slice, take_slice
from regard.data.text_files import TextFile, check_unchanged, find, fingerprint, pieces, read, sample_pieces
from regard.data.tokenizer import Tokenizer, from_json
from regard.errors import RegardError
from regard.machine import cores
from regard.recipes.text.config import TextConfig, TokenChoice
from regard.recipes.text.shards import ShardedIds, ShardOptions, is_shards, open_shards, write_shards
from regard.recipes.text.tokenizer import load_given_tokenizer

# Up to this size, "auto" means characters: each of 8,192 subwords of about four bytes would occur fewer than
# 500 times on average, too rarely to learn a vector for it; and a small model learns to spell within minutes.
CHARACTERS_UP_TO = 16_000_000  # bytes
MEMORIES = 8  # a stretch to be judged is at least so many memories long, so that most of it is read with a full one
PIECE = 2 << 20  # bytes encoded at once: some 30 MB of memory in each thread
LEARNED_PIECE = 1 << 18  # bytes drawn at once for learning: 400 places of the text make 100 MB
FORMAT = 2  # to be raised when the same text would give another tokenizer.json or other ids


def encode_corpus(
    config: TextConfig,
    *,
    cache: Path,
    seed: int,
    note: Note | None = None,
    tokenizer: Tokenizer | None = None,
    workers: int | None = None,
) -> Corpus:
    """The text as ids: tokenised once, then mapped from `cache` until the text or the tokenizer changes.

    `note(what, share)` is called now and then with the share done, or None. `tokenizer` (of an earlier run)
    is used instead of the config's. `workers` threads encode; None: one for each processor, eight at most.
    """
    if is_shards(config.path):
        return _open_corpus(config, tokenizer)
    tell = _now_and_then(note)
    found = find(config.path)
    workers = workers or min(cores(), 8)
    text = fingerprint(found, tell)
    tokenizer = tokenizer or _tokenizer(config, found, text, Path(cache), seed, tell)

    def write(out: IO[bytes]) -> dict[str, Any]:
        tokens, count = encode(pieces(found, PIECE), tokenizer, out, workers, tell)
        check_unchanged(found)
        if not tokens:
            raise _no_text(config)
        return {"tokens": tokens, "characters": count}

    name = store.key(format=FORMAT, text=text, tokenizer=tokenizer.to_json())
    ids, about = store.ids(Path(cache), name, tokenizer.dtype, write)
    what = config.path or "Python's standard library"
    size = sum(file.size for file in found)
    tested = config.share_of_test(size)
    return Corpus(
        what,
        tokenizer,
        ids,
        split=int(len(ids) * (1 - config.validation - tested)),
        files=len(found),
        bytes=size,
        characters=about["characters"],
        end=int(len(ids) * (1 - tested)),
    )


def _open_corpus(config: TextConfig, tokenizer: Tokenizer | None) -> Corpus:
    """The text of token shards."""
    assert config.path is not None
    if config.tokens != "auto" or config.tokenizer is not None:
        raise RegardError(
            f"{config.path} holds tokens already; leave out --data.tokens and --data.tokenizer, or tokenize anew"
        )
    ids, own, about = open_shards(config.path)
    if tokenizer is not None and tokenizer.to_json() != own.to_json():
        raise RegardError(
            f"{config.path} was tokenised by another tokenizer than the run's; tokenize the text with --tokenizer "
            "RUN/tokenizer.json"
        )
    tested = config.share_of_test(about["bytes"])
    return Corpus(
        config.path,
        own,
        cast(store.Mapped, ids),
        split=int(len(ids) * (1 - config.validation - tested)),
        files=about["files"],
        bytes=about["bytes"],
        characters=about["characters"],
        end=int(len(ids) * (1 - tested)),
    )


def make_shards(options: ShardOptions, *, cache: Path, note: Note | None = None) -> dict[str, Any]:
    """Tokenise a text into shards, see `shards`."""
    tell = _now_and_then(note)
    choice = cast(TokenChoice, options.tokens)
    config = TextConfig(
        path=options.data,
        tokens=choice,
        tokenizer=options.tokenizer,
        vocabulary=options.vocabulary,
        sample=options.sample,
    )

    def choose(found: list[TextFile], text: str) -> Tokenizer:
        return _tokenizer(config, found, text, cache, options.seed, tell)

    return write_shards(options, choose, tell)


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text as ids. Ids before `split` are the train split, those before `end` the validation split, and the
    rest is the test split."""

    path: str
    tokenizer: Tokenizer
    ids: store.Mapped
    split: int
    files: int
    bytes: int
    characters: int
    end: int | None = None  # None: there is no test split

    @property
    def train(self) -> store.Mapped:
        return cast(store.Mapped, self.ids[: self.split])

    @property
    def validation(self) -> store.Mapped:
        return cast(store.Mapped, self.ids[self.split : self.end])

    @property
    def test(self) -> store.Mapped:
        return cast(store.Mapped, self.ids[len(self.ids) if self.end is None else self.end :])

    @property
    def counts(self) -> dict[str, int]:
        """What was counted, for people and for later commands. Splits are in tokens."""
        splits = {"train": len(self.train), "validation": len(self.validation), "test": len(self.test)}
        return {
            "files": self.files,
            "bytes": self.bytes,
            "characters": self.characters,
            "tokens": len(self.ids),
            **splits,
        }

    def check(self, context: int) -> None:
        """Raise a ValueError if the train split is too short for a window of this context."""
        have = (
            f"the text of {self.path} has {len(self.ids):,} tokens ({self.tokenizer.name}), "
            f"{self.split:,} of them for training"
        )
        if self.split < 2:
            raise RegardError(f"{have}; that is too few to train on; give more text")
        if self.split < context + 1:
            raise RegardError(
                f"{have}, too few for context={context} and the token after it; "
                f"use --data.context {self.split - 1} or less, or give more text"
            )

    def source(self, batch: int, context: int, seed: int, memory: int = 0) -> TextSource:
        """Batches of `batch` windows of `context` tokens."""
        self.check(context)
        return make_source(self.ids, self.split, batch, context, seed, self.end, memory=memory)


class TextSource(Source):
    """Windows of a long row of ids; the target is the window one token later.   tokens, target: b n

    Training windows lie anywhere before `split`, drawn by (seed, step). Validation windows follow each other
    without gap or overlap from `split` to `end`, each token a target exactly once; the first is predicted from
    the last one before. Test windows follow from `end` on.
    """

    def __init__(self, ids: Array, split: int, batch: int, context: int, seed: int, end: int | None = None) -> None:
        for name, value in (("batch", batch), ("context", context)):
            if value < 1:
                raise RegardError(f"{name} must be at least 1, got {value}")
        self._ids = (
            ids if isinstance(ids, ShardedIds) else np.asarray(ids)
        )  # the same memory, without what a memmap adds to each slice
        self.split, self.rows, self.context, self.seed = split, batch, context, seed
        self.end = len(self._ids) if end is None else end

    def batch(self, step: int) -> Batch:
        return self._windows(self._starts(step))

    def slice(self, step: int, part: int, parts: int) -> Slice:
        """The windows of one of several processes."""
        starts = self._starts(step)
        return take_slice(lambda first, last: self._windows(starts[first:last]), self.rows, part, parts)

    def _starts(self, step: int) -> Array:
        found: Array = generator(self.seed, step).integers(0, self.split - self.context, self.rows)
        return found

    def validation(self) -> Iterator[Batch]:
        return self._between(self.split, self.end)

    def test(self) -> Iterator[Batch]:
        return self._between(self.end, len(self._ids))

    def _between(self, first: int, end: int) -> Iterator[Batch]:
        """Windows that predict the tokens first … end − 1."""
        starts = np.arange(first - 1, end - 1, self.context) if first < end else np.arange(0)
        for place in range(0, len(starts), self.rows):
            yield self._windows(starts[place : place + self.rows], end)

    def _windows(self, starts: Array, end: int | None = None, length: int | None = None) -> Batch:
        places = starts[:, None] + np.arange((length or self.context) + 1)
        beyond = places >= (len(self._ids) if end is None else end)  # only in the last window of a split
        if not beyond.any():
            ids = torch.from_numpy(self._ids[places].astype(np.int64))
            tokens = ids[:, :-1].contiguous()
            return Batch({"tokens": tokens}, ids[:, 1:].contiguous(), size=tokens.numel())
        ids = torch.from_numpy(self._ids[np.where(beyond, 0, places)].astype(np.int64))
        real = torch.from_numpy(~beyond[:, 1:])  # the last token has no target
        inputs = {"tokens": ids[:, :-1].where(real, 0), "real": real}
        return Batch(inputs, ids[:, 1:].where(real, IGNORE), size=real.numel())


class StreamSource(TextSource):
    """Segments in order: row i of each batch goes on where row i of the batch before ended.   tokens, target: b n

    The train split is cut into as many streams as a batch has rows, all of one length. At the end of an epoch
    all begin again, up to a segment later, as the seed and the epoch say, and nothing is remembered. Validation
    and test batches hold long stretches, which follow each other without gap or overlap.
    """

    whole = "each row goes on where it ended in the batch before, with a memory"  # why it is one process' work

    def __init__(
        self, ids: Array, split: int, batch: int, context: int, seed: int, end: int | None = None, *, memory: int
    ) -> None:
        super().__init__(ids, split, batch, context, seed, end)
        self.memory = memory

    def batch(self, step: int) -> Batch:
        segments = (self.split - 1) // (self.rows * self.context)
        if segments == 0:
            raise RegardError(
                f"{self.split:,} tokens are too few for {self.rows} streams of segments of {self.context}; use "
                f"--train.batch {(self.split - 1) // self.context} or less, a smaller --data.context, or more text"
            )
        epoch, place = divmod(step, segments)
        spare = self.split - 1 - self.rows * segments * self.context
        first = int(generator(self.seed, epoch).integers(0, min(self.context, spare + 1)))
        starts = first + np.arange(self.rows) * segments * self.context + place * self.context
        return self._windows(starts).replace(follows=place > 0)

    def _between(self, first: int, end: int) -> Iterator[Batch]:
        """Stretches that predict the tokens first … end − 1."""
        stretch = max(MEMORIES * self.memory // self.context, 1) * self.context
        count = -(-(end - first) // stretch)
        starts = first - 1 + stretch * np.arange(count)
        for place in range(0, count, self.rows):
            some = starts[place : place + self.rows]
            longest = min(stretch, end - 1 - int(some[0]))
            yield self._windows(some, end, longest)


def make_source(
    ids: Array, split: int, batch: int, context: int, seed: int, end: int | None = None, *, memory: int = 0
) -> TextSource:
    """Windows drawn at random, or with a memory segments in order."""
    if memory:
        return StreamSource(ids, split, batch, context, seed, end, memory=memory)
    return TextSource(ids, split, batch, context, seed, end)


# ── the tokenizer of a text


def _tokenizer(config: TextConfig, found: list[TextFile], text: str, cache: Path, seed: int, note: Note) -> Tokenizer:
    if config.tokenizer is not None:
        return load_given_tokenizer(config.tokenizer)
    total = sum(file.size for file in found)
    tokens: str = config.tokens
    if tokens == "auto":
        tokens = "characters" if total <= CHARACTERS_UP_TO else "bpe"
    size = min(LEARNED_PIECE, max(1024, total // 64)) if tokens != "characters" else PIECE
    parts = pieces(found, size)
    recipe: dict[str, Any] = {"format": FORMAT, "text": text, "kind": tokens}
    if tokens != "characters":
        if tokens == "bpe":  # bpe is learned from the train split only
            ends = np.cumsum([part.stop - part.start for part in parts])
            learned = total * (1 - config.validation - config.share_of_test(total))
            parts = parts[: max(1, int((ends <= learned).sum()))]
        whole = len(parts)
        parts = sample_pieces(parts, config.sample * 1e6, generator(seed, 0))
        recipe |= {"vocabulary": config.vocabulary, "parts": whole}
        if len(parts) < whole:
            recipe |= {"sample": config.sample, "seed": seed}

    def learn() -> dict[str, Any]:
        if not any(map(read, parts)):
            raise _no_text(config)
        learned = learn_from_pieces(tokens, parts, config.vocabulary, note)
        check_unchanged(found)
        return learned.to_json()

    return from_json(store.cached_json(cache, store.key(**recipe), learn, what="tokenizers"))


def _no_text(config: TextConfig) -> ValueError:
    return RegardError(f"{config.path} holds no text (at most a byte order mark); give a file with text in it")


def _now_and_then(note: Note | None, seconds: float = 0.05) -> Note:
    """The same note, called at most once in so many seconds, except for new work and finished work."""
    last: tuple[str, float] = ("", 0.0)

    def tell(what: str, share: float | None) -> None:
        nonlocal last
        now = time.monotonic()
        if note is not None and (what != last[0] or share in (1, None) or now - last[1] >= seconds):
            last = (what, now)
            note(what, share)

    return tell
