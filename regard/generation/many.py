"""The texts of many prompts, written at once and given back in their order."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

from torch import nn

from regard.errors import RegardError
from regard.generation.request import Piece, Request
from regard.generation.sampling import Sampling
from regard.generation.scheduler import Counts, Scheduler
from regard.generation.slots import make_slots
from regard.generation.writer import Writer
from regard.nn.linear import prepacked

SLOTS = 16  # texts that are written at once


class Written(NamedTuple):
    """A text that is finished."""

    prompt: int  # its number
    sample: int
    text: str
    finish: str  # stop or length


def write_texts(
    writer: Writer,
    prompts: Sequence[str],
    sampling: Sampling,
    *,
    slots: int = SLOTS,
    tell: Callable[[Counts], None] = lambda counts: None,
) -> Iterator[Written]:
    """The samples of each prompt, in order. Each is the text that `generate` gives for the same seed.

    tell    is given the counts after each step
    """
    encoded = [writer.encode(prompt) for prompt in prompts]
    if not encoded:
        return
    if sampling.seed is None:
        sampling = replace(sampling, seed=secrets.randbits(63))
    count = len(encoded) * sampling.samples
    longest = max(map(len, encoded)) + sampling.max_new
    limit = getattr(writer.model, "limit", None)
    capacity = longest if limit is None else min(longest, limit)
    scheduler = Scheduler(make_slots(writer.model, min(slots, count), capacity), ids=writer.ids, queue=count)
    texts: list[list[Piece]] = [[] for _ in range(count)]
    one = replace(sampling, samples=1, stop=(*sampling.stop, *writer.ends))
    for i, ids in enumerate(encoded):
        stream = ids[-1] if prompts[i] else None
        for sample in range(sampling.samples):
            place = texts[i * sampling.samples + sample]
            request = Request(ids, one, writer.stream(stream), place.append, number=sample)
            scheduler.submit([request])
    with _prepacked(writer.model):
        for number, pieces in enumerate(texts):
            while not (pieces and pieces[-1].finish):
                scheduler.step()
                tell(scheduler.snapshot())
            last = pieces[-1]
            if last.finish == "error":
                raise RegardError(str(last.error))
            text = "".join(piece.text for piece in pieces)
            yield Written(number // sampling.samples, number % sampling.samples, text, str(last.finish))


def _prepacked(model: Any) -> Any:
    """Weights laid out for large products, as long as texts are written."""
    return prepacked(model) if isinstance(model, nn.Module) else nullcontext()
