"""What the queries and keys of each attention are called: which of the given streams they are, by size and by
place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from regard.look.model_input import ModelInput, Tokens
from regard.look.recording.entry import Entry


class Streams:
    """The streams of a page, numbered as they are met."""

    def __init__(self, given: ModelInput, learned: Mapping[tuple[int, int], str] | None = None) -> None:
        """learned: what learned vectors are called that take part, by layer and call"""
        self.given, self.learned = given, learned or {}
        self.found: list[Tokens] = list(given.streams)
        self.windows: dict[
            tuple[str, ...], int
        ] = {}  # labels -> stream: parts of the input, which are not found by their size
        self.mixtures: dict[int, int] = {}  # size -> stream: keys that are no tokens, whatever their number

    def of(self, entry: Entry) -> tuple[int, int]:
        """The numbers of the streams of an entry's queries and keys."""
        n, m = sizes(entry)
        if entry.implied is not None and entry.kind == "cross":
            return self.find(n), self.mixed(m)
        if (entry.layer, entry.call) in self.learned and self.given.streams:
            others = self.learned[entry.layer, entry.call]
            whole = len(self.given.streams[0].labels)
            named = [0 if size == whole else self.called(others, size) for size in (n, m)]
            return named[0], named[1]
        if entry.kind == "cross" and len(self.given.streams) > 1:
            return self.find(n, prefer=0), self.find(m, prefer=1)
        prefer = 0 if len(self.given.streams) < 2 or "decoder" in entry.name else 1
        return self.find(n, prefer), self.find(m, prefer)

    def called(self, name: str, size: int) -> int:
        """The stream of so many things of this name."""
        for number, stream in enumerate(self.found):
            if (stream.name, len(stream.labels)) == (name, size):
                return number
        return self.add(Tokens(name, _numbers(size), "items"))

    def find(self, size: int, prefer: int = 0) -> int:
        """The stream of this size: the preferred one, any other, the same with a class token in front, what
        the input knows, or numbers."""
        apart = {*self.windows.values(), *self.mixtures.values()}
        fitting = [i for i, stream in enumerate(self.found) if len(stream.labels) == size and i not in apart]
        if prefer in fitting:
            return prefer
        if fitting:
            return fitting[0]
        return self.add(self.make(size, prefer))

    def make(self, size: int, prefer: int) -> Tokens:
        if prefer < len(self.given.streams) and len(self.given.streams[prefer].labels) == size - 1:
            stream = self.given.streams[prefer]
            return Tokens(f"{stream.name} and class", ("class", *stream.labels), stream.kind)
        known = self.given.stream(size)
        if known is None:
            return Tokens(f"{size} tokens", _numbers(size), "items")
        return known

    def window(self, labels: tuple[str, ...]) -> int:
        """The stream of the tokens of one window."""
        if labels not in self.windows:
            self.windows[labels] = self.add(Tokens("tokens of the window", labels, "patches"))
        return self.windows[labels]

    def mixed(self, size: int) -> int:
        """The stream of keys that are mixtures of all tokens."""
        if size not in self.mixtures:
            self.mixtures[size] = self.add(Tokens("projected keys", _numbers(size), "items"))
        return self.mixtures[size]

    def add(self, stream: Tokens) -> int:
        self.found.append(stream)
        return len(self.found) - 1

    def data(self) -> list[dict[str, Any]]:
        found = []
        for stream in self.found:
            grid = None if stream.grid is None else stream.grid._asdict()
            words = None if stream.words is None else list(stream.words)
            found.append(
                {"name": stream.name, "kind": stream.kind, "labels": list(stream.labels), "grid": grid, "words": words}
            )
        return found


def _numbers(size: int) -> tuple[str, ...]:
    """What things are called that have no names: people count from 1."""
    return tuple(str(i + 1) for i in range(size))


def sizes(entry: Entry) -> tuple[int, int]:
    """How many queries and keys: of an attention along edges, nodes in all, both times."""
    if entry.kind == "edges":
        assert entry.out is not None
        return len(entry.out), len(entry.out)
    return entry.shape[2], entry.shape[3]


# ── which tokens make up a word, so that attention can be looked at word by word

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
