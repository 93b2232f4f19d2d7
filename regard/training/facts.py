"""What a checkpoint holds besides tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Facts:
    """How far a training is, and what its evaluations said."""

    step: int = 0
    seconds: float = 0.0  # spent on the run, by all processes
    evaluated: int = 0  # the step of the last evaluation
    measures: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    best_step: int | None = None
    worse: int = 0  # evaluations since the best
    last_eval: float = 0.0  # seconds at the end of the last evaluation
    # of a budget in minutes: the plan and the threads, which change only at a checkpoint
    plan: dict[str, Any] | None = None
    threads: int | None = None
