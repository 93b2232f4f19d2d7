"""Encode a text piece by piece, on several threads. The results come in the order of the pieces, and few of them wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO

from regard.data.array import Array
from regard.data.progress import Note
from regard.data.text_files import Piece, read
from regard.data.tokenizer import Tokenizer, UnknownCharacter
from regard.errors import RegardError


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
