"""Text files: which ones, what they hold, and pieces of them that fit into memory.

Files are joined in the order of their names, with a line end between two if there is none. Nothing but UTF-8
is read. What is wrong is an error of one line with the file and the byte.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import stat
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedReader
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data.progress import Note
from regard.data.scan import once
from regard.errors import RegardError
from regard.files import open_regular

LONGEST_LINE = 2**24  # bytes of a line of a table


class TextFile(NamedTuple):
    """A file as it was found. `name` is what it is called within its corpus, wherever that lies."""

    path: str
    name: str
    size: int
    changed: int  # when, in nanoseconds


class Piece(NamedTuple):
    """Bytes start ... stop of a file. `joined`: another file follows, so a line end must be there."""

    path: str
    start: int
    stop: int
    joined: bool


# ── which files


@once
def find(path: str | None) -> list[TextFile]:
    """The files of a path: a file, all files in a folder and below it (hidden ones left out), or those of a
    glob.

    None is the source of Python's standard library. Empty files are left out; if nothing is left, that is an
    error.
    """
    if path is None:
        return _standard_library()
    expanded = os.path.expanduser(path)
    if os.path.isdir(expanded):
        root, paths = expanded, sorted(_walk(expanded))
        missing = f"the folder {path} holds no files (hidden ones do not count); give one that does"
    elif os.path.exists(expanded):
        root, paths, missing = os.path.dirname(expanded), [expanded], ""
    elif glob.has_magic(expanded):
        paths = sorted(each for each in glob.glob(expanded, recursive=True) if not os.path.isdir(each))
        root = os.path.commonpath([os.path.dirname(each) or "." for each in paths]) if paths else ""
        missing = f"no file matches {path}; try it with ls, and quote it so that the shell does not expand it"
    else:
        raise FileNotFoundError(
            f"there is no {path}{_nearby(expanded)}; give a text file, a folder, or a glob such as 'texts/*.txt'"
        )
    if not paths:
        raise RegardError(missing)
    found = [_text_file(each, root) for each in paths]
    if not any(each.size for each in found):
        if len(found) == 1:
            what = f"{path} is empty"
        else:
            what = f"all {len(found)} files of {path} are empty"
        raise RegardError(f"{what}; give a file with text in it")
    return [each for each in found if each.size]


def _standard_library() -> list[TextFile]:
    """Python's own modules, a few megabytes that every machine has: the .py files of the top folder, so no
    tests and nothing that was installed later; only those in ASCII, so that a hundred characters are
    enough."""
    folder = Path(sysconfig.get_path("stdlib"))
    paths = [each for each in sorted(folder.glob("*.py")) if not each.name.startswith("_sysconfigdata")]
    found = [_text_file(str(each), str(folder)) for each in paths if each.read_bytes().isascii()]
    if not any(each.size for each in found):
        raise FileNotFoundError(
            f"Python's standard library has no .py files in {folder}; give a text of your own as the data"
        )
    return [each for each in found if each.size]


def fingerprint(files: Sequence[TextFile], note: Note) -> str:
    """SHA-256 of all names, sizes and contents, in hex. Read block by block."""
    total, done = sum(file.size for file in files), 0
    whole, block = hashlib.sha256(), memoryview(bytearray(1 << 20))
    for file in files:
        content = hashlib.sha256()
        with _open(file.path) as stream:
            while count := stream.readinto(block):
                content.update(block[:count])
                done += count
                note("reading", done / total)
        whole.update(
            f"{len(file.name)} {file.name} {file.size} {content.hexdigest()}\n".encode("utf-8", "surrogateescape")
        )
    return whole.hexdigest()


def check_unchanged(files: Sequence[TextFile]) -> None:
    """Raise a ValueError if a file changed since it was found."""
    for file in files:
        try:
            now = os.stat(file.path)
        except OSError as error:
            raise _changed(file.path) from error
        if (now.st_size, now.st_mtime_ns) != (file.size, file.changed):
            raise _changed(file.path)


def _walk(folder: str) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise type(error)(f"cannot read the folder {error.filename}: {error.strerror}") from error

    for parent, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [each for each in folders if not each.startswith(".")]
        yield from (os.path.join(parent, each) for each in names if not each.startswith("."))


def _text_file(path: str, root: str) -> TextFile:
    try:
        found = os.stat(path)
    except OSError as error:
        raise type(error)(f"cannot read {path}: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise RegardError(f"{path} is not a regular file (a device or a pipe); save its text in a file first")
    return TextFile(path, Path(os.path.relpath(path, root or ".")).as_posix(), found.st_size, found.st_mtime_ns)


def _nearby(path: str) -> str:
    folder = os.path.dirname(path) or "."
    if os.path.isdir(folder):
        return ""
    return f" (there is no folder {folder} either)"


# ── pieces


def pieces(files: Sequence[TextFile], size: int) -> list[Piece]:
    """Files in pieces of about `size` bytes, cut where the tokens of the parts are those of the whole."""
    found = []
    for file in files:
        borders = [0, file.size]
        if file.size > size:
            with _open(file.path) as stream:
                borders = sorted({*borders, *(_border(stream, at) for at in range(size, file.size, size))})
        joined = file is not files[-1]
        found += [Piece(file.path, start, stop, joined and stop == file.size) for start, stop in pairwise(borders)]
    return found


def sample_pieces(all: Sequence[Piece], limit: float, random: np.random.Generator) -> list[Piece]:
    """At most about `limit` bytes of pieces, drawn by chance but in their order; all of them if they fit."""
    return [all[i] for i in sample_sizes([piece.stop - piece.start for piece in all], limit, random)]


def sample_sizes(sizes: Sequence[int], limit: float, random: np.random.Generator) -> list[int]:
    """The places of sizes that sum to at most about `limit`, drawn by chance but in their order; all if they fit."""
    if sum(sizes) <= limit:
        return list(range(len(sizes)))
    order = random.permutation(len(sizes))
    count = max(1, int(np.searchsorted(np.cumsum(np.array(sizes)[order]), limit, side="right")))
    return sorted(order[:count].tolist())


def read(piece: Piece) -> str:
    """The text of a piece, or an error that says at which byte of the file it stops being text."""
    with _open(piece.path) as stream:
        stream.seek(piece.start)
        data = stream.read(piece.stop - piece.start)
    if len(data) != piece.stop - piece.start:
        raise _changed(piece.path)
    text = _decode_part(data, piece.path, piece.start)
    if piece.joined and not text.endswith("\n"):
        return text + "\n"
    return text


def read_lines(path: str) -> Iterator[str]:
    """The lines of a file, ends included, with the same care; one at a time."""
    with _open(path) as stream:
        place = 0
        while line := stream.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise RegardError(f"{path} has a line of more than {LONGEST_LINE:,} bytes, from byte {place} on")
            yield _decode_part(line, path, place)
            place += len(line)


def split_lines(data: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """The words of each line that has some, with its number; comments from # on are left out, and a line that ends
    with a backslash goes on in the next."""
    words: list[bytes] = []
    for number, line in enumerate(data.splitlines(), 1):
        text = line.partition(b"#")[0].rstrip()
        words += text.removesuffix(b"\\").split()
        if words and not text.endswith(b"\\"):
            yield number, words
            words = []


def decode_text(data: bytes, name: str, start: int = 0, head: bytes | None = None) -> str:
    """Text from bytes that begin at byte `start` of what is called `name`. head: how that begins, if it is
    not in the data"""
    nul = data.find(b"\0")
    if nul >= 0:
        advice = _advice(data if head is None else head)
        raise RegardError(f"{name} is binary, not text: there is a NUL at byte {start + nul}; {advice}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        advice, byte = _advice(data if head is None else head), data[error.start]
        raise RegardError(
            f"{name} is not text in UTF-8: byte {start + error.start} is 0x{byte:02X}; {advice}"
        ) from error
    # the mark that some editors put in front
    if start == 0:
        return text.removeprefix("\ufeff")
    return text


def _decode_part(data: bytes, path: str, start: int) -> str:
    """A part of a file. Errors give advice by the first bytes of the file."""
    try:
        return decode_text(data, path, start)
    except RegardError:
        with _open(path) as stream:
            return decode_text(data, path, start, stream.read(1 << 16))


def _border(stream: BufferedReader, at: int) -> int:
    """A good place at or soon after byte `at`."""
    stream.seek(at)
    window = stream.read(REACH)
    # the end of the last character; or no text at all
    inside = len(window) if len(window) < 4 else 0
    skip = next((i for i, byte in enumerate(window[:4]) if byte & 0xC0 != 0x80), inside)
    try:
        text = window[skip:].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(window) - skip - 3:  # no text: whoever reads the piece will say so
            return at + skip
        text = window[skip : skip + error.start].decode("utf-8")
    return at + skip + len(text[: cut(text, 0)].encode("utf-8"))


def _open(path: str) -> BufferedReader:
    try:
        return open_regular(path)
    except PermissionError as error:
        raise PermissionError(
            f"cannot read {path}: permission denied; chmod u+r gives it, if the file is yours"
        ) from error
    except OSError as error:
        raise type(error)(f"cannot read {path}: {error.strerror}") from error


def _changed(path: str) -> ValueError:
    return RegardError(f"{path} changed while it was read; run this again when nothing writes to it")


UTF_16 = "UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8 old > new)"
PACKED = {  # what a packed file begins with, and what then to do
    b"\xff\xfe": UTF_16,
    b"\xfe\xff": UTF_16,
    b"\x1f\x8b": "packed by gzip; unpack it first (gunzip)",
    b"BZh": "packed by bzip2; unpack it first (bunzip2)",
    b"\x28\xb5\x2f\xfd": "packed by zstd; unpack it first (unzstd)",
}
NO_TEXT = {  # the same of what holds no text
    b"PK\x03\x04": "a zip archive (perhaps a document); take the content out of it first",
    b"%PDF": "a PDF; take the content out of it first (pdftotext)",
    b"\xfd7zXZ": "packed by xz; unpack it first (unxz)",
    b"\x89HDF": "an HDF5 file; save its content as text first",
    b"SQLite format": "a database; save its content as text first",
}


def find_format(head: bytes, formats: Mapping[bytes, str]) -> str | None:
    """What a file is that is not read, and what then to do, by its first bytes."""
    return next((words for start, words in formats.items() if head.startswith(start)), None)


def _advice(head: bytes) -> str:
    """What to do with a file that is not text, by its first bytes."""
    if (words := find_format(head, PACKED | NO_TEXT)) is not None:
        return f"it is {words}"
    if b"\0" in head:
        return "give text only: a glob such as 'folder/**/*.txt' takes some files of a folder"
    return "it may be Latin-1 or Windows-1252; save it as UTF-8 (iconv -f WINDOWS-1252 -t UTF-8 old > new)"


# ── where a long text may be cut so that its parts have the same tokens as the whole

REACH = 1 << 14  # how far beyond the wanted place to look for a good one

# Best first. Words, and the words that byte-pair encoding works in, end before a line end or a space that
# follows something else; a word also ends before a sign. If there is none of these, the cut is anywhere.
_PLACES = tuple(re.compile(pattern) for pattern in (r"\S(?=[\r\n])", r"\S(?=\s)", r"\w(?=[^\w'’])"))


def cut(text: str, at: int) -> int:
    """The first good place to cut a text at or soon after `at`."""
    stop = min(len(text), at + REACH)
    for place in _PLACES:
        if found := place.search(text, at, stop):
            return found.end()
    return at


def cuts(text: str, size: int) -> Iterator[int]:
    """Good places to cut a text into parts of about `size` characters, both ends left out."""
    at = size
    while at < len(text):
        at = cut(text, at)
        if at < len(text):
            yield at
        at += size
