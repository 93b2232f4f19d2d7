"""Examples, a processor and targets as a source of batches: splits, epochs, and what is kept encoded."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data import cache as caches
from regard.data.array import Array
from regard.data.batch import Batch, Epochs, generator
from regard.data.progress import Note
from regard.data.slices import Slice, slice_batch, take_slice
from regard.data.splits import SPLITS
from regard.errors import RegardError
from regard.machine import cores
from regard.recipes.example import Examples
from regard.recipes.processor import Encoded, Processor

AHEAD = 2  # batches that are read while the model learns from another


class Encodings:
    """Encoded examples by their numbers.

    keep: in "memory", each once it was asked for; on "disk", all in one array of a fixed shape; "none": they are made
    whenever they are asked for, several at once
    """

    def __init__(self, examples: Examples, processor: Processor[Any, Any], keep: str) -> None:
        self.examples, self.processor, self.keep = examples, processor, keep
        self.errors: dict[int, str] = {}
        self.array: Array | None = None  # of all that could be read
        self._places: Array | None = None  # the place of each example in the array
        self._held: dict[int, Encoded] = {}

    def __call__(self, rows: Array | Sequence[int]) -> list[Encoded]:
        if self.array is not None:
            name = self._field
            return [{name: each} for each in self.stack(np.asarray(rows))]
        if self.keep == "none":
            return list(self._pool.map(self._encode, map(int, rows)))
        return [self._kept(int(row)) for row in rows]

    def stack(self, rows: Array) -> Array:
        """Some examples as one array."""
        assert self.array is not None and self._places is not None
        found: Array = self.array[self._places[rows]]
        return found

    @property
    def _field(self) -> str:
        assert self.processor.stacked is not None
        return self.processor.stacked[0]

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(cores())

    def _kept(self, row: int) -> Encoded:
        if row not in self._held:
            self._held[row] = self._encode(row)
        return self._held[row]

    def _encode(self, row: int) -> Encoded:
        return self.processor.encode(self.examples[row])

    # ── all at once

    def prepare(self, cache: Path, note: Note) -> None:
        """Encode all examples that are kept, and find those that cannot be read."""
        if self.keep == "none":
            if self.examples.files is not None:
                self._find_errors(cache, note)
            return
        if self.keep == "disk":
            self._read_disk(cache, note)
            return
        good = []
        for row in self.examples.readable():
            found = self._try(row)
            if isinstance(found, str):
                self.errors[row] = found
            else:
                self._held[row] = found
                good.append(row)
        if self.processor.stacked is not None and good:
            name, dtype = self.processor.stacked
            self.array = np.stack([np.asarray(self._held[row][name], dtype=dtype) for row in good])
            self._place(good)
            self._held = {}

    def _find_errors(self, cache: Path, note: Note) -> None:
        """Files that cannot be read are found once, before a step needs one of them."""

        def find() -> dict[str, Any]:
            rows, wrong = list(self.examples.readable()), []
            for row, found in zip(rows, self._pool.map(self._try, rows), strict=True):
                if isinstance(found, str):
                    wrong.append([row, found])
                note("reading", (row + 1) / len(self.examples))
            return {"errors": wrong}

        about = caches.cached_json(cache, self._key(), find, "encoded")
        self.errors = dict(about["errors"])
        if self.errors and len(self.errors) == len(list(self.examples.readable())):
            raise RegardError(f"{self.examples.what} has nothing that can be read: {next(iter(self.errors.values()))}")

    def _read_disk(self, cache: Path, note: Note) -> None:
        assert self.processor.stacked is not None
        name, dtype = self.processor.stacked

        def write(out: Any) -> dict[str, Any]:
            wrong: dict[int, str] = {}
            shape: tuple[int, ...] | None = None
            count, rows = 0, list(self.examples.readable())
            with ThreadPoolExecutor(cores()) as pool:
                for row, found in zip(rows, pool.map(self._try, rows), strict=True):
                    if isinstance(found, str):
                        wrong[row] = found
                        continue
                    one = np.ascontiguousarray(found[name], dtype=dtype)
                    shape = shape or one.shape
                    out.write(one.tobytes())
                    count += one.size
                    note("encoding", (row + 1) / len(self.examples))
            if shape is None:
                raise RegardError(f"{self.examples.what} has nothing that can be read: {wrong[rows[0]]}")
            return {"tokens": count, "shape": list(shape), "errors": sorted(wrong.items())}

        flat, about = caches.ids(cache, self._key(), np.dtype(dtype), write, what="encoded")
        self.errors = {int(row): why for row, why in about["errors"]}
        self.array = flat.reshape(-1, *about["shape"])
        self._place([row for row in self.examples.readable() if row not in self.errors])

    def _place(self, good: Sequence[int]) -> None:
        self._places = np.full(len(self.examples), -1)
        self._places[good] = np.arange(len(good))

    def _try(self, row: int) -> Encoded | str:
        try:
            return self._encode(row)
        except (ValueError, OSError) as error:
            return str(error)

    def _key(self) -> str:
        """What is kept on disk depends on the files, and on what `encode` reads of what was fitted."""
        file_of = self.examples.files
        assert file_of is not None
        stamps = []
        for path in map(file_of, range(len(self.examples))):
            try:
                found = os.stat(path)
                stamps.append([os.path.abspath(path), found.st_size, found.st_mtime_ns])
            except OSError:
                stamps.append([os.path.abspath(path), 0, 0])
        files = hashlib.sha256(json.dumps(stamps, allow_nan=False).encode("utf-8", "surrogatepass")).hexdigest()
        fitted = {name: getattr(self.processor.fitted, name) for name in self.processor.encodes_by}
        return caches.key(kind=type(self.processor).__name__, files=files, fitted=fitted)


@dataclass(eq=False)
class Dataset:
    """A `Source` for training, and the batches of each split. A batch depends on (seed, step) alone.

    A *unit* is what batches are made of: an example, or if `by` is "whole" or "drawn" a part of the only example.
    """

    examples: Examples
    processor: Processor[Any, Any]
    codes: Array  # of what is asked
    splits: Array  # of what is asked
    encodings: Encodings
    size: int  # units of a batch
    seed: int
    by: str = "examples"
    most: Mapping[str, int] = field(default_factory=dict)  # of a split are judged

    def __post_init__(self) -> None:
        if self.size < 1:
            raise RegardError(f"batch must be at least 1, got {self.size}")
        self._unit = self.examples.owners() if self.by == "examples" else np.arange(len(self.splits))
        self._lengths = self._find_lengths()
        train = self.units("train")
        self._epochs = Epochs(train, self.size, self.seed, self._lengths) if len(train) else None
        self._coming: dict[int, Future[Batch]] = {}
        if self.by == "whole":  # (several processes ask)
            self.whole = "every step reads the whole graph"

    def _find_lengths(self) -> Array | None:
        """Of examples, where they matter."""
        if self.by != "examples" or self.encodings.keep != "memory" or self.encodings.array is not None:
            return None
        lengths = np.zeros(len(self.examples), dtype=np.int64)
        for row in self._readable():
            length = self.processor.length_of(self.encodings([row])[0])
            if length is None:
                return None
            lengths[row] = length
        return lengths

    def _readable(self) -> Iterator[int]:
        return (row for row in self.examples.readable() if row not in self.encodings.errors)

    # ── training

    def batch(self, step: int) -> Batch:
        """The batch of a step."""
        if self._epochs is None or self.examples.more is not None:
            if self.examples.more is None:
                raise RegardError(f"{self.examples.what} leaves nothing to train on; give more examples")
            return self._of_new(self.examples.more(self.size, generator(self.seed, 1, step)))
        if self.by == "whole":
            return self._whole_batch
        if self.encodings.keep != "none":
            return self._read(step)
        for each in range(step, step + 1 + AHEAD):
            if each not in self._coming:
                self._coming[each] = self._reader.submit(self._read, each)
        self._coming = {each: found for each, found in self._coming.items() if each >= step}
        return self._coming[step].result()

    def slice(self, step: int, part: int, parts: int) -> Slice:
        """The rows of a batch that one of several processes works on; others are not read if they need not be."""
        if self._epochs is None or self.encodings.array is None or self.by != "examples":
            return slice_batch(self.batch(step), part, parts)
        rows = self._epochs.rows(step)
        return take_slice(lambda first, last: self._stacked(rows[first:last]), len(rows), part, parts)

    @cached_property
    def _whole_batch(self) -> Batch:
        """All that is to be learned, at every step."""
        return self.take(self.units("train"))

    def validation(self) -> Iterator[Batch]:
        """The whole validation split, always in the same order."""
        return self.of("validation")

    @cached_property
    def _reader(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1)

    def _read(self, step: int) -> Batch:
        assert self._epochs is not None
        random = generator(self.seed, 4 if self.by == "drawn" else 3, step)
        return self.take(self._epochs.rows(step), random)

    # ── splits

    def units(self, split: str) -> Array:
        """The units of a split, in the order of the data."""
        return np.unique(self._unit[self.splits == SPLITS[split]])

    def order(self, split: str) -> Array:
        """The units of a split, in the order of its batches: those of like length together."""
        units = self.units(split)
        if len(units) > self.most.get(split, len(units)):
            units = np.sort(generator(self.seed, 5).choice(units, self.most[split], replace=False))
        if self._lengths is not None:
            units = units[np.argsort(self._lengths[units], kind="stable")]
        return units

    def of(self, split: str) -> Iterator[Batch]:
        """All batches of a split."""
        units = self.order(split)
        if self.by == "whole":
            yield from [self.take(units)] if len(units) else []
            return
        for number, start in enumerate(range(0, len(units), self.size)):
            # what is around some parts is drawn where they are judged, too, but always the same
            random = generator(self.seed, 6, number) if self.by == "drawn" else None
            yield self.take(units[start : start + self.size], random)

    # ── one batch

    def take(self, units: Array, random: np.random.Generator | None = None) -> Batch:
        """These units as a batch. random: in training"""
        if self.by != "examples":
            (encoded,) = self.encodings([0])
            batch = self.processor.collate([self.processor.sample(encoded, random, units)], random)
            return self._with_targets(batch, [self.codes], units)
        if self.encodings.array is not None:
            return self._stacked(units)
        rows = [self.processor.sample(each, random) for each in self.encodings(units)]
        codes = []
        for unit, row in zip(units.tolist(), rows, strict=True):
            own = self.codes[self.examples.parts(unit)]
            if self.examples.starts is None:
                own = own[0]
            elif "kept" in row:
                own = own[row["kept"]]
            codes.append(own)
        return self._with_targets(self.processor.collate(rows, random), codes)

    def _stacked(self, units: Array) -> Batch:
        """Examples of one shape, which need no padding."""
        assert self.processor.stacked is not None
        x = torch.from_numpy(self.encodings.stack(units))
        return Batch({self.processor.stacked[0]: x}, torch.from_numpy(self.codes[units]))

    def _of_new(self, drawn: Examples) -> Batch:
        """New examples of endless data."""
        codes = encode_targets(self.processor, drawn)
        rows = [self.processor.encode(drawn[i]) for i in range(len(drawn))]
        own = [codes[drawn.parts(i)] if drawn.starts is not None else codes[i] for i in range(len(drawn))]
        return self._with_targets(self.processor.collate(rows), own)

    def _with_targets(self, batch: Batch, codes: Sequence[Array], parts: Array | None = None) -> Batch:
        target = self.processor.place_targets(codes, batch, parts)
        return batch.replace(target=torch.from_numpy(np.ascontiguousarray(target)))


def encode_targets(processor: Processor[Any, Any], examples: Examples) -> Array:
    """The targets of all that is asked, as tensors have them; for a task without a target, what the cells say."""
    if examples.cells is None:
        return np.zeros(examples.asked, dtype=np.float32)
    if processor.target is None:
        return np.asarray(examples.cells, dtype=np.float32)
    codes = processor.target.encode(examples.cells, examples.what, examples.places)
    return codes.astype(np.float32) if codes.dtype.kind == "f" else codes
