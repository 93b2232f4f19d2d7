"""Lines of text files that may be packed by gzip."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

from regard.data.text_files import decode_text, read_lines
from regard.errors import RegardError
from regard.files import most_unpacked, open_regular

PACKED = ".gz"


def without_packed(path: str) -> str:
    """train.en of train.en.gz"""
    return path[: -len(PACKED)] if path.lower().endswith(PACKED) else path


def unpack_lines(path: str) -> Iterator[str]:
    """The lines of a text file, ends included; of a name that ends in .gz, those of the text packed in it. Only a
    line feed ends a line."""
    if not path.lower().endswith(PACKED):
        yield from read_lines(path)
        return
    text = _unpack(path)
    start = 0
    while start < len(text):
        stop = text.find("\n", start) + 1 or len(text)
        yield text[start:stop]
        start = stop


def _unpack(path: str) -> str:
    most = most_unpacked()
    try:
        with open_regular(path) as raw, gzip.GzipFile(fileobj=raw) as file:
            data = file.read(most + 1)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no {path}; give a file that exists") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise RegardError(f"{path} is not a gzip file, or it is cut off: {error}") from error
    if len(data) > most:
        raise RegardError(
            f"{path} has more than {most:,} bytes unpacked, which is more than is read here; give a part of it"
        )
    return decode_text(data, path)
