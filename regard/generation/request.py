"""One text that is asked for: how to draw it, how far it is, where it stops, and whom to tell. Its `ids` are the only
place that has all of them, however old."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from torch import Tensor

from regard.errors import RegardError
from regard.generation.sampling import Sampling, penalise_repeats, seen_tokens
from regard.generation.writer import Stream

# stop: a stop text or the end of the text; length: as many tokens as were asked for; error: see Piece.error
Finish = Literal["stop", "length", "cancelled", "error"]


class Token(NamedTuple):
    """A token that was drawn."""

    id: int
    text: str  # what it added, as far as characters were whole
    logp: float | None = None  # log p of the model, before temperature and the like; None: not asked for
    best: tuple[tuple[int, float], ...] = ()  # the likeliest ids and their log p


class Piece(NamedTuple):
    """What is new of a text."""

    text: str
    tokens: tuple[Token, ...] = ()
    finish: Finish | None = None  # the last piece says how it ended
    error: str | None = None


class Request:
    """A text that is asked for.

    prompt    ids, at least one
    sampling  how to choose tokens; one sample, no beams
    stream    turns ids into text; new for each request
    tell      is given each piece, in the thread of the scheduler: it must be quick
    number    which sample of a seed it is: 0, 1, ...
    logprobs  tokens come with log p, and with that of so many of the likeliest; None: without
    """

    def __init__(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        stream: Stream,
        tell: Callable[[Piece], None],
        *,
        number: int = 0,
        logprobs: int | None = None,
    ) -> None:
        if len(prompt) == 0:
            raise RegardError("a prompt needs at least one token")
        if sampling.samples != 1 or sampling.beams != 1:
            raise RegardError("a request is one sample without beams; make a request for each sample")
        self.sampling, self.stream, self.tell, self.logprobs = sampling, stream, tell, logprobs
        # requests for which it is equal draw their tokens together
        self.choice = replace(sampling, max_new=1, seed=None, stop=(), repetition=1.0)
        self.prompt = [int(id) for id in prompt]
        self.ids = list(self.prompt)  # with what was drawn
        self.begin = 0  # the first of them that the model is still shown
        self.pending: list[int] = []  # ids to read before the next token can be drawn
        self.slot: int | None = None
        self.turn = 0  # its place in the queue
        self.reused = 0  # tokens of the prompt that need not be read
        self.finish: Finish | None = None
        self.cause: Exception | None = None  # of an error
        self.cancelled = False
        self.stops = Stops(sampling.stop)
        self.seen: Tensor | None = None
        self.waiting: list[tuple[Token, int]] = []  # whose text is held back, and where it begins
        self.drawn_text = self.told_text = 0  # characters
        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
        self.random = np.random.default_rng([abs(seed), int(seed < 0), number])

    def cancel(self) -> None:
        """Nobody waits for it any more. Any thread may say so."""
        self.cancelled = True

    @property
    def written(self) -> int:
        """Tokens drawn."""
        return len(self.ids) - len(self.prompt)

    def penalised(self, logits: Tensor) -> Tensor:
        """Logits with the penalty for tokens that were there.   v -> v"""
        if self.sampling.repetition == 1.0:
            return logits
        if self.seen is None:
            self.seen = seen_tokens([self.ids], len(logits))[0]
        self.seen[self.ids[-1]] = True
        return penalise_repeats(logits, self.seen, self.sampling.repetition)

    def take(self, id: int, logits: Tensor) -> None:
        """Go on with a token that was drawn from these logits, and tell what is new."""
        self.ids.append(id)
        self.pending = [id]
        text = self.stream.add(id)
        self.waiting.append((self._token(id, text, logits), self.drawn_text))
        self.drawn_text += len(text)
        out = self.stops.add(text)
        if not self.stops.done and self.written < self.sampling.max_new:
            if out:
                self._tell(out)
            return
        if not self.stops.done:
            out += self.stops.add(self.stream.rest())
        out += self.stops.rest()
        self._tell(out, "stop" if self.stops.done else "length")

    def end(self, finish: Finish, error: str | None = None) -> None:
        """It ends before its time."""
        self.finish = finish
        self.tell(Piece("", (), finish, error))

    def _token(self, id: int, text: str, logits: Tensor) -> Token:
        if self.logprobs is None:
            return Token(id, text)
        logp = logits.log_softmax(-1)
        best = logp.topk(min(self.logprobs, len(logp)))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return Token(id, text, float(logp[id]), tuple(pairs))

    def _tell(self, text: str, finish: Finish | None = None) -> None:
        """Text, and the tokens that begin in it; those of a stop text are left out."""
        self.told_text += len(text)
        ready = [token for token, at in self.waiting if at < self.told_text]
        self.waiting = self.waiting[len(ready) :]
        if finish == "length":
            ready += [token for token, _ in self.waiting]
        self.finish = finish
        self.tell(Piece(text, tuple(ready), finish))


class Stops:
    """Lets text through up to a stop text, and holds back what might be the beginning of one."""

    def __init__(self, stop: tuple[str, ...]) -> None:
        self.stop, self.held, self.done = stop, "", False

    def add(self, text: str) -> str:
        """What may be written now."""
        if self.done:
            return ""
        self.held += text
        ends = [(self.held.find(stop) + len(stop), self.held.find(stop)) for stop in self.stop if stop in self.held]
        if ends:
            self.done = True
            return self._let(min(ends)[1])  # the one that was complete first
        return self._let(len(self.held) - max((_overlap(self.held, stop) for stop in self.stop), default=0))

    def rest(self) -> str:
        return "" if self.done else self._let(len(self.held))

    def _let(self, size: int) -> str:
        out, self.held = self.held[:size], self.held[size:]
        return out


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of the text are a beginning of the stop text."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)
