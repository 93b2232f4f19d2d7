"""What a checkpoint holds besides tensors."""

from __future__ import annotations

from dataclasses import dataclass, field


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
