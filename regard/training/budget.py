"""A plan: how many steps a budget in steps or minutes has, and when a run is evaluated."""

from __future__ import annotations

import math
from dataclasses import dataclass

EVALUATIONS = 10  # in a run, if time allows
APART = 10  # fewest steps between two evaluations, if the budget is in steps
SHARE = 0.25  # largest share of the time for evaluations
FEWEST = 8  # batches of the validation split in an evaluation, if only a part of them is evaluated
LAST = 0.05  # fewest steps that a plan still adds, as a share of those done: so the learning rate can fall


@dataclass(frozen=True)
class Plan:
    """The number of steps, when to evaluate, and the share of the training that is done at each step.

    A plan that was made after `since` steps, when the share `share` was done, spreads the rest evenly over the
    steps that are left. Schedules follow the share, so they go on from where they were.
    """

    steps: int
    evaluate_every: int | None = None  # steps between two evaluations; None: `evaluations` decides
    since: int = 0
    share: float = 0.0
    evaluations: int = EVALUATIONS  # in the whole time, evenly apart, where `evaluate_every` is None
    stride: int = 1  # every so many batches of the validation split are evaluated

    def share_done(self, step: int) -> float:
        """The share of the training that is done after so many steps."""
        if step >= self.steps:
            return 1.0
        return self.share + (1 - self.share) * (step - self.since) / (self.steps - self.since)


def by_steps(steps: int, evaluate_every: int | None) -> Plan:
    """The plan of a budget in steps. It never changes."""
    if evaluate_every is None:
        evaluate_every = max(APART, math.ceil(steps / EVALUATIONS))
    return Plan(steps, evaluate_every)


def by_time(
    budget: float,
    spent: float,
    done: int,
    *,
    step: float,
    evaluation: float,
    decay: float,
    evaluate_every: int | None = None,
    old: Plan | None = None,
) -> Plan:
    """The plan of a budget in seconds, of which `spent` have passed after `done` steps, where a step takes
    `step` seconds, an evaluation `evaluation`. old: the plan before this one

    Until the learning rate begins to fall, the share that is done is that of the time. From then on it is the
    one of the plan before, so that the learning rate never jumps.
    """
    evaluations = count_evaluations(budget, evaluation)
    left = budget - spent
    if evaluate_every is None:
        more = (left - evaluations_left(spent, budget, evaluations) * evaluation) / step
    else:
        more = (left - evaluation) / (step + evaluation / evaluate_every)
    share = 0.0 if old is None else old.share_done(done)
    if share <= 1 - decay:
        share = min(spent / budget, 1 - decay)
    least = math.ceil(LAST * done)
    if old is not None:
        least = min(least, old.steps - done)  # or a run without time would be given more steps at each plan
    steps = done + max(1, int(more), least)
    return Plan(steps, evaluate_every, done, share, evaluations, 1 if old is None else old.stride)


def count_evaluations(budget: float, evaluation: float) -> int:
    """Evaluations in `budget` seconds: `EVALUATIONS`, or what fits into its share of the time, but one at least."""
    if evaluation <= 0:
        return EVALUATIONS
    return max(1, min(EVALUATIONS, int(SHARE * budget / evaluation)))


def find_stride(budget: float, *, whole: float, extra: float, batches: int) -> int:
    """The stride with which `EVALUATIONS` evaluations fit into their share of the time, if at least `FEWEST` batches
    are evaluated then. whole: seconds for all batches, extra: for what else an evaluation does"""
    room = SHARE * budget / EVALUATIONS - extra
    if whole <= room or batches < 2 * FEWEST:
        return 1
    largest = batches // FEWEST
    return largest if room <= 0 else min(largest, math.ceil(whole / room))


def evaluations_left(spent: float, budget: float, evaluations: int) -> int:
    """Evaluations still to come after `spent` seconds, the one at the end included."""
    return max(1, evaluations - int(spent / budget * evaluations))
