"""What the queries and keys of each attention are called: which of the given streams they are, by size and by place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.look.model_input import Given, Tokens
from regard.look.recording.entry import Entry

MOST_BEFORE = 16  # tokens that may come before the patches of a picture: a class token, registers


class Streams:
    """The streams of a page, numbered as they are met."""

    def __init__(self, given: Given, few: Mapping[tuple[int, int], str] | None = None) -> None:
        """few: what the learned vectors of a set model are called, by layer and call"""
        self.given, self.few = given, few or {}
        self.found: list[Tokens] = list(given.streams)
        self.before: dict[int, int] = {}  # stream -> tokens before the patches
        self.windows: dict[
            tuple[str, ...], int
        ] = {}  # labels -> stream: parts of a picture, which are not found by their size

    def of(self, entry: Entry) -> tuple[int, int]:
        """The numbers of the streams of an entry's queries and keys."""
        n, m = sizes(entry)
        if (entry.layer, entry.call) in self.few and self.given.streams:
            others = self.few[entry.layer, entry.call]
            named = [
                0 if size == len(self.given.streams[0].labels) else self.called(others, size)
                for size in (n, m)
            ]
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
        return self.add(Tokens(name, numbers(size), "items"), size)

    def find(self, size: int, prefer: int = 0) -> int:
        """The stream of this size: the preferred one, any other, the same with a class token in front, patches, or numbers."""
        apart = set(self.windows.values())
        fitting = [i for i, stream in enumerate(self.found) if len(stream.labels) == size and i not in apart]
        if prefer in fitting:
            return prefer
        if fitting:
            return fitting[0]
        return self.add(self.made(size, prefer), size)

    def made(self, size: int, prefer: int) -> Tokens:
        if prefer < len(self.given.streams) and len(self.given.streams[prefer].labels) == size - 1:
            stream = self.given.streams[prefer]
            return Tokens(f"{stream.name} and class", ("class", *stream.labels), stream.kind)
        if self.given.grid is not None:
            rows, columns = self.given.grid
            before = size - rows * columns
            if 0 <= before <= MOST_BEFORE:
                first = ["class", *(f"register {i}" for i in range(1, before))][:before]
                patches = [f"row {r + 1}, column {c + 1}" for r in range(rows) for c in range(columns)]
                return Tokens(plural(self.given.piece), (*first, *patches), "patches")
        return Tokens(f"{size} tokens", numbers(size), "items")

    def window(self, labels: tuple[str, ...]) -> int:
        """The stream of the tokens of one window of a picture."""
        if labels not in self.windows:
            self.windows[labels] = len(self.found)
            self.found.append(Tokens("tokens of the window", labels, "patches"))
        return self.windows[labels]

    def add(self, stream: Tokens, size: int) -> int:
        number = len(self.found)
        self.found.append(stream)
        if stream.kind == "patches" and self.given.grid is not None:
            self.before[number] = size - self.given.grid[0] * self.given.grid[1]
        return number

    def data(self) -> list[dict[str, Any]]:
        found = []
        for number, stream in enumerate(self.found):
            grid = None
            if number in self.before and self.given.grid is not None:
                rows, columns = self.given.grid
                grid = {"rows": rows, "columns": columns, "before": self.before[number]}
            found.append(
                {"name": stream.name, "kind": stream.kind, "labels": list(stream.labels), "grid": grid}
            )
        return found


def plural(piece: str) -> str:
    return "patches" if piece == "patch" else f"{piece}s"


def numbers(size: int) -> tuple[str, ...]:
    """What things are called that have no names: people count from 1."""
    return tuple(str(i + 1) for i in range(size))


def sizes(entry: Entry) -> tuple[int, int]:
    """How many queries and keys: of an attention along edges, nodes in all, both times."""
    if entry.kind == "edges":
        assert entry.out is not None
        return len(entry.out), len(entry.out)
    return entry.shape[2], entry.shape[3]
