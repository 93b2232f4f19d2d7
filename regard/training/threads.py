"""How many threads a training should use: a few real steps with one, a few with all.

Threads of one step wait for each other. On a machine that has other work to do, all threads may take fifty times
as long as one.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager

import torch

STEPS = 3  # of each number of threads, at least
TURN = 2  # steps in a row with the same number of threads
CLEARLY = 0.95  # one thread must need less than this share of the time of all


@contextmanager
def own_threads() -> Iterator[None]:
    """The number of threads is as before when this ends."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        use_threads(before)


def use_threads(count: int) -> None:
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)


class ThreadTrial:
    """Times steps with all threads and with one, in turns, and chooses. counts: the numbers to try

    The first step of each number pays for memory and for starting threads, so it does not count if there are
    others.
    """

    def __init__(self, counts: tuple[int, ...]) -> None:
        self.counts = counts
        self.taken: dict[int, list[float]] = {count: [] for count in counts}
        self.steps = 0

    def begin_step(self) -> None:
        """Set the number of threads for the next step."""
        use_threads(self.current)

    @property
    def current(self) -> int:
        return self.counts[self.steps // TURN % len(self.counts)]

    def add(self, seconds: float) -> None:
        self.taken[self.current].append(seconds)
        self.steps += 1

    def enough(self, spent: float, budget: float) -> bool:
        """Was each number tried often enough? With 4 % of the budget gone three steps of each will do, with 20 %
        one."""
        fewest = min(len(each) for each in self.taken.values())
        return (spent >= 0.04 * budget and fewest >= STEPS) or (spent >= 0.2 * budget and fewest >= 1)

    def step(self, count: int) -> float:
        """Seconds of a step with so many threads."""
        taken = self.taken[count]
        return max(1e-6, statistics.median(taken[1:] or taken))

    def choose(self) -> int:
        """The number of threads that is fastest; of nearly equal ones, the first."""
        best = self.counts[0]
        for count in self.counts[1:]:
            if self.step(count) < CLEARLY * self.step(best):
                best = count
        return best

    def say(self) -> str | None:
        """The choice in a line; None if there was none."""
        if len(self.counts) == 1:
            return None
        best = self.choose()
        others = ", ".join(f"{_threads(each)} {_duration(self.step(each))}" for each in self.counts if each != best)
        words = f"{_threads(best)}: {_duration(self.step(best))} a step ({others})"
        if best == self.counts[0]:
            return words
        return f"{words}; other work on this machine slows down more threads"


def _threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"


def _duration(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
