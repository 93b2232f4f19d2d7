"""Writing with a model: sampling and beam search, one token after the other, over a cache.

    for piece in generate(model, "Once upon", max_new=50, seed=0):
        print(piece, end="")

A sample depends on the seed and on its own number, not on how many are drawn beside it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import check_positive, nearest


class Stream(Protocol):
    """Turns ids into text as they come; holds back what is not yet a whole character."""

    def add(self, token: int, /) -> str: ...
    def rest(self) -> str: ...


class Tokenizer(Protocol):
    """What `generate` needs of a tokenizer."""

    def encode(self, text: str, /) -> Any: ...  # ids
    def decode(self, ids: Any, /) -> str: ...
    def stream(self) -> Stream: ...


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen from its probabilities."""

    max_new: int = 200  # tokens to write at most
    temperature: float = 0.8  # logits are divided by it; 0: always the likeliest token
    top_k: int | None = None  # only the k likeliest tokens
    top_p: float | None = None  # only the fewest tokens that have this probability together
    min_p: float | None = (
        None  # only tokens at least this probable, as a share of the likeliest one's probability
    )
    repetition: float = 1.0  # above 1: tokens that were there already become less likely
    seed: int | None = None  # the same seed, the same text; None: another one each time
    samples: int = 1  # texts to write at once; with beams: how many of the best
    beams: int = 1  # above 1: search for the likeliest text (by its mean log-probability) instead of drawing
    stop: tuple[str, ...] = ()  # texts that end it; they are not written

    def __post_init__(self) -> None:
        for name in ("max_new", "samples", "beams", "top_k"):
            value = getattr(self, name)
            if not (name == "top_k" and value is None) and (type(value) is not int or value < 1):
                raise ValueError(f"{name} must be a whole number above zero, got {value!r}")
        if not is_number(self.temperature) or not self.temperature >= 0:
            given = self.temperature
            raise ValueError(
                f"temperature must be a number, 0 or more, got {given!r}; 0 always takes the likeliest token"
            )
        if self.seed is not None and type(self.seed) is not int:
            raise ValueError(f"seed must be a whole number, got {self.seed!r}")
        for name in ("top_p", "min_p"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and 0 < value <= 1):
                raise ValueError(f"{name} must be above 0 and at most 1, got {value!r}; None leaves it out")
        check_positive(self, "repetition")
        stop: Any = (
            (self.stop,) if isinstance(self.stop, str) else self.stop
        )  # one text is as good as a list of one
        object.__setattr__(self, "stop", tuple(stop) if isinstance(stop, list) else stop)
        if not isinstance(stop, tuple | list) or not all(isinstance(text, str) and text for text in stop):
            raise ValueError(f"stop must be texts that are not empty, such as ('\\n\\n',), got {self.stop!r}")
        if self.beams > 1 and self.samples > self.beams:
            raise ValueError(
                f"{self.beams} beams cannot give {self.samples} samples; use beams={self.samples} or more"
            )
        if self.beams > 1:
            for name in ("temperature", "top_k", "top_p", "min_p", "seed"):
                if getattr(self, name) != getattr(type(self), name):
                    raise ValueError(
                        f"{name} is for drawing, and beams={self.beams} draws nothing: it searches for the "
                        f"likeliest text; leave out one of them"
                    )


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def generate(
    model: Any,
    prompt: str = "",
    *,
    tokenizer: Tokenizer | None = None,
    sampling: Sampling | None = None,
    **options: Any,
) -> Iterator[str]:
    """The text that follows the prompt, piece by piece. `options` are those of Sampling.

    model      a Decoder, or anything that maps ids b n to logits b n vocab, perhaps with `caches` and `limit` as it has; or
               what holds both as .model and .tokenizer.
    prompt     only its end counts where it is longer than the model's context; the text slides on from there without end.
    tokenizer  None: the model's own.

    A beam search writes its text in one piece. Several samples at once: `generate_samples`, here.
    """
    sampling = chosen(sampling, options)
    if sampling.samples != 1:
        raise ValueError(
            f"generate gives one text, got samples={sampling.samples}; use regard.decode.generate_samples"
        )
    return (piece for _, piece in generate_samples(model, prompt, tokenizer=tokenizer, sampling=sampling))


def generate_samples(
    model: Any,
    prompt: str = "",
    *,
    tokenizer: Tokenizer | None = None,
    sampling: Sampling | None = None,
    **options: Any,
) -> Iterator[tuple[int, str]]:
    """As `generate`, for `samples` texts side by side: (number of the sample, piece)."""
    sampling = chosen(sampling, options)
    network = model if isinstance(model, nn.Module) or not hasattr(model, "model") else model.model
    tokenizer = getattr(model, "tokenizer", None) if tokenizer is None else tokenizer
    if tokenizer is None:
        raise ValueError(f"{type(model).__name__} has no tokenizer; give one with tokenizer=")
    reader = Reader(network, beginning(tokenizer, prompt), sampling.max_new)

    def stream() -> Stream:
        """Of what follows the prompt: between its last word and the next there may be a space."""
        made = tokenizer.stream()
        if prompt and hasattr(made, "follow"):
            made.follow(reader.prompt[-1])
        return made

    return searched(reader, sampling, stream) if sampling.beams > 1 else sampled(reader, sampling, stream)


def chosen(sampling: Sampling | None, options: dict[str, Any]) -> Sampling:
    known = [field.name for field in fields(Sampling)]
    for name in options:
        if name not in known:
            near = nearest(name, known)
            raise ValueError(
                f"unknown option '{name}'; {f'did you mean {near!r}? ' if near else ''}known: {', '.join(known)}"
            )
    return replace(sampling or Sampling(), **options)


def beginning(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """The ids to go on from. There is always one: an empty prompt is the beginning of a line, or else the first id."""
    ids = [int(i) for i in tokenizer.encode(prompt)]
    if not ids and not prompt:
        try:
            ids = [int(i) for i in tokenizer.encode("\n")]
        except ValueError:  # a text without lines
            ids = []
    return ids or [0]


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Reader:
    """Rows of ids that grow one by one, and what the model makes of them: the logits of what comes next.

    A model with `limit` is never shown more than that many tokens: when they are full, it forgets the older half and reads
    the rest again. Without `caches` it reads everything again at every step, and gives the same.
    """

    def __init__(self, model: Any, prompt: Sequence[int], room: int) -> None:
        self.model, self.room = model, room
        self.limit: int | None = getattr(model, "limit", None)
        self.prompt = list(prompt)
        self.rows = [list(prompt)]  # all ids of each row, however old
        self.begin = (
            0 if self.limit is None else max(0, len(prompt) - self.limit)
        )  # the first one that is still read
        self.cached = hasattr(model, "caches")
        self.caches: Any = None
        parameter = next(iter(model.parameters()), None) if isinstance(model, nn.Module) else None
        self.device = torch.device("cpu") if parameter is None else parameter.device

    def start(self, samples: int = 1) -> Tensor:
        """Logits after the prompt, the same for each of the samples.   -> samples vocab"""
        logits = self.read([row[self.begin :] for row in self.rows], anew=True)
        self.take([0] * samples)
        return logits.expand(samples, -1)

    def step(self, tokens: Sequence[int]) -> Tensor:
        """Logits after one more token in each row.   -> rows vocab"""
        for row, token in zip(self.rows, tokens, strict=True):
            row.append(token)
        full = self.limit is not None and len(self.rows[0]) - self.begin > self.limit
        if full:
            assert self.limit is not None
            self.begin = len(self.rows[0]) - max(1, self.limit // 2)
        if full or not self.cached:
            return self.read([row[self.begin :] for row in self.rows], anew=True)
        return self.read([[token] for token in tokens])

    @torch.inference_mode()
    def take(self, rows: Sequence[int]) -> None:
        """Row i goes on from row rows[i]."""
        if list(rows) == list(range(len(self.rows))):
            return
        self.rows = [list(self.rows[i]) for i in rows]
        if self.caches is not None:
            self.caches.take(torch.tensor(rows, device=self.device))

    @torch.inference_mode()
    def read(self, rows: list[list[int]], anew: bool = False) -> Tensor:
        """Logits at the last place, in float64.   -> rows vocab"""
        how = {}
        if self.cached:
            if anew:
                size = len(rows[0]) + self.room
                self.caches = self.model.caches(size if self.limit is None else min(size, self.limit))
            how["caches"] = self.caches
        training = getattr(self.model, "training", False)
        if training:
            self.model.eval()
        try:
            logits = self.model(torch.tensor(rows, device=self.device), **how)[:, -1].double().cpu()
        finally:
            if training:
                self.model.train()
        if logits.isnan().any():
            raise ValueError("the model's logits are not numbers (NaN); it was damaged or trained to nothing")
        return logits


# ── choosing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def penalised(logits: Tensor, seen: Tensor, repetition: float) -> Tensor:
    """Logits of tokens that were there: divided by `repetition` where positive, multiplied where negative.   r v, bool r v"""
    return torch.where(seen, torch.where(logits > 0, logits / repetition, logits * repetition), logits)


def candidates(logits: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Probabilities of the tokens that may be drawn (0 for the others), and their ids.   r v -> r k, r k

    In this order: temperature, top-k, top-p (of what top-k left), min-p.
    """
    if sampling.temperature == 0:
        best = logits.argmax(-1, keepdim=True)
        return torch.ones_like(best, dtype=logits.dtype), best
    logits = logits / sampling.temperature
    if sampling.top_k is not None:
        logits, ids = logits.topk(min(sampling.top_k, logits.shape[-1]), -1)
    elif sampling.top_p is not None:
        logits, ids = logits.sort(dim=-1, descending=True, stable=True)  # of equals the lower id first
    else:
        ids = torch.arange(logits.shape[-1]).expand_as(logits)
    probabilities = logits.softmax(-1)
    keep = torch.ones_like(ids, dtype=torch.bool)
    if sampling.top_p is not None:  # up to and with the one that reaches it: what comes before has less
        keep &= probabilities.cumsum(-1) - probabilities < sampling.top_p
    if sampling.min_p is not None:
        keep &= probabilities >= sampling.min_p * probabilities.amax(-1, keepdim=True)
    probabilities = probabilities.masked_fill(~keep, 0)
    return probabilities / probabilities.sum(-1, keepdim=True), ids


def draw(probabilities: Tensor, ids: Tensor, numbers: Sequence[float]) -> list[int]:
    """One id a row, by the place of a uniform number in [0, 1) among the summed probabilities.   r k, r k -> r"""
    sums = probabilities.cumsum(-1)
    at = torch.searchsorted(sums, torch.tensor(numbers, dtype=sums.dtype)[:, None] * sums[:, -1:], right=True)
    return ids.gather(-1, at.clamp(max=ids.shape[-1] - 1))[:, 0].tolist()


def seen_tokens(rows: list[list[int]], vocab: int) -> Tensor:
    """Which ids each row holds.   -> bool r v"""
    seen = torch.zeros(len(rows), vocab, dtype=torch.bool)
    for i, row in enumerate(rows):
        seen[i, row] = True
    return seen


# ── stopping ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Stops:
    """Lets text through up to a stop text, and holds back what might be the beginning of one."""

    def __init__(self, stop: tuple[str, ...]) -> None:
        self.stop, self.held, self.done = stop, "", False

    def add(self, text: str) -> str:
        """What may be written now."""
        if self.done:
            return ""
        self.held += text
        ends = [
            (self.held.find(stop) + len(stop), self.held.find(stop))
            for stop in self.stop
            if stop in self.held
        ]
        if ends:
            self.done = True
            return self.let(min(ends)[1])  # the one that was complete first
        return self.let(len(self.held) - max((overlap(self.held, stop) for stop in self.stop), default=0))

    def rest(self) -> str:
        return "" if self.done else self.let(len(self.held))

    def let(self, size: int) -> str:
        out, self.held = self.held[:size], self.held[size:]
        return out


def overlap(text: str, stop: str) -> int:
    """How many characters at the end of the text are a beginning of the stop text."""
    return next(
        (size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0
    )


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def sampled(reader: Reader, sampling: Sampling, stream: Callable[[], Stream]) -> Iterator[tuple[int, str]]:
    """Draw token after token, each sample with its own random numbers."""
    seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
    rows = range(sampling.samples)
    random = [np.random.default_rng([abs(seed), int(seed < 0), row]) for row in rows]
    streams, stops = [stream() for _ in rows], [Stops(sampling.stop) for _ in rows]
    logits = reader.start(sampling.samples)
    seen = seen_tokens(reader.rows, logits.shape[-1]) if sampling.repetition != 1.0 else None
    for written in range(sampling.max_new):
        if seen is not None:
            logits = penalised(logits, seen, sampling.repetition)
        tokens = draw(*candidates(logits, sampling), [each.random() for each in random])
        for row in rows:
            if piece := stops[row].add(streams[row].add(tokens[row])):
                yield row, piece
        if written + 1 == sampling.max_new or all(stop.done for stop in stops):
            break
        if seen is not None:
            seen[torch.arange(len(tokens)), torch.tensor(tokens)] = True
        logits = reader.step(tokens)
    for row in rows:
        if piece := stops[row].add(streams[row].rest()) + stops[row].rest():
            yield row, piece


def searched(reader: Reader, sampling: Sampling, stream: Callable[[], Stream]) -> Iterator[tuple[int, str]]:
    """The best texts of a beam search, the best first."""

    def text(ids: list[int]) -> str:
        made = stream()
        return "".join(map(made.add, ids)) + made.rest()

    def ended(ids: list[int]) -> bool:
        return bool(sampling.stop) and any(stop in text(ids) for stop in sampling.stop)

    for number, (_, ids) in enumerate(beam_search(reader, sampling, ended)[: sampling.samples]):
        stops = Stops(sampling.stop)
        yield number, stops.add(text(ids)) + stops.rest()


def beam_search(
    reader: Reader, sampling: Sampling, ended: Callable[[list[int]], bool]
) -> list[tuple[float, list[int]]]:
    """(mean log-probability, new ids) of what was found, the best first.

    Each step goes on with the `beams` likeliest of all continuations. Those that ended are set aside; the search is over
    when none that goes on can still become better: sums only fall, so sum / max_new is the most a mean can reach.
    """
    prompt, beams = len(reader.rows[0]), sampling.beams
    logits, sums = reader.start(), torch.zeros(1, dtype=torch.float64)
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, sampling.max_new + 1):
        if sampling.repetition != 1.0:
            logits = penalised(logits, seen_tokens(reader.rows, logits.shape[-1]), sampling.repetition)
        totals = sums[:, None] + logits.log_softmax(-1)  # rows vocab
        best = totals.flatten().topk(min(2 * beams, totals.numel()))
        parents: list[int] = []
        tokens: list[int] = []
        kept: list[float] = []
        for total, at in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            parent, token = divmod(at, totals.shape[-1])
            ids = [*reader.rows[parent][prompt:], token]
            if total == -torch.inf or len(kept) == beams:
                break
            if length == sampling.max_new or ended(ids):
                finished.append((total / length, ids))
            else:
                parents.append(parent)
                tokens.append(token)
                kept.append(total)
        finished = sorted(finished, key=lambda each: -each[0])[:beams]
        if not kept or (
            len(finished) >= sampling.samples
            and finished[sampling.samples - 1][0] >= kept[0] / sampling.max_new
        ):
            break
        reader.take(parents)
        logits, sums = reader.step(tokens), torch.tensor(kept, dtype=torch.float64)
    return finished
