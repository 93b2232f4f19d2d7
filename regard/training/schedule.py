"""The learning rate at each step: it rises, stays constant, and falls to zero."""

from __future__ import annotations

ROUNDING = 1e-12  # of shares


def schedule(step: int, done: float, *, warmup: int, decay: float) -> float:
    """The share of the learning rate at a step, counted from 0, when the share `done` of the training is done:
    it rises for `warmup` steps, holds, and falls to zero in the last `decay` of the training.
    """
    rise = min(1.0, (step + 1) / warmup) if warmup else 1.0
    left = 1 - done
    if left >= decay - ROUNDING:
        return rise
    return min(rise, left / decay)


def last_before_decay(steps: int, decay: float) -> int:
    """The largest step at which `schedule` does not fall yet."""
    return int(steps * (1 - decay) + 1e-9)
