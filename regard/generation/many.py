"""The texts of many prompts, written at once and given back in their order."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

from torch import nn

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
    finish: str  # stop, length or error
    error: str | None = None


def write_texts(
    writer: Writer,
    prompts: Sequence[str],
    sampling: Sampling,
    *,
    slots: int = SLOTS,
    tell: Callable[[Counts], None] = lambda counts: None,
) -> Iterator[Written]:
    """The samples of each prompt, in order. Each is the text that `generate` gives for the same seed. A prompt that
    cannot be encoded has an error in its place.

    tell    is given the counts after each step
    """
    encoded = [_encode(writer, prompt) for prompt in prompts]
    readable = [ids for ids in encoded if isinstance(ids, list)]
    if sampling.seed is None:
        sampling = replace(sampling, seed=secrets.randbits(32))
    count = max(1, len(readable) * sampling.samples)
    longest = max(map(len, readable), default=1) + sampling.max_new
    limit = getattr(writer.model, "limit", None)
    capacity = longest if limit is None else min(longest, limit)
    scheduler = Scheduler(make_slots(writer.model, min(slots, count), capacity), ids=writer.ids, queue=count)
    texts: list[list[Piece]] = []
    one = replace(sampling, samples=1, stop=(*sampling.stop, *writer.ends))
    for prompt, ids in zip(prompts, encoded, strict=True):
        for sample in range(sampling.samples):
            texts.append([])
            if isinstance(ids, str):
                texts[-1].append(Piece("", (), "error", ids))
                continue
            stream = writer.stream(ids[-1] if prompt else None)
            scheduler.submit([Request(ids, one, stream, texts[-1].append, number=sample)])
    with _prepacked(writer.model):
        for number, pieces in enumerate(texts):
            while not (pieces and pieces[-1].finish):
                scheduler.step()
                tell(scheduler.snapshot())
            last, text = pieces[-1], "".join(piece.text for piece in pieces)
            prompt_number, sample = divmod(number, sampling.samples)
            yield Written(prompt_number, sample, text, str(last.finish), last.error)


def _encode(writer: Writer, prompt: str) -> list[int] | str:
    """The ids, or what is wrong with the prompt."""
    try:
        return writer.encode(prompt)
    except ValueError as error:
        return str(error)


def _prepacked(model: Any) -> Any:
    """Weights laid out for large products, as long as texts are written."""
    return prepacked(model) if isinstance(model, nn.Module) else nullcontext()
