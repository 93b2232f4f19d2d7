"""A budget in minutes becomes a number of steps, once, after a few real steps were timed."""

from __future__ import annotations

import math
from dataclasses import dataclass

LOOKS = 10  # evaluations in a run, if time allows
APART = 10  # fewest steps between two evaluations, if the budget is in steps
SHARE = 0.15  # largest share of the time for evaluations


@dataclass(frozen=True)
class Plan:
    """The number of steps, and the steps between two evaluations."""

    steps: int
    evaluate_every: int


def by_steps(steps: int, evaluate_every: int | None) -> Plan:
    return Plan(steps, max(APART, math.ceil(steps / LOOKS)) if evaluate_every is None else evaluate_every)


def by_time(
    left: float, done: int, *, step: float, look: float, decay: float, evaluate_every: int | None = None
) -> Plan:
    """The plan for the seconds `left` after `done` steps, where a step takes `step` seconds and a look
    `look`.

    The steps already done were taken at a learning rate that does not fall yet. So there are at least as many
    steps as keeps it so, and the plan gives what the same number of steps would have given from the start.
    """
    if look > 0:
        looks = max(1, min(LOOKS, int(SHARE * left / look)))
    else:
        looks = LOOKS
    if evaluate_every is None:
        more = (left - looks * look) / step
    else:
        more = (left - look) / (step + look / evaluate_every)
    least = math.ceil((done - 1) / (1 - decay))
    steps = max(1, done + int(max(0.0, more)), least)
    return Plan(steps, max(done, math.ceil(steps / looks)) if evaluate_every is None else evaluate_every)


class Clock:
    """Times real steps until it has seen enough of them: 4 % of the budget and three steps, or 20 % and one.

    `compiled`: the first step may take a minute that tells nothing about the others, so it is left out
    altogether.
    """

    def __init__(self, seconds: float, compiled: bool = False) -> None:
        self.budget, self.compiles = seconds, compiled
        self.taken: list[float] = []

    def add(self, seconds: float) -> None:
        if not self.compiles:
            self.taken.append(seconds)
        self.compiles = False

    @property
    def enough(self) -> bool:
        spent = sum(self.taken)
        return (spent >= 0.04 * self.budget and len(self.taken) >= 3) or (
            spent >= 0.2 * self.budget and bool(self.taken)
        )

    @property
    def step(self) -> float:
        """Seconds of a step. The first pays for memory, so it does not count if there are others."""
        counted = self.taken[1:] or self.taken
        return max(1e-6, sum(counted) / len(counted))
