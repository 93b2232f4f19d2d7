"""The learning rate at each step: it rises, stays constant, and falls to zero."""

from __future__ import annotations


def schedule(step: int, steps: int | None, *, warmup: int, decay: float) -> float:
    """The share of the learning rate at a step, counted from 0: it rises for `warmup` steps, holds, and falls
    to zero in the last `decay` of all steps. While their number is not known (None) it does not fall.
    """
    rise = min(1.0, (step + 1) / warmup) if warmup else 1.0
    if steps and decay:
        fall = min(1.0, (steps - step) / (decay * steps))
    else:
        fall = 1.0
    return min(rise, fall)


def last_before_decay(steps: int, decay: float) -> int:
    """The largest step at which `schedule` does not fall yet."""
    return int(steps * (1 - decay) + 1e-9)
