"""How what a person writes, or a file, becomes an input of a model; for runs of ours, through the tokenizer of the run."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.look.model_input import Given, Kind, numbered

GONE = "The data of this run cannot be read any more, so what is shown was drawn at random; --input shows something of yours."
NAMED = 16_384  # things that have a name each; more are only numbered


class Reader(ABC):
    """Makes inputs for one model."""

    kind: Kind
    takes_target = False  # a second text: what a decoder has written
    longest: int | None = None  # tokens that the model takes at most

    @abstractmethod
    def read(self, given: str | bytes | None = None, target: str | None = None) -> Given:
        """The input for this text, or this file or its bytes; None: an example."""

    def fits(self, count: int, what: str) -> None:
        if not count:
            raise ValueError(f"there is nothing to look at: {what} is empty")
        if self.longest is not None and count > self.longest:
            raise ValueError(
                f"{what} has {count:,} tokens, and the model reads at most {self.longest:,}; shorten it"
            )


class Fixed(Reader):
    """The inputs that came with the model; nothing else can be given."""

    kind = "fixed"

    def __init__(self, inputs: dict[str, Any]) -> None:
        self.inputs = inputs

    def read(self, given: str | bytes | None = None, target: str | None = None) -> Given:
        if given is not None:
            raise ValueError(
                "this model brings its own inputs, and nobody knows how it reads others; leave --input out"
            )
        return numbered(self.inputs)


# ---- what is given


ENDINGS = {
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
    b"ply": ".ply",
    b"OFF": ".off",
}  # by how a file begins


@contextmanager
def at_path(given: str | bytes) -> Iterator[Path]:
    """A file by its path, or one made of bytes for a while."""
    if isinstance(given, str):
        if not Path(given).exists():
            raise ValueError(
                f"there is no file {given!r}; give one with the numbers of a set: .npy, .npz, .csv, .ply or .off"
            )
        yield Path(given)
        return
    with tempfile.TemporaryDirectory() as folder:
        ending = next((ending for start, ending in ENDINGS.items() if given.startswith(start)), ".csv")
        path = Path(folder) / f"input{ending}"
        path.write_bytes(given)
        try:
            yield path
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), "the file")) from error


def readable(example: Callable[[], Any]) -> bool:
    try:
        example()
    except (OSError, ValueError):
        return False
    return True
