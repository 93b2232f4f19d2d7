"""Many texts over one model: each step reads a token of every text that is being written and a part of a prompt
that is new, so texts come and go at any time (continuous batching).

    with Scheduler(make_slots(model, 8, 256)) as scheduler:
        scheduler.submit([request])       # from any thread; pieces are told as they come

A text depends on its prompt, its sampling and its seed, not on what is written beside it. A prompt that begins as
a slot does, finished or not, takes that beginning over and reads the rest only.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.generation.request import Request
from regard.generation.sampling import Sampling, candidates, draw_tokens
from regard.generation.slot_keeper import SlotKeeper
from regard.generation.slots import Slots

CHUNK = 256  # tokens of prompts that are read in one step, so that others go on
QUEUE = 256  # requests that may wait
DIVERGED = (
    "the logits of the model are NaN or infinite: its training diverged; train it again with a smaller --train.lr"
)
SHARED = 16  # tokens for which it is worth waiting that another request reads them


class Busy(RegardError):
    """Too many requests wait."""


@dataclass
class Counts:
    """What a scheduler has done until now."""

    requests: int = 0  # that came
    finished: int = 0
    running: int = 0
    waiting: int = 0
    prompt: int = 0  # tokens of prompts that were read
    reused: int = 0  # tokens of prompts that were taken over, and not read
    written: int = 0  # tokens drawn


class Scheduler:
    """Runs requests over slots, in a thread of its own that alone touches the model (`start` and `close`, or
    `with`); without the thread, `step` does one step.

    ids     a model's table may have rows to spare: only ids below this are drawn; None: all
    queue   requests that may wait; more are refused as Busy
    chunk   tokens of prompts that are read in one step
    """

    def __init__(self, slots: Slots, *, ids: int | None = None, queue: int = QUEUE, chunk: int = CHUNK) -> None:
        if chunk < 1 or queue < 1:
            raise RegardError(f"chunk and queue must be at least 1, got chunk={chunk} and queue={queue}")
        self.slots, self.ids, self.queue, self.chunk = slots, ids, queue, chunk
        self.keeper = SlotKeeper(slots)
        self.running: list[Request] = []  # in the order in which they began
        self.waiting: deque[Request] = deque()
        self.asked = 0  # how often `submit` was called
        self.counts = Counts()
        self.changed = threading.Condition()
        self.closed = False
        self.thread: threading.Thread | None = None

    # ── from any thread

    def submit(self, requests: Sequence[Request]) -> None:
        """Take in requests, all or none. Each further one of them queues as if it came later, by as many askers as
        there are slots: who asks for many texts does not stop who asks for one."""
        with self.changed:
            if self.closed:
                raise Busy("the server is ending")
            if len(self.waiting) + len(requests) > self.queue:
                raise Busy(
                    f"{len(self.waiting)} requests wait, and {self.queue} may; ask again in a while, or for less"
                )
            for number, request in enumerate(requests):
                request.turn = self.asked + number * self.slots.count
            self.asked += 1
            self.waiting = deque(sorted([*self.waiting, *requests], key=lambda request: request.turn))
            self.counts.requests += len(requests)
            self.changed.notify()

    def cancel(self, requests: Sequence[Request]) -> None:
        """Nobody waits for these any more: their slots are free at the next step."""
        for request in requests:
            request.cancel()
        with self.changed:
            self.changed.notify()

    def snapshot(self) -> Counts:
        """The counts of this moment."""
        with self.changed:
            return replace(self.counts, running=len(self.running), waiting=len(self.waiting))

    def start(self) -> None:
        self.thread = threading.Thread(target=self._work, name="regard scheduler", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """End soon: what is not finished is cancelled after this step."""
        with self.changed:
            self.closed = True
            self.changed.notify()

    def close(self) -> None:
        """End now, and wait for it."""
        self.stop()
        if self.thread is not None:
            self.thread.join()
        self._cancel_all()

    def _cancel_all(self) -> None:
        with self.changed:
            left = [*self.running, *self.waiting]
            self.running, self.waiting = [], deque()
        for request in left:
            _end(request, "cancelled")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ── in the thread of the scheduler

    def _work(self) -> None:
        while True:
            with self.changed:
                while not self.closed and not self.running and not self.waiting:
                    self.changed.wait()
                closed = self.closed
            if closed:
                self._cancel_all()
                return
            try:
                self.step()
            except Exception as error:  # a bug: those who wait are told, and the next ones are served
                sys.stderr.write(f"regard: {_words(error)}\n")
                for request in self.running:
                    self._fail(request, error)
                self._sweep()

    def step(self) -> bool:
        """One step: take in, read, draw.  -> is anything left to do?"""
        self._drop_cancelled()
        self._admit()
        reads = self._choose_reads()
        if reads:
            ready = self._read(reads)
            self._draw([*ready, *self._share(ready)])
            self._sweep()
        with self.changed:
            return bool(self.running or self.waiting)

    def _drop_cancelled(self) -> None:
        with self.changed:
            if not any(request.cancelled for request in (*self.running, *self.waiting)):
                return
            gone = [request for request in self.waiting if request.cancelled]
            self.waiting = deque(request for request in self.waiting if not request.cancelled)
        for request in gone:
            _end(request, "cancelled")
        for request in self.running:
            if request.cancelled:
                _end(request, "cancelled")
        self._sweep()

    def _admit(self) -> None:
        """Give free slots to those who wait, the first first. Who can take over what another is just reading
        waits for it, and lets others pass."""
        with self.changed:
            queue = list(self.waiting)
        for request in queue:
            if not self.keeper.free:
                return
            shown = request.ids[-self.slots.capacity :]
            ahead = [other.ids for other in self.running if len(other.pending) > 1]
            if self.keeper.grows(shown, ahead) >= SHARED:
                continue
            with self.changed:
                self.waiting.remove(request)
            try:
                request.slot, request.reused = self.keeper.take(shown)
            except Exception as error:
                self._fail(request, error)
                continue
            request.begin = len(request.ids) - len(shown)
            request.pending = shown[request.reused :]
            self.counts.reused += request.reused
            with self.changed:
                self.running.append(request)

    def _choose_reads(self) -> list[tuple[Request, list[int]]]:
        """What each request reads now: its last token, or a part of its prompt, of which the first who came has
        most."""
        left = self.chunk
        found = []
        for request in self.running:
            if len(request.pending) == 1:
                found.append((request, request.pending))
            elif left:
                found.append((request, request.pending[:left]))
                left -= len(found[-1][1])
        return found

    def _read(self, reads: list[tuple[Request, list[int]]]) -> list[tuple[Request, Tensor]]:
        """Read, together if that is possible.  -> those who may draw a token, and their logits"""
        try:
            logits = self.keeper.read([_slot(request) for request, _ in reads], [ids for _, ids in reads])
        except Exception as error:
            if len(reads) == 1:
                self._fail(reads[0][0], error)
                return []
            # one of them spoils it for all: each for itself
            return [found for each in reads for found in self._read([each])]
        ready = []
        rows = logits[:, : self.ids].double()
        right = (rows.amax(-1) < torch.inf).tolist()  # -inf is a token that cannot come
        for (request, ids), row, fine in zip(reads, rows.unbind(), right, strict=True):
            if request.written == 0:
                self.counts.prompt += len(ids)
            request.pending = request.pending[len(ids) :]
            if not fine:
                self._fail(request, RegardError(DIVERGED))
            elif not request.pending:
                ready.append((request, row))
        return ready

    def _share(self, ready: list[tuple[Request, Tensor]]) -> list[tuple[Request, Tensor]]:
        """Who waits with a prompt that was just read draws from the same logits, in a copy of its slot."""
        found: list[tuple[Request, Tensor]] = []
        for request, logits in ready:
            if request.written:
                continue
            with self.changed:
                same = [other for other in self.waiting if other.ids == request.ids]
            for other in same[: len(self.keeper.free)]:
                other.slot, other.begin = self.keeper.fork(_slot(request)), request.begin
                other.reused = len(other.ids) - other.begin
                self.counts.reused += other.reused
                with self.changed:
                    self.waiting.remove(other)
                    self.running.append(other)
                found.append((other, logits))
        return found

    def _draw(self, ready: list[tuple[Request, Tensor]]) -> None:
        """One token for each, drawn together where the sampling is the same."""
        groups: dict[Sampling, list[tuple[Request, Tensor, Tensor]]] = {}
        for request, logits in ready:
            groups.setdefault(request.choice, []).append((request, logits, request.penalised(logits)))
        for sampling, group in groups.items():
            rows = torch.stack([penalised for _, _, penalised in group])
            drawn = draw_tokens(*candidates(rows, sampling), [request.random.random() for request, _, _ in group])
            for (request, logits, _), id in zip(group, drawn, strict=True):
                self._take(request, id, logits)

    def _take(self, request: Request, id: int, logits: Tensor) -> None:
        try:
            request.take(id, logits)
        except Exception as error:
            self._fail(request, error)
            return
        self.counts.written += 1
        full = len(request.ids) - request.begin > self.slots.capacity
        if request.finish is None and full:  # forget the older half, and read the rest again
            request.begin = len(request.ids) - max(1, self.slots.capacity // 2)
            request.pending = request.ids[request.begin :]
            self.keeper.empty(_slot(request))

    def _fail(self, request: Request, error: Exception) -> None:
        request.cause = error
        if request.slot is not None:
            with suppress(Exception):  # (slots that are broken are broken for this, too)
                self.keeper.empty(request.slot)
        _end(request, "error", _words(error))

    def _sweep(self) -> None:
        """Free the slots of what is over; what they hold stays until somebody needs the room."""
        over = [request for request in self.running if request.finish is not None]
        for request in over:
            self.keeper.release(_slot(request))
        if over:
            with self.changed:
                self.running = [request for request in self.running if request.finish is None]
            self.counts.finished += len(over)


def _slot(request: Request) -> int:
    assert request.slot is not None
    return request.slot


def _end(request: Request, finish: str, error: str | None = None) -> None:
    """Tell that it is over, to whoever still listens."""
    try:
        request.end(finish, error)  # type: ignore[arg-type]
    except Exception as problem:
        sys.stderr.write(f"regard: {_words(problem)}\n")


def _words(error: BaseException) -> str:
    words = " ".join(str(error).split())[:300]
    if isinstance(error, RegardError) and words:
        return words
    return f"this is a bug in regard: {type(error).__name__}{words and f': {words}'}; please report it"
