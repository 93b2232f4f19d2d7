"""A text from the user: the text itself, or the path of a file with text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from regard.data.text_files import decode_text
from regard.errors import RegardError
from regard.files import open_regular, read_bounded

MOST = 2**26  # bytes of a file with a text to read
# reviews/one.txt, but not "and/or, he said"
LIKE_A_PATH = re.compile(r"\A[^\n]*\.(txt|csv|tsv|jsonl?|ndjson|parquet)(\.gz)?\Z|\A\S*/\S*\Z")


def is_given_file(given: str) -> bool:
    """Is this the path of a file, and not a text?"""
    try:
        return Path(given).is_file()
    except (OSError, ValueError):  # too long to be the name of a file, or no name at all
        return False


def read_given_text(given: str) -> tuple[str, Literal["text", "file"]]:
    """A text, or the text of a file. A string that looks like a path but is not a file is an error, because
    it is probably a typing error."""
    path = Path(given)
    try:
        folder, file = path.is_dir(), path.is_file()
    except (OSError, ValueError):  # too long to be the name of a file, or no name at all
        return given, "text"
    if folder and given.strip():
        raise RegardError(f"{given} is a folder; give a text, or files of text: {given.rstrip('/')}/*.txt")
    if file:
        with open_regular(path) as opened:
            text = decode_text(read_bounded(opened, MOST, given), given)
        if not text.strip():
            raise RegardError(f"{given} is empty; give a file with text in it")
        return text, "file"
    if LIKE_A_PATH.search(given):
        raise FileNotFoundError(f"there is no file {given}; if this is a text, write it into a file and give that file")
    return given, "text"
