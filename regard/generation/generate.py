"""Generating text with a model, token by token: one text, or several, or those of many prompts, all over slots.

    for piece in generate(model, "Once upon", max_new=50, seed=0):
        print(piece, end="")

A sample depends on the seed and on its own number, not on what is drawn beside it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from torch import nn

from regard.errors import RegardError
from regard.generation.continuations import search_continuations
from regard.generation.model_slots import make_slots
from regard.generation.request import Piece, Request, Stops
from regard.generation.sampling import Sampling, resolve_sampling
from regard.generation.scheduler import CHUNK, Counts, Scheduler
from regard.generation.writer import Writer
from regard.models.encoder import Encoder
from regard.models.token_model import TokenModel
from regard.nn.linear import prepacked

SLOTS = 16  # texts of many prompts that are written at once


@dataclass
class Stats:
    """Tokens and seconds of a prompt and of what follows it. The first new token comes with the prompt."""

    prompt: int = 0
    prompt_seconds: float = 0.0
    written: int = 0  # in all samples together
    seconds: float = 0.0

    def __str__(self) -> str:
        """prompt: 12 tokens in 0.01 s, 1,200 tokens/s; decoding: ..."""
        parts = [_rate("prompt", self.prompt, self.prompt_seconds)]
        if self.written:
            parts.append(_rate("decoding", self.written, self.seconds))
        return "; ".join(parts)


def _rate(what: str, tokens: int, seconds: float) -> str:
    rate = tokens / seconds if seconds > 0 else 0.0
    return f"{what}: {tokens:,} tokens in {seconds:.3g} s, {rate:,.0f} tokens/s"


def generate(
    model: Any,
    prompt: str = "",
    *,
    tokenizer: Any = None,
    sampling: Sampling | None = None,
    stats: Stats | None = None,
    **options: Any,
) -> Iterator[str]:
    """The text that follows the prompt, piece by piece. `options` are those of Sampling.

    model      a Decoder, or anything that maps ids b n to logits b n vocab, perhaps with `caches` and `limit`
               as it has; or
               what holds both as .model and .tokenizer.
    prompt     only its end counts where it is longer than the model's context; the text slides on from there
               without end.
    tokenizer  has `encode`, `decode` and `stream`. None: the model's own.
    stats      what is told how long it took.

    A beam search writes its text in one piece. Several samples at once: `generate_samples`, here.
    """
    sampling = resolve_sampling(sampling, options)
    if sampling.samples != 1:
        raise RegardError(
            f"generate returns one text, got samples={sampling.samples}; use "
            "regard.generation.generate.generate_samples"
        )
    how: dict[str, Any] = {"tokenizer": tokenizer, "sampling": sampling, "stats": stats}
    return (piece for _, piece in generate_samples(model, prompt, **how))


def generate_samples(
    model: Any,
    prompt: str = "",
    *,
    tokenizer: Any = None,
    sampling: Sampling | None = None,
    stats: Stats | None = None,
    **options: Any,
) -> Iterator[tuple[int, str]]:
    """As `generate`, for `samples` texts side by side: (number of the sample, piece)."""
    sampling = resolve_sampling(sampling, options)
    alone = isinstance(model, nn.Module) or not hasattr(model, "model")
    if tokenizer is None:
        tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is None:
        raise RegardError(f"{type(model).__name__} has no tokenizer; give one with tokenizer=")
    writer = Writer(model if alone else model.model, tokenizer)
    ids = writer.encode(prompt)
    if sampling.beams > 1:
        return _search(writer, prompt, ids, sampling)
    return _draw(writer, prompt, ids, sampling, Stats() if stats is None else stats)


def generate_texts(model: Any, prompt: str = "", **how: Any) -> list[str]:
    """Several texts at once. `how` is that of `generate_samples`."""
    texts: dict[int, str] = {}
    for number, piece in generate_samples(model, prompt, **how):
        texts[number] = texts.get(number, "") + piece
    sampling = how.get("sampling")
    count = int(how.get("samples", 1)) if sampling is None else sampling.samples
    return [texts.get(number, "") for number in range(count)]


def check_generates(model: Any) -> None:
    """Raise a ValueError for a model that predicts no next token."""
    if isinstance(model, Encoder):
        does = "predicts masked tokens" if model.pool is None else "classifies (use regard predict)"
        raise RegardError(f"this model is an encoder, which {does} and cannot generate; train a decoder on text")
    if isinstance(model, TokenModel) and not model.config.causal:
        raise RegardError(
            "this model is a classifier (use regard predict) and cannot generate; train a language model on text"
        )


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
    if sampling.seed is None:
        sampling = replace(sampling, seed=secrets.randbits(32))
    encoded = [_encode(writer, prompt) for prompt in prompts]
    readable = [ids for ids in encoded if isinstance(ids, list)]
    scheduler = _open_scheduler(writer, readable, sampling, slots)
    texts: list[list[Piece]] = []
    for prompt, ids in zip(prompts, encoded, strict=True):
        for sample in range(sampling.samples):
            texts.append([])
            if isinstance(ids, str):
                texts[-1].append(Piece("", (), "error", ids))
            else:
                scheduler.submit([_make_request(writer, prompt, ids, sampling, sample, texts[-1].append)])
    with prepacked(writer.model) if isinstance(writer.model, nn.Module) else nullcontext():
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


def _open_scheduler(
    writer: Writer, prompts: Sequence[Sequence[int]], sampling: Sampling, slots: int, chunk: int = CHUNK
) -> Scheduler:
    """What writes so many samples of each prompt, at most `slots` at once."""
    count = max(1, len(prompts) * sampling.samples)
    room = writer.room(max(map(len, prompts), default=1) + sampling.max_new)
    return Scheduler(make_slots(writer.model, min(slots, count), room), ids=writer.ids, queue=count, chunk=chunk)


def _make_request(
    writer: Writer, prompt: str, ids: list[int], sampling: Sampling, number: int, tell: Callable[[Piece], None]
) -> Request:
    """One sample of a prompt."""
    one = replace(sampling, samples=1, stop=(*sampling.stop, *writer.ends))
    return Request(ids, one, writer.stream(ids[-1] if prompt else None), tell, number=number)


def _draw(writer: Writer, prompt: str, ids: list[int], sampling: Sampling, stats: Stats) -> Iterator[tuple[int, str]]:
    """Samples side by side, each with its own random numbers. The prompt is read at once."""
    scheduler = _open_scheduler(writer, [ids], sampling, sampling.samples, chunk=sampling.samples * len(ids))
    pieces: list[tuple[int, Piece]] = []

    def tell(number: int, piece: Piece) -> None:
        pieces.append((number, piece))

    numbers = range(sampling.samples)
    requests = [_make_request(writer, prompt, ids, sampling, row, partial(tell, row)) for row in numbers]
    scheduler.submit(requests)
    began = time.perf_counter()
    first: float | None = None
    left = True
    while left:
        left = scheduler.step()
        now = time.perf_counter()
        if first is None:
            first, stats.prompt, stats.prompt_seconds = now, len(ids), now - began
        stats.written, stats.seconds = max(0, scheduler.counts.written - sampling.samples), now - first
        for number, piece in pieces:
            if piece.text:
                yield number, piece.text
            if piece.finish == "error":
                raise requests[number].cause or RegardError(piece.error or "")
        pieces.clear()


def _search(writer: Writer, prompt: str, ids: list[int], sampling: Sampling) -> Iterator[tuple[int, str]]:
    """The best texts of a beam search, the best first."""
    stop = (*sampling.stop, *writer.ends)

    def text(new: list[int]) -> str:
        made = writer.stream(ids[-1] if prompt else None)
        return "".join(map(made.add, new)) + made.rest()

    def ended(new: list[int]) -> bool:
        return any(each in text(new) for each in stop)

    for number, found in enumerate(search_continuations(writer, ids, sampling, ended if stop else None)):
        stops = Stops(stop)
        yield number, stops.add(text(found.ids)) + stops.rest()
