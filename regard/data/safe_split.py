"""Where a long text may be cut so that its parts have the same tokens as the whole."""

import re
from collections.abc import Iterator

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
