"""How what a person gives becomes an input of a model, and what can be changed of it on a served page."""

from __future__ import annotations

import base64
import binascii
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.errors import RegardError
from regard.look.model_input import ModelInput, unlabelled_input
from regard.look.view import View

if TYPE_CHECKING:
    from regard.look.scene import Scene

GONE = "The data of this run cannot be read any more, so what is shown was drawn at random; --input shows something of yours."
NAMED = 16_384  # things that have a name each; more are only numbered
LONGEST = 20_000  # characters of a text
LARGEST_FILE = 20 * 2**20  # bytes of a file
LARGEST_NUMBER = 2**53  # that JSON has exactly, in any language
MOST_NUMBERS = 100_000  # of a control


@dataclass(frozen=True, kw_only=True)
class Control:
    """Something that a person can change on a served page: a field of its requests."""

    name: str
    type: Literal["string", "file", "number", "numbers"]
    label: str = ""  # what is written beside it
    placeholder: str = ""  # what stands in an empty text
    accept: str = ""  # which files: endings or media types
    media: str = ""  # with which the data URL of a file begins
    example: str = "text/csv"  # a media type that it may be
    most: int = LARGEST_FILE  # bytes of a file

    def parse(self, value: Any) -> Any:
        """The value of a request: the bytes of a text or of a file, a number or numbers.

        A text is bytes, too: a reader opens files by strings, and no string of a request gets that far.
        """
        if self.type == "string":
            return self._text(value)
        if self.type == "file":
            return self._bytes(value)
        found = [value] if self.type == "number" else value
        if not isinstance(found, list) or not all(type(each) is int for each in found):
            what = "a whole number" if self.type == "number" else "a list of whole numbers"
            raise RegardError(f"{self.name} must be {what}")
        if len(found) > MOST_NUMBERS or any(abs(each) > LARGEST_NUMBER for each in found):
            raise RegardError(f"{self.name} may have {MOST_NUMBERS:,} numbers, none above {LARGEST_NUMBER:,}")
        return value

    def _text(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise RegardError(f"{self.name} must be a text, got {type(value).__name__}")
        if len(value) > LONGEST:
            raise RegardError(f"{self.name} has {len(value):,} characters; at most {LONGEST:,} are read")
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RegardError(f"{self.name} has half a character at place {error.start}; leave it out") from error

    def _bytes(self, value: Any) -> bytes:
        if not isinstance(value, str) or not value.startswith(f"data:{self.media}") or ";base64," not in value:
            raise RegardError(f"{self.name} must be a data URL such as data:{self.example};base64,…")
        try:
            found = base64.b64decode(value.partition(";base64,")[2], validate=True)
        except (binascii.Error, ValueError) as error:
            raise RegardError(f"{self.name} is no valid base64") from error
        if len(found) > self.most:
            raise RegardError(f"{self.name} has {len(found):,} bytes; at most {self.most:,} are read")
        return found


class Reader(ABC):
    """Makes inputs for one model."""

    views: tuple[View, ...] = ()  # of such inputs, besides those of every page
    controls: tuple[Control, ...] = ()  # what a person can change; the first text or file that is given is the input
    takes_objects = False  # is data in memory an input, too?
    takes_target = False  # a second text: what a decoder has written
    longest: int | None = None  # tokens that the model takes at most

    @abstractmethod
    def read(self, given: Any = None, target: str | bytes | None = None) -> ModelInput:
        """The input for this text, or this file or its bytes; None: an example.

        A string comes from whoever started the program, and may be the path of a file. What a request brings,
        typed text too, is bytes, and never a path.
        """

    def change(self, given: ModelInput, values: Mapping[str, Any]) -> ModelInput:
        """The input with what controls other than texts and files say."""
        return given

    def offer(self, scene: Scene) -> tuple[Control, ...]:
        """The controls that make sense for what was seen."""
        return self.controls

    def check_length(self, count: int, what: str) -> None:
        """Raise for an input of no tokens, or of more than the model takes."""
        if not count:
            raise RegardError(f"there is nothing to look at: {what} is empty")
        if self.longest is not None and count > self.longest:
            raise RegardError(f"{what} has {count:,} tokens, and the model reads at most {self.longest:,}; shorten it")


class FixedReader(Reader):
    """The inputs that came with the model; nothing else can be given."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self.inputs = inputs

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> ModelInput:
        if given is not None:
            raise RegardError(
                "this model brings its own inputs, and nobody knows how it reads others; leave --input out"
            )
        return unlabelled_input(self.inputs)


# ---- what is given


ENDINGS = {b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz", b"ply": ".ply", b"OFF": ".off"}  # by how a file begins


def find_ending(data: bytes) -> str:
    """The ending of a file, by how it begins."""
    return next((ending for start, ending in ENDINGS.items() if data.startswith(start)), ".csv")


@contextmanager
def at_path(given: str | bytes, ending_of: Callable[[bytes], str] = find_ending) -> Iterator[Path]:
    """A file by its path, or one made of bytes for a while, with an ending that they tell."""
    if isinstance(given, str):
        if not Path(given).exists():
            raise RegardError(f"there is no file {given!r}; give the path of one")
        yield Path(given)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"input{ending_of(given)}"
        path.write_bytes(given)
        try:
            yield path
        except ValueError as error:
            raise RegardError(str(error).replace(str(path), "the file")) from error


def readable(example: Callable[[], Any]) -> bool:
    """Can it be read?"""
    try:
        example()
    except (OSError, ValueError):
        return False
    return True
