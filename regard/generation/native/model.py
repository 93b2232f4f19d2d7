"""A decoder whose weights are packed for the native step: `slots` reads texts with it."""

from __future__ import annotations

import ctypes
import io
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data import cache as caching
from regard.generation.native.compile import NoNative, load_library
from regard.generation.native.describe import State, select_state, why_not
from regard.generation.native.library import Library
from regard.generation.native.pack import FORMAT, Memory, Packed, to_table, write_packed
from regard.generation.native.slots import NativeSlots
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
