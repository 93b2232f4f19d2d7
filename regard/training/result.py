"""How a training ended, and its figures, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from regard.runs.figures import say_loss

# looks at the validation split without a better loss, after which a training is said to learn by heart
LOOKS_TOO_MANY = 3
SHARE_TOO_LONG = 0.25  # of all steps that came after the best, at least,
CLEARLY_WORSE = 0.05  # and the share by which the loss grew


@dataclass(frozen=True)
class Result:
    """How a training ended. `measures` are those of the last look at the validation split, `best` of the one
    published."""

    step: int  # steps done
    steps: int | None  # of how many; None: it stopped before that was decided
    reason: Literal["done", "stopped", "patience"]
    loss: float | None = None  # of the last step in this process
    measures: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    best_step: int | None = None
    seconds: float = 0.0  # over all processes that worked on the run
    notes: tuple[str, ...] = ()
    again: str = "--resume"  # how to go on
    worse: int = 0  # looks at the validation split since the best
    averaged: bool = False  # are the weights that are judged and published a running mean?

    def say(self) -> str:
        """One line for the user."""
        of = "" if self.steps is None else f" of {self.steps:,}"
        if self.best_step is not None:
            best = f"; best validation {say_measures(self.best)} at step {self.best_step:,}"
        else:
            best = ""
        if self.reason == "stopped":
            return f"stopped at step {self.step:,}{of} and saved{best}; go on with {self.again}"
        if self.reason == "patience":
            why = " because the validation loss no longer falls"
        else:
            why = ""
        return f"{self.step:,} steps in {say_time(self.seconds)}{why}{best}"

    def kept(self) -> str:
        """Which weights are in model.safetensors."""
        if self.averaged:
            weights = "the averaged weights"
        else:
            weights = "the weights"
        if self.best_step is None:
            return (
                f"kept: {weights} of step {self.step:,}, the last one; none was judged on a validation split"
            )
        last = ", the last one" if self.best_step == self.step else ""
        return f"kept: {weights} of step {self.best_step:,}{last}, which had the lowest validation loss"

    def by_heart(self) -> str | None:
        """What to know of a training whose validation got worse for long; None: it did not."""
        if (
            self.best_step is None
            or self.worse < LOOKS_TOO_MANY
            or self.step - self.best_step < SHARE_TOO_LONG * self.step
        ):
            return None
        then, now = self.best["loss"], self.measures["loss"]
        as_often_right = "accuracy" in self.best and self.measures["accuracy"] >= self.best["accuracy"]
        if now - then < CLEARLY_WORSE * abs(then) or as_often_right:
            return None
        return (
            f"note: since step {self.best_step:,} of {self.step:,} the validation loss was never as low, "
            "and rose from "
            f"{say_loss(then)} to {say_loss(now)}: what came later was learned by heart. More data, or a "
            f"smaller model, would help; --train.patience {LOOKS_TOO_MANY} stops in time"
        )

    def lines(self) -> list[str]:
        """All that is said at the end."""
        kept = [self.kept()] if self.step else []
        return [self.say(), *kept, *([note] if (note := self.by_heart()) is not None else [])]


def say_measures(measures: Mapping[str, float]) -> str:
    known: dict[str, Callable[[float], str]] = {"loss": say_loss, "accuracy": "accuracy {:.1%}".format}
    return "  ".join(
        known[name](value) if name in known else f"{name} {value:.4g}" for name, value in measures.items()
    )


def say_test(measures: Mapping[str, float], count: int | None) -> str:
    return f"test {say_measures(measures)}{'' if count is None else f'  (of {count:,})'}"


def say_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"
