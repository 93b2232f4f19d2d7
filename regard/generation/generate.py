"""Generating text with a model: sampling and beam search, token by token, over a cache.

    for piece in generate(model, "Once upon", max_new=50, seed=0):
        print(piece, end="")

A sample depends on the seed and on its own number, not on how many are drawn beside it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.generation.beam_search import Hypothesis, beam_search
from regard.generation.incremental import IncrementalDecoder
from regard.generation.sampling import (
    Sampling,
    candidates,
    draw_tokens,
    penalise_repeats,
    resolve_sampling,
    seen_tokens,
)
from regard.generation.slot_reader import SlotReader
from regard.generation.stats import Stats
from regard.generation.stops import Stops
from regard.models.encoder import Encoder
from regard.models.token_model import TokenModel

Reader = IncrementalDecoder | SlotReader


class Stream(Protocol):
    """Turns ids into text as they come; holds back what is not yet a whole character."""

    def add(self, token: int, /) -> str: ...
    def rest(self) -> str: ...


class Tokenizer(Protocol):
    """What `generate` needs of a tokenizer."""

    def encode(self, text: str, /) -> Any: ...  # ids
    def decode(self, ids: Any, /) -> str: ...
    def stream(self) -> Stream: ...


def generate(
    model: Any,
    prompt: str = "",
    *,
    tokenizer: Tokenizer | None = None,
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
    tokenizer  None: the model's own.
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
    tokenizer: Tokenizer | None = None,
    sampling: Sampling | None = None,
    stats: Stats | None = None,
    **options: Any,
) -> Iterator[tuple[int, str]]:
    """As `generate`, for `samples` texts side by side: (number of the sample, piece)."""
    sampling = resolve_sampling(sampling, options)
    if isinstance(model, nn.Module) or not hasattr(model, "model"):
        network = model
    else:
        network = model.model
    if tokenizer is None:
        tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is None:
        raise RegardError(f"{type(model).__name__} has no tokenizer; give one with tokenizer=")
    ends = getattr(tokenizer, "ends", ())
    if ends:
        sampling = replace(sampling, stop=(*sampling.stop, *ends))
    ids = getattr(tokenizer, "size", None)
    reader = make_reader(network, encode_prompt(tokenizer, prompt), sampling, ids)

    def stream() -> Stream:
        """Of what follows the prompt: between its last word and the next there may be a space."""
        made = tokenizer.stream()
        if prompt and hasattr(made, "follow"):
            made.follow(reader.prompt[-1])
        return made

    if sampling.beams > 1:
        return _generate_by_beams(reader, sampling, stream)
    return _generate_by_sampling(reader, sampling, stream, Stats() if stats is None else stats)


def make_reader(model: Any, prompt: Sequence[int], sampling: Sampling, ids: int | None = None) -> Reader:
    """What reads a prompt and goes on: over slots where a model has them, else over caches."""
    if hasattr(model, "slots"):
        return SlotReader(model, prompt, sampling.max_new, ids, max(sampling.samples, sampling.beams))
    return IncrementalDecoder(model, prompt, sampling.max_new, ids)


def generate_texts(model: Any, prompt: str = "", **how: Any) -> list[str]:
    """Several texts at once. `how` is that of `generate_samples`."""
    texts: dict[int, str] = {}
    for number, piece in generate_samples(model, prompt, **how):
        texts[number] = texts.get(number, "") + piece
    sampling = how.get("sampling")
    if sampling is None:
        count = int(how.get("samples", 1))
    else:
        count = sampling.samples
    return [texts.get(number, "") for number in range(count)]


def check_generates(model: Any) -> None:
    """Raise a ValueError for a model that predicts no next token."""
    if isinstance(model, Encoder):
        if model.pool is None:
            does = "predicts masked tokens"
        else:
            does = "classifies (use regard predict)"
        raise RegardError(f"this model is an encoder, which {does} and cannot generate; train a decoder on text")
    if isinstance(model, TokenModel) and not model.config.causal:
        raise RegardError(
            "this model is a classifier (use regard predict) and cannot generate; train a language model on text"
        )


def encode_prompt(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """The ids of the prompt, at least one: an empty prompt is the beginning of a line, or else the first
    id."""
    before = [int(i) for i in getattr(tokenizer, "prefix", ())]  # a model of others expects it
    ids = [*before, *(int(i) for i in tokenizer.encode(prompt))]
    if not ids and not prompt:
        try:
            ids = [int(i) for i in tokenizer.encode("\n")]
        except ValueError:  # a text without lines
            ids = []
    return ids or [0]


def _generate_by_sampling(
    reader: Reader, sampling: Sampling, stream: Callable[[], Stream], stats: Stats
) -> Iterator[tuple[int, str]]:
    """Draw token after token, each sample with its own random numbers."""
    if sampling.seed is None:
        seed = secrets.randbits(63)
    else:
        seed = sampling.seed
    rows = range(sampling.samples)
    random = [np.random.default_rng([abs(seed), int(seed < 0), row]) for row in rows]
    streams, stops = [stream() for _ in rows], [Stops(sampling.stop) for _ in rows]
    began = time.perf_counter()
    logits = reader.start(sampling.samples)
    first = time.perf_counter()
    stats.prompt, stats.prompt_seconds = len(reader.prompt), first - began
    if sampling.repetition != 1.0:
        seen = seen_tokens(reader.rows, logits.shape[-1])
    else:
        seen = None
    for written in range(sampling.max_new):
        if seen is not None:
            logits = penalise_repeats(logits, seen, sampling.repetition)
        tokens = draw_tokens(*candidates(logits, sampling), [each.random() for each in random])
        for row in rows:
            if piece := stops[row].add(streams[row].add(tokens[row])):
                yield row, piece
        if written + 1 == sampling.max_new or all(stop.done for stop in stops):
            break
        if seen is not None:
            seen[torch.arange(len(tokens)), torch.tensor(tokens)] = True
        logits = reader.step(tokens)
        stats.written, stats.seconds = (written + 1) * len(rows), time.perf_counter() - first
    for row in rows:
        if piece := stops[row].add(streams[row].rest()) + stops[row].rest():
            yield row, piece


def _generate_by_beams(reader: Reader, sampling: Sampling, stream: Callable[[], Stream]) -> Iterator[tuple[int, str]]:
    """The best texts of a beam search, the best first."""

    def text(ids: list[int]) -> str:
        made = stream()
        return "".join(map(made.add, ids)) + made.rest()

    def ended(ids: list[int]) -> bool:
        return any(stop in text(ids) for stop in sampling.stop)

    for number, found in enumerate(search_continuations(reader, sampling, ended if sampling.stop else None)):
        stops = Stops(sampling.stop)
        yield number, stops.add(text(found.ids)) + stops.rest()


def search_continuations(
    reader: Reader, sampling: Sampling, ended: Callable[[list[int]], bool] | None = None
) -> list[Hypothesis]:
    """The best continuations of a reader's prompt, by beam search."""

    def penalised(logits: Tensor) -> Tensor:
        if sampling.repetition == 1.0:
            return logits
        return penalise_repeats(logits, seen_tokens(reader.rows, logits.shape[-1]), sampling.repetition)

    return beam_search(
        lambda: penalised(reader.start()),
        lambda tokens: penalised(reader.step(tokens.tolist())),
        lambda rows: reader.take(rows.tolist()),
        beams=sampling.beams,
        max_new=sampling.max_new,
        ended=ended,
        length_penalty=sampling.length_penalty,
        n_best=sampling.samples,
    )[0]
