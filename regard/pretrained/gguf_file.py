"""The layout of a GGUF file: facts by name, and where each tensor lies. Every size and every offset is compared
with the file before anything is made of it; the package gguf decodes the blocks.

That package has a reader, too, but it makes an object of each entry of a list before it looks how long the file is: a
vocabulary of 128,000 tokens takes 8 s instead of 0.5 s, and a list that promises more than there is fills the memory.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard import files
from regard.errors import RegardError

if TYPE_CHECKING:
    from gguf import GGMLQuantizationType

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_FACTS, MOST_TENSORS, MOST_DIMENSIONS = 2**16, 2**16, 4
LONGEST_TEXT, LONGEST_LIST = 2**24, 2**24  # bytes, and entries
TEXT, LIST = 8, 9
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True)
class Stored:
    """Where a tensor lies: its shape in the order of PyTorch, its type, and its bytes."""

    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    begin: int
    size: int


class GGUFFile:
    """The content of a file: `facts` by name, and tensors that are read one by one."""

    def __init__(self, path: files.PathLike) -> None:
        self.path = Path(path)
        with files.open_regular(self.path) as file:
            try:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as error:
                raise RegardError(f"{self.path} is no GGUF file: it is empty") from error
        self._at = 0
        if self._take(4, "its first bytes") != MAGIC:
            raise RegardError(f"{self.path} is no GGUF file: it does not begin with {MAGIC.decode()}")
        version = self._number("I")
        if version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise RegardError(f"{self.path} is a GGUF file of version {version}; versions {known} are read")
        tensors, facts = self._count(MOST_TENSORS, "tensors"), self._count(MOST_FACTS, "facts")
        self.facts: dict[str, Any] = {}
        for _ in range(facts):
            name = self._text()
            self.facts[name] = self._value(self._number("I"))
        self.tensors = self._tensors(tensors)

    def read(self, name: str) -> Tensor:
        """A tensor in float32."""
        stored = self.tensors[name]
        try:
            with np.errstate(invalid="ignore", over="ignore"):
                numbers = _import_gguf().dequantize(self.blocks(stored), stored.kind)
        except NotImplementedError as error:
            raise RegardError(
                f"{self.path}: {name[:60]} is stored as {stored.kind.name}, which the package gguf cannot decode"
            ) from error
        return torch.from_numpy(numbers.reshape(stored.shape).copy())

    def blocks(self, stored: Stored) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes of a tensor, as they are in the file."""
        return np.frombuffer(self._data, np.uint8, stored.size, stored.begin)

    # ── the head of the file

    def _tensors(self, count: int) -> dict[str, Stored]:
        gguf = _import_gguf()
        found: dict[str, tuple[tuple[int, ...], GGMLQuantizationType, int, int]] = {}
        for _ in range(count):
            name = self._text()
            if name in found:
                raise self._damaged(f"it has two tensors called {name[:60]!r}")
            dimensions = self._number("I")
            if not 1 <= dimensions <= MOST_DIMENSIONS:
                raise self._damaged(f"{name[:60]} has {dimensions} dimensions")
            shape = tuple(self._number("Q") for _ in range(dimensions))
            number, offset = self._number("I"), self._number("Q")
            try:
                kind = gguf.GGMLQuantizationType(number)
            except ValueError as error:
                raise RegardError(
                    f"{self.path}: {name[:60]} has the type {number}, which the package gguf does not know"
                ) from error
            found[name] = (shape[::-1], kind, offset, self._bytes(name, shape, *gguf.GGML_QUANT_SIZES[kind]))
        alignment = self.facts.get("general.alignment", 32)
        if type(alignment) is not int or not 1 <= alignment <= 2**16 or alignment & (alignment - 1):
            raise self._damaged(f"general.alignment is {alignment!r}")
        begin = -(-self._at // alignment) * alignment
        for name, (_, _, offset, size) in found.items():
            if offset % alignment or begin + offset + size > len(self._data):
                raise self._damaged(f"{name[:60]} should lie at {offset:,} with {size:,} bytes, beyond its end")
        return {name: Stored(shape, kind, begin + offset, size) for name, (shape, kind, offset, size) in found.items()}

    def _bytes(self, name: str, shape: tuple[int, ...], numbers: int, size: int) -> int:
        """The bytes of a tensor. A row, the first of the numbers, is whole blocks of so many numbers and bytes."""
        count = 1
        for side in shape:
            count *= side
            if not 0 < side <= len(self._data) * numbers or count > len(self._data) * numbers:
                raise self._damaged(f"{name[:60]} has the shape {shape[::-1]}, more than the file could hold")
        if shape[0] % numbers:
            raise self._damaged(f"rows of {name[:60]} have {shape[0]} numbers, no multiple of {numbers}")
        return count // numbers * size

    # ── its parts

    def _take(self, size: int, what: str) -> bytes:
        if size > len(self._data) - self._at:
            raise self._damaged(f"it ends within {what}")
        found = self._data[self._at : self._at + size]
        self._at += size
        return found

    def _number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self._take(struct.calcsize(f"<{form}"), "a number"))[0]

    def _count(self, most: int, what: str) -> int:
        count = int(self._number("Q"))
        if count > most:
            raise self._damaged(f"it says that it has {count:,} {what}, and at most {most:,} are read")
        return count

    def _text(self) -> str:
        size = self._count(LONGEST_TEXT, "bytes in a text")
        return self._take(size, "a text").decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        if kind == TEXT:
            return self._text()
        if kind != LIST:
            if kind not in NUMBERS:
                raise self._damaged(f"a fact has the unknown type {kind}")
            return self._number(NUMBERS[kind])
        of, count = self._number("I"), self._count(LONGEST_LIST, "entries in a list")
        if of == TEXT:
            if count * 8 > len(self._data) - self._at:
                raise self._damaged("it ends within a list")
            return [self._text() for _ in range(count)]
        if of not in NUMBERS:
            raise self._damaged(f"a list has entries of the unknown type {of}")
        form = f"<{count}{NUMBERS[of]}"
        return list(struct.unpack(form, self._take(struct.calcsize(form), "a list")))

    def _damaged(self, what: str) -> RegardError:
        return RegardError(f"{self.path} is a damaged GGUF file: {what}")


def _import_gguf() -> Any:
    """The package of llama.cpp; it is an extra, so it may be missing."""
    try:
        import gguf
    except ImportError as error:
        raise RegardError("GGUF files need gguf; install it with: pip install 'regard[gguf]'") from error
    return gguf
