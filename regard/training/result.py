"""How a training ended: its figures and notes as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from regard.runs.best_checkpoint import LAST, RISING
from regard.runs.number_format import say_loss, say_measure


@dataclass(frozen=True)
class Result:
    """How a training ended. `measures` are those of the last evaluation, `best` those of the saved
    weights."""

    step: int  # steps done
    steps: int | None  # steps planned; None: it stopped before they were known
    reason: Literal["done", "stopped", "patience"]
    loss: float | None = None  # train loss of the last step in this process
    measures: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    best_step: int | None = None
    seconds: float = 0.0  # over all processes of the run
    notes: tuple[str, ...] = ()
    again: str = "--resume"  # how to resume
    keep: str = "loss"  # the measure by which the best was chosen
    averaged: bool = False  # are the saved weights a moving average?
    advice: str | None = None  # what the history of its evaluations says about the next run
    stride: int = 1  # each evaluation took one of so many validation batches

    def say(self) -> str:
        """One line for the user."""
        of = "" if self.steps is None else f" of {self.steps:,}"
        if self.best_step is not None:
            which = "last" if self.keep == LAST else "best"
            best = f"; {which} validation {say_measures(self.best)} at step {self.best_step:,}"
        else:
            best = ""
        if self.reason == "stopped":
            return f"stopped at step {self.step:,}{of} and saved{best}; go on with {self.again}"
        if self.reason == "patience":
            why = f" because the validation {self.keep} no longer {'rises' if self.keep in RISING else 'falls'}"
        else:
            why = ""
        if self.step == 1:
            steps = "1 step"
        else:
            steps = f"{self.step:,} steps"
        return f"{steps} in {say_time(self.seconds)}{why}{best}"

    def kept(self) -> str:
        """Which weights are in model.safetensors."""
        if self.averaged:
            weights = "the averaged weights"
        else:
            weights = "the weights"
        if self.best_step is None:
            return f"kept: {weights} of step {self.step:,}, the last one; there was no evaluation on a validation split"
        if self.keep == LAST:
            return f"kept: {weights} of step {self.best_step:,}, the last that were evaluated"
        if self.best_step == self.step:
            last = ", the last one"
        else:
            last = ""
        best = "highest" if self.keep in RISING else "lowest"
        return f"kept: {weights} of step {self.best_step:,}{last}, which had the {best} validation {self.keep}"

    def lines(self) -> list[str]:
        """All lines that are printed at the end."""
        kept = [self.kept()] if self.step else []
        advice = [] if self.advice is None else [f"note: {self.advice}"]
        return [self.say(), *kept, *advice]


def say_measures(measures: Mapping[str, float]) -> str:
    """1.8804  accuracy 87.6%: a loss that comes first, after the word for its split, is without its name."""
    first = next(iter(measures), None)
    return "  ".join(
        say_loss(value) if name == first == "loss" else say_measure(name, value) for name, value in measures.items()
    )


def say_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"
