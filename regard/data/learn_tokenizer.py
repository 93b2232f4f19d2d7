"""Tokenizers learned from texts. Vocabularies are sorted or ranked, so ids are the same in every process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from regard.data.byte_pairs import BytePairs
from regard.data.characters import Bytes, Characters, find_characters
from regard.data.progress import Note
from regard.data.safe_split import cuts
from regard.data.text_files import Piece, read
from regard.data.tokenizer import CHUNK, Tokenizer
from regard.data.words import Words, cut, find_borders
from regard.errors import RegardError, nearest

TOKENIZERS = ("characters", "bytes", "words", "bpe")

COUNTED = 2_000_000  # different words counted at once; beyond, the rare ones are forgotten to save memory


def learn(tokens: str, texts: Iterable[str], size: int = 8192) -> Tokenizer:
    """Learn a tokenizer from texts. `size` is the largest vocabulary of words and bpe; the most frequent
    entries are kept."""
    if tokens == "characters":
        return Characters(find_characters(texts))
    if tokens == "bytes":
        return Bytes()
    if tokens == "words":
        return Words(_frequent_words(texts, size))
    if tokens == "bpe":
        return _learn_bpe(texts, size)
    near = nearest(tokens, TOKENIZERS)
    raise RegardError(
        f"tokens must be one of {', '.join(TOKENIZERS)}, got {tokens!r}" + (f"; did you mean '{near}'?" if near else "")
    )


def learn_from_pieces(tokens: str, pieces: Sequence[Piece], size: int, note: Note) -> Tokenizer:
    """Learn a tokenizer from pieces of files, one in memory at a time."""

    def texts() -> Iterator[str]:
        for number, piece in enumerate(pieces, start=1):
            yield read(piece)
            # then it works on what it read
            note(f"learning {tokens}", number / len(pieces) if number < len(pieces) else None)

    return learn(tokens, texts(), size)


def _frequent_words(texts: Iterable[str], size: int) -> list[str]:
    if size < 2:
        raise RegardError(f"a vocabulary of words needs at least 2 ids, the unknown and the space, got {size}")
    counts: Counter[str] = Counter()
    for text in texts:
        found = cut(text, find_borders(text)).value_counts()
        counts.update(dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True)))
        least = 1
        while len(counts) > COUNTED:
            counts = Counter({word: count for word, count in counts.items() if count > least})
            least *= 2
    for each in (" ", "\0"):  # the space is in every vocabulary, and NUL in none
        counts.pop(each, None)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return sorted([" ", *ranked[: size - 2]])


def _learn_bpe(texts: Iterable[str], size: int) -> Tokenizer:
    """Byte-pair encoding with at most `size` ids: the 256 bytes, then the most frequent pairs."""
    if size < 257:
        raise RegardError(
            f"bpe needs more ids than the 256 bytes, got vocabulary={size}; use 512 or more, or --data.tokens bytes"
        )
    level = pre_tokenizers.ByteLevel
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = level(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, min_frequency=2, show_progress=False, initial_alphabet=level.alphabet()
    )
    inner.train_from_iterator(_chunks(texts), trainer)
    return BytePairs(inner)


def _chunks(texts: Iterable[str]) -> Iterator[str]:
    """The text in short pieces, because the package collects hundreds of pieces before it starts to count."""
    for text in texts:
        for start, stop in pairwise([0, *cuts(text, CHUNK), len(text)]):
            yield text[start:stop]
