"""How a training ended: its figures and notes as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from regard.runs.best import LAST, RISING
from regard.runs.figures import say_loss, say_measure
from regard.runs.trend import TOO_MANY, has_overfitted, is_still_falling


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
    worse: int = 0  # evaluations since the best
    keep: str = "loss"  # the measure by which the best was chosen
    averaged: bool = False  # are the saved weights a moving average?
    before: float | None = None  # validation loss of the evaluation before the last
    minutes: float | None = None  # the budget, if it was given in minutes
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
            why = (
                f" because the validation {self.keep} no longer {'rises' if self.keep in RISING else 'falls'}"
            )
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
        return f"kept: {weights} of step {self.best_step:,}{last}, which had the {self._best()}"

    def _best(self) -> str:
        """What decided which weights were kept."""
        return f"{'highest' if self.keep in RISING else 'lowest'} validation {self.keep}"

    def overfitting(self) -> str | None:
        """A note if the validation loss rose for long; None: it did not."""
        if self.best_step is None or not has_overfitted(
            self.best, self.measures, since=self.worse, best_step=self.best_step, step=self.step
        ):
            return None
        then, now = self.best["loss"], self.measures["loss"]
        return (
            f"note: overfitted since step {self.best_step:,} of {self.step:,}, which had the {self._best()}: the "
            f"validation loss rose from {say_loss(then)} to {say_loss(now)}. More data or a smaller model would help; "
            f"--train.patience {TOO_MANY} stops in time"
        )

    def still_falling(self) -> str | None:
        """A note if the last evaluation was the best, and clearly better than the one before; None: it was
        not."""
        if self.reason != "done" or self.best_step != self.step or self.before is None:
            return None
        now = self.measures["loss"]
        if not is_still_falling(self.before, now):
            return None
        if self.minutes is None:
            more, option = "steps", f"--train.steps {3 * self.step}"
        else:
            more, option = "minutes", f"--train.minutes {3 * self.minutes:g}"
        return (
            f"note: the last evaluation was the best, and the validation loss was still falling (from "
            f"{say_loss(self.before)} to {say_loss(now)}): more {more} will help: the same command with {option}"
        )

    def lines(self) -> list[str]:
        """All lines that are printed at the end."""
        kept = [self.kept()] if self.step else []
        notes = [note for note in (self.overfitting(), self.still_falling()) if note is not None]
        return [self.say(), *kept, *notes]


def say_measures(measures: Mapping[str, float]) -> str:
    """1.8804  accuracy 87.6%: the loss, which comes after the word for its split, without its name."""
    return "  ".join(
        say_loss(value) if name == "loss" else say_measure(name, value) for name, value in measures.items()
    )


def say_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"
