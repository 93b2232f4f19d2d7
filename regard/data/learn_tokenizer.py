"""Tokenizers learned from texts, and files encoded by them. Vocabularies are sorted or ranked, so ids are the same in every
process."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import IO

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from regard.data.array import Array
from regard.data.fast_tokenizers import BytePairs, Bytes, Characters, Words, cut, find_borders, find_characters
from regard.data.progress import Note
from regard.data.text_files import Piece, cuts, read
from regard.data.tokenizer import CHUNK, Tokenizer, UnknownCharacter
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


# ── pieces of files, encoded on several threads: results come in order, and few of them wait


def encode(pieces: Sequence[Piece], tokenizer: Tokenizer, out: IO[bytes], workers: int, note: Note) -> tuple[int, int]:
    """Write the ids of all pieces, in the tokenizer's dtype. Returns the number of tokens and of
    characters."""
    total = sum(piece.stop - piece.start for piece in pieces)
    done = tokens = characters = 0
    for piece, (ids, length) in zip(pieces, _encode_all(pieces, tokenizer, workers), strict=True):
        out.write(ids.tobytes())
        tokens += len(ids)
        characters += length
        done += piece.stop - piece.start
        note("encoding", done / total)
    return tokens, characters


def _encode_all(pieces: Sequence[Piece], tokenizer: Tokenizer, workers: int) -> Iterator[tuple[Array, int]]:
    waiting: deque[Future[tuple[Array, int]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for piece in pieces:
            waiting.append(pool.submit(_encode, piece, tokenizer))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _encode(piece: Piece, tokenizer: Tokenizer) -> tuple[Array, int]:
    """The ids of a piece, and its number of characters."""
    text = read(piece)
    try:
        return tokenizer.encode(text).astype(tokenizer.dtype), len(text)
    except UnknownCharacter as error:
        mark = 3 if piece.start == 0 and _starts_with_mark(piece) else 0
        byte = piece.start + mark + len(text[: error.place].encode("utf-8"))
        raise RegardError(
            f"{piece.path} has the character {error.character!r} (U+{ord(error.character):04X}) at byte "
            f"{byte}, which the tokenizer does not know; leave it out of the text, or train with "
            "--data.tokens bytes"
        ) from error


def _starts_with_mark(piece: Piece) -> bool:
    with open(piece.path, "rb") as stream:
        return stream.read(3) == b"\xef\xbb\xbf"
