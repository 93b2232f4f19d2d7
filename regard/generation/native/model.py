"""A decoder whose weights are packed for the native step, and the slots by which it reads texts: the weights once for all
of them."""

from __future__ import annotations

import ctypes
import io
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data import cache as caching
from regard.errors import RegardError
from regard.generation.native.compile import NoNative, load_library
from regard.generation.native.describe import Description, State, select_state, why_not
from regard.generation.native.library import Library
from regard.generation.native.pack import FORMAT, Memory, Packed, to_table, write_packed
from regard.generation.slots import Slots
from regard.models.attentions import window_of
from regard.models.decoder import DecoderConfig
from regard.models.sequence_model import POSITIONS
from regard.symmetry.groups import Shifts

QUANTISED = ("int8", "int4", "int4_min")


class NativeModel:
    """Weights of a decoder, packed, and the library that reads them. `tokenizer` may be set by whoever has one."""

    def __init__(self, config: DecoderConfig, packed: Packed, library: Library, threads: int | None = None) -> None:
        self.config, self.library = config, library
        self.packed = Packed(_copy(packed.memory, library, self), packed.table)
        self.threads = threads or torch.get_num_threads()
        self.half_cache = any(stored.kind in QUANTISED for stored in packed.table.values())
        self.limit = limit_of(config)
        self.tokenizer: Any = None

    @property
    def bytes(self) -> int:
        """Of its weights."""
        return int(self.packed.memory.nbytes)

    def slots(self, count: int = 1, capacity: int | None = None) -> NativeSlots:
        """Room for texts. capacity: the most tokens of each; None: as many as the model reads."""
        return NativeSlots(self, count, capacity)


class NativeSlots(Slots):
    """`count` texts of up to `capacity` tokens each, over one model. One thread at a time may use it."""

    def __init__(self, model: NativeModel, count: int = 1, capacity: int | None = None) -> None:
        super().__init__(model, count, capacity or model.limit or model.config.context, model.config.vocab)
        if model.limit is not None and self.capacity > model.limit:
            raise RegardError(f"the model reads {model.limit} tokens at most, got capacity={capacity}")
        self._library = model.library
        self._description = Description(
            model.config,
            model.packed,
            slots=count,
            capacity=self.capacity,
            threads=model.threads,
            half_cache=model.half_cache,
        )
        self._back = model.config.ngrams - 1  # tokens that are looked back on
        self._handle = self._library.open(self._description.pointer)
        weakref.finalize(self, self._library.close, self._handle)

    def truncate(self, slot: int, length: int) -> None:
        self._check_length(slot, length)
        del self.held[slot][length:]

    def copy(self, source: int, target: int, length: int) -> None:
        self._check_length(source, length)
        if self._known(target) == source:
            return self.truncate(source, length)
        self._description.copy(source, target, length)
        self.held[target] = self.held[source][:length]

    def read(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> Tensor:
        """All slots in one reading of the weights."""
        self._check_read(slots, tokens)
        logits = self._forward(list(slots), [list(each) for each in tokens])
        for slot, new in zip(slots, tokens, strict=True):
            self.held[slot] += new
        return logits

    def _forward(self, slots: list[int], tokens: list[list[int]]) -> Tensor:
        ids: list[int] = []
        of: list[int] = []
        places: list[int] = []
        wants: list[int] = []
        before: list[int] = []
        for slot, new in zip(slots, tokens, strict=True):
            held = self.held[slot]
            ids += new
            of += [slot] * len(new)
            places += range(len(held), len(held) + len(new))
            wants += [0] * (len(new) - 1) + [1]
            if self._back:
                before += self._before(held, new)
        logits = torch.empty(len(slots), self.model.config.vocab)
        whole = [(ctypes.c_int32 * max(1, len(each)))(*each) for each in (ids, of, places, before, wants)]
        self._library.read(self._handle, len(ids), *whole, logits.data_ptr())
        return logits

    def _before(self, held: list[int], new: Sequence[int]) -> list[int]:
        """For each new token those before it, the nearest first; the size of the vocabulary stands for nothing."""
        line = [self.model.config.vocab] * self._back + held[-self._back :] + list(new)
        first = len(line) - len(new)
        return [line[i - back] for i in range(first, len(line)) for back in range(1, self._back + 1)]


def open_native(
    config: Any,
    read_state: Callable[[], State],
    weights: str,
    *,
    cache: Path | None = None,
    key: str | None = None,
    threads: int | None = None,
    path: str | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> NativeModel:
    """A model for the native step, or NoNative with the reason.

    read_state   tensors by their names in a state_dict; asked only if they are not packed yet
    weights      float32, bfloat16, int8 or int4: matrices become this, but for those that are quantised already
    cache, key   where packed weights are kept, and their name there; None: they are packed each time
    path         the way through step.cpp, "avx512", "avx2" or "plain"; None: the fastest
    """
    reason = why_not(config)
    if reason is not None:
        raise NoNative(reason)
    library = load_library(path, note)

    def choose(name: str) -> str:
        if name.startswith("ngrams.") and weights in QUANTISED:
            return "bfloat16"  # rows are looked up and added, nothing is multiplied
        return weights

    def write(out: Any) -> dict[str, Any]:
        note(f"packing weights ({'once' if key else weights})")
        table = write_packed(select_state(config, read_state()), choose, out)
        return {"tokens": out.tell(), "table": table}

    if cache is None or key is None:
        memory, facts = _in_memory(write)
    else:
        name = caching.key(key=key, weights=weights, format=FORMAT)
        try:
            memory, facts = caching.ids(cache, name, np.dtype(np.uint8), write, "packed")
        except OSError as error:
            note(f"packed weights are not kept: {error}")
            memory, facts = _in_memory(write)
    return NativeModel(config, Packed(memory, to_table(facts["table"])), library, threads)


def limit_of(config: DecoderConfig) -> int | None:
    """As `Decoder.limit`, without its weights: native decoders have biases that keep shifts, shared by all blocks."""
    window = window_of(config)
    keeps = POSITIONS[config.position](config).keeps
    if window is not None and window <= config.context and Shifts() <= keeps:
        return None
    return config.context + config.memory


def _in_memory(write: Callable[[Any], dict[str, Any]]) -> tuple[Memory, dict[str, Any]]:
    out = io.BytesIO()
    facts = write(out)
    return np.frombuffer(out.getbuffer(), np.uint8), facts


def _copy(memory: Memory, library: Library, owner: Any) -> Memory:
    """The same in large pages, which the processor finds sooner; freed with the owner."""
    size = max(1, memory.nbytes)
    address = library.memory(size)
    if not address:
        raise MemoryError(f"there is no memory for {size:,} bytes of weights")
    weakref.finalize(owner, library.free, address)
    found: Memory = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
    found[: memory.nbytes] = memory
    return found
