"""Which tokens make up a word, so that attention can be looked at word by word."""

from __future__ import annotations

from collections.abc import Collection, Sequence

JOINS = frozenset("'’-‐\ufffd")  # signs inside a word: woman's, over-sized, a part of a letter


def number_words(labels: Sequence[str], marks: Collection[str] = ()) -> tuple[int, ...]:
    """The number of the word that each token is a part of.

    A word begins after a space, or with a token that begins with one. Punctuation and marks (such as <end>) are
    words of their own.
    """
    found: list[int] = []
    word, alone = -1, True  # alone: nothing may be added to the word so far
    for label in labels:
        single = label in marks or _is_punctuation(label)
        if alone or single or label[:1].isspace():
            word += 1
        found.append(word)
        alone = single or (label[-1:].isspace() and bool(label.strip()))
    return tuple(found)


def _is_punctuation(label: str) -> bool:
    """Is there neither letter nor figure in it, nor a sign that joins two parts of a word?"""
    signs = label.strip()
    return bool(signs) and not any(sign.isalnum() or sign in JOINS for sign in signs)
