"""Contestants in processes of their own, which take turns: what one leaves in the heap is not there for the next."""

from __future__ import annotations

import multiprocessing
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any

from alternate import Work

TURN = 1.0  # seconds of one turn, about


class Contestant:
    """A process that makes some work, and does it when it is asked to."""

    def __init__(self, make: Callable[..., Work], *given: Any) -> None:
        """make, given: what can be sent to another process; make(*given) is the work."""
        context = multiprocessing.get_context("spawn")
        self.there, inside = context.Pipe()
        self.process = context.Process(target=serve, args=(inside, make, given), daemon=True)
        self.process.start()
        inside.close()

    def ask(self, question: Callable[..., Any], *given: Any) -> Any:
        """question(work, *given), answered there."""
        self.there.send((question, given))
        return self.there.recv()

    def close(self) -> None:
        self.there.close()
        self.process.join()


def serve(pipe: Connection, make: Callable[..., Work], given: tuple[Any, ...]) -> None:
    work = make(*given)
    while True:
        try:
            question, more = pipe.recv()
        except EOFError:
            return
        pipe.send(question(work, *more))


def took(work: Work, shared: bool) -> float:
    """Seconds of some work, done again and again for a second or so, after once that is not counted: it is the one that finds
    all caches full of what others left. shared: of the processor, since others use it, too."""
    timer = time.process_time if shared else time.perf_counter
    began = time.perf_counter()
    work()
    times = max(1, round(TURN / (time.perf_counter() - began)))
    began = timer()
    for _ in range(times):
        work()
    return (timer() - began) / times


@contextmanager
def contest(makers: Mapping[Any, tuple[Any, ...]]) -> Iterator[dict[Any, Contestant]]:
    """Contestants by name; makers: name -> (make, *given)."""
    with ExitStack() as after:
        found = {}
        for name, given in makers.items():
            found[name] = Contestant(*given)
            after.callback(found[name].close)
        yield found


def take_turns(contestants: dict[Any, Contestant], *, seconds: float, least: int, shared: bool) -> dict[Any, float]:
    """Median seconds of each. In each round they have another order, until `seconds` have passed and each had `least` turns."""
    times: dict[Any, list[float]] = {name: [] for name in contestants}
    for one in contestants.values():
        one.ask(took, shared)
    order, draw, began = list(contestants), random.Random(0), time.perf_counter()
    while time.perf_counter() - began < seconds or min(map(len, times.values())) < least:
        draw.shuffle(order)
        for name in order:
            times[name].append(contestants[name].ask(took, shared))
    return {name: statistics.median(each) for name, each in times.items()}
