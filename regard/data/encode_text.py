"""Encode a text piece by piece, in this process or in several child processes. The results come in the order
of the pieces.

A child is a new Python interpreter, so this works from any script, notebook or thread, and the memory of a
child is free again when it ends. A child reads its request as JSON. Each answer is a line of JSON, which
states a number of bytes, and then these bytes. A child waits until its answer is read, so only one or two
pieces of each child are in memory. torch is not imported here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from regard.data.progress import Note
from regard.data.text_files import Piece, read
from regard.data.tokenizer import Tokenizer, UnknownCharacter, from_json, learn
from regard.errors import RegardError

IN_CHILDREN_FROM = 8 << 20  # bytes of text; starting a child takes as long as encoding a few megabytes


class Answer(NamedTuple):
    """The result for one piece, and its number of characters. When a tokenizer is learned, the results of
    pieces are empty, and one more answer at the end holds the tokenizer."""

    data: bytes
    characters: int


def encode(
    pieces: Sequence[Piece], tokenizer: Tokenizer, out: IO[bytes], workers: int, note: Note
) -> tuple[int, int]:
    """Write the ids of all pieces, in the tokenizer's dtype. Returns the number of tokens and of
    characters."""
    size = characters = 0
    for answer in _all(pieces, {"do": "encode", "tokenizer": tokenizer.to_json()}, workers, "encoding", note):
        out.write(answer.data)
        size += len(answer.data)
        characters += answer.characters
    return size // tokenizer.dtype.itemsize, characters


def characters(pieces: Sequence[Piece], workers: int, note: Note) -> str:
    """All different characters of the pieces, sorted."""
    found: set[str] = set()
    for answer in _all(pieces, {"do": "characters"}, workers, "looking for characters", note):
        found.update(answer.data.decode("utf-8"))
    return "".join(sorted(found))


def learn_in_subprocess(tokens: str, pieces: Sequence[Piece], size: int, note: Note) -> Tokenizer:
    """Learn a tokenizer in a child process, so that its memory is free afterwards."""
    request = {"do": "learn", "tokens": tokens, "size": size}
    for count, answer in enumerate(_in_children([pieces], request, os.environ), start=1):
        if answer.data:
            return from_json(json.loads(answer.data))
        # then it works on what it read
        note(f"learning {tokens}", count / len(pieces) if count < len(pieces) else None)
    raise AssertionError("a child that learns answers with what it learned, or with an error")


# ── what is done, here or in a child


def _answers(
    request: dict[str, Any], pieces: Sequence[Piece], tell: Callable[[Answer], None]
) -> Iterator[Answer]:
    """The result of each piece. Learning needs all pieces at once; it calls `tell` after each piece that it
    has read."""
    if request["do"] == "learn":
        tokenizer = learn(request["tokens"], _read_all(pieces, tell), request["size"])
        yield Answer(json.dumps(tokenizer.to_json()).encode("ascii"), 0)
    elif request["do"] == "encode":
        tokenizer = from_json(request["tokenizer"])
        for piece in pieces:
            text = read(piece)
            yield Answer(_encode(tokenizer, text, piece).tobytes(), len(text))
    else:
        for piece in pieces:
            text = read(piece)
            points = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
            seen = np.zeros(points.max(initial=0) + 1, dtype=bool)
            seen[points] = True
            found = np.flatnonzero(seen).astype("<u4").tobytes().decode("utf-32-le")
            yield Answer(found.encode("utf-8"), len(text))


def _read_all(pieces: Sequence[Piece], tell: Callable[[Answer], None]) -> Iterator[str]:
    for piece in pieces:
        text = read(piece)
        yield text
        tell(Answer(b"", len(text)))


def _encode(tokenizer: Tokenizer, text: str, piece: Piece) -> Any:
    try:
        return tokenizer.encode(text)
    except UnknownCharacter as error:
        if piece.start == 0 and _starts_with_mark(piece):
            mark = 3
        else:
            mark = 0
        byte = piece.start + mark + len(text[: error.place].encode("utf-8"))
        raise RegardError(
            f"{piece.path} has the character {error.character!r} (U+{ord(error.character):04X}) at byte "
            f"{byte}, which the tokenizer does not know; leave it out of the text, or train with "
            "--data.tokens bytes"
        ) from error


def _starts_with_mark(piece: Piece) -> bool:
    with open(piece.path, "rb") as stream:
        return stream.read(3) == b"\xef\xbb\xbf"


# ── children


def _all(
    pieces: Sequence[Piece], request: dict[str, Any], workers: int, what: str, note: Note
) -> Iterator[Answer]:
    total, done = sum(piece.stop - piece.start for piece in pieces), 0
    if workers == 1 or total < IN_CHILDREN_FROM:
        answers = _answers(request, pieces, lambda answer: None)
    else:
        alone = {**os.environ, "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        workers = min(workers, len(pieces))
        answers = _in_children([pieces[i::workers] for i in range(workers)], request, alone)
    for piece, answer in zip(pieces, answers, strict=True):
        yield answer
        done += piece.stop - piece.start
        note(what, done / total)


def _in_children(
    parts: Sequence[Sequence[Piece]], request: dict[str, Any], environment: Any
) -> Iterator[Answer]:
    """One child for each part. First come the first answers of all children, then the second, and so on."""
    with ExitStack() as stack:
        children = [stack.enter_context(_Child(part, request, environment)) for part in parts]
        waiting = list(children)
        while waiting:
            for child in list(waiting):
                answer = child.answer()
                if answer is None:
                    waiting.remove(child)
                else:
                    yield answer


class _Child:
    """A child process. It has ended when the `with` block ends, also after an error."""

    # -P: no module is ever taken from the working folder, which may be full of somebody's data.
    _COMMAND = (
        "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
        "from regard.data.encode_text import main; main(sys.stdin.buffer, sys.stdout.buffer)"
    )

    def __init__(self, pieces: Sequence[Piece], request: dict[str, Any], environment: Any) -> None:
        root = str(Path(__file__).resolve().parents[2])
        path = [*(each for each in sys.path if each), root]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed in __exit__
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", self._COMMAND, json.dumps(path)],
            env=environment,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )  # Ctrl-C is for the parent alone
        self._request = json.dumps({**request, "pieces": pieces}).encode("ascii")

    def __enter__(self) -> _Child:
        assert self._process.stdin is not None
        try:
            with self._process.stdin as stream:
                stream.write(self._request)
        except BrokenPipeError:
            pass  # it ended already; reading its answer will say how
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdout is not None
        self._process.kill()
        self._process.stdout.close()
        self._process.wait()
        self._errors.close()

    def answer(self) -> Answer | None:
        """The next answer of the child; None: it has finished."""
        assert self._process.stdout is not None
        head = json.loads(self._process.stdout.readline() or "{}")
        if "bytes" in head:
            data = self._process.stdout.read(head["bytes"])
            if len(data) == head["bytes"]:
                return Answer(data, head["characters"])
        elif "error" in head:
            raise _ERRORS[head["error_type"]](head["error"])
        elif head.get("done"):
            return None
        raise RuntimeError(self._last_words())

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"a child process that worked on the text ended with code {code}" + (
            ": " + lines[-1] if lines else "; perhaps memory ran out, then fewer workers help"
        )


_ERRORS: dict[str, type[Exception]] = {
    "RegardError": RegardError,
    "ValueError": ValueError,
    "OSError": OSError,
    "PermissionError": PermissionError,
    "FileNotFoundError": FileNotFoundError,
    "ImportError": ImportError,
}


def main(source: IO[bytes], out: IO[bytes]) -> None:
    """The program of a child: it reads its request, answers and ends. An error is sent as an answer too."""
    request = json.loads(source.read())

    def tell(answer: Answer) -> None:
        head = {"bytes": len(answer.data), "characters": answer.characters}
        out.write(json.dumps(head).encode("ascii") + b"\n" + answer.data)
        out.flush()

    try:
        for answer in _answers(request, [Piece(*piece) for piece in request["pieces"]], tell):
            tell(answer)
        end: dict[str, Any] = {"done": True}
    except (ValueError, OSError, ImportError) as error:
        if isinstance(error, BrokenPipeError):  # nobody listens any more
            os._exit(1)
        known = next(base.__name__ for base in type(error).__mro__ if base.__name__ in _ERRORS)
        end = {"error": str(error), "error_type": known}
    out.write(json.dumps(end).encode("ascii") + b"\n")
    out.flush()
