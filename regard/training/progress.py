"""How a training goes and ends, for its observers: a bar on a terminal, lines elsewhere, metrics.jsonl, TensorBoard.
None of them changes the training."""

from __future__ import annotations

import math
import shlex
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from regard.errors import RegardError
from regard.runs.environment import shell_command
from regard.runs.evaluations import LAST, RISING
from regard.runs.number_format import say_loss, say_measures, say_time
from regard.runs.run import Run, run_group_above

FEW_STEPS = 100  # fewer hardly train a model
SHOWN = 10  # lines on steps in a log
NEWS = 0.4  # a new number of steps is told if it differs by this share from the one told before


def how_to_go_on(run: Run) -> str:
    """The command, or the Python call, that resumes a run."""
    recipe = run.config.recipe
    place = run_group_above(run.path) or run.path
    if recipe is None or run.config.given is not None:
        return f"the same call and out={str(place)!r}, resume=True"
    return shell_command(f"regard train {recipe} --resume --out {shlex.quote(str(place))}")


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
        best = why = ""
        if self.best_step is not None:
            which = "last" if self.keep == LAST else "best"
            best = f"; {which} validation {say_measures(self.best, loss='')} at step {self.best_step:,}"
        if self.reason == "stopped":
            return f"stopped at step {self.step:,}{of} and saved{best}; go on with {self.again}"
        if self.reason == "patience":
            why = f" because the validation {self.keep} no longer {'rises' if self.keep in RISING else 'falls'}"
        steps = "1 step" if self.step == 1 else f"{self.step:,} steps"
        return f"{steps} in {say_time(self.seconds)}{why}{best}"

    def kept(self) -> str:
        """Which weights are in model.safetensors."""
        weights = "the averaged weights" if self.averaged else "the weights"
        if self.best_step is None:
            return f"kept: {weights} of step {self.step:,}, the last one; there was no evaluation on a validation split"
        if self.keep == LAST:
            return f"kept: {weights} of step {self.best_step:,}, the last that were evaluated"
        last = ", the last one" if self.best_step == self.step else ""
        best = "highest" if self.keep in RISING else "lowest"
        return f"kept: {weights} of step {self.best_step:,}{last}, which had the {best} validation {self.keep}"

    def lines(self) -> list[str]:
        """All lines that are printed at the end."""
        kept = [self.kept()] if self.step else []
        advice = [] if self.advice is None else [f"note: {self.advice}"]
        return [self.say(), *kept, *advice]


class Observer:
    """Gets the events of a training. Every method is optional. Steps are numbers of finished steps: the first
    is 1."""

    def started(self, run: Run, steps: int | None, first_step: int) -> None:
        """Steps is None while a budget in minutes is being timed; `decided` follows."""

    def decided(self, steps: int, before: int | None = None) -> None:
        """A budget in minutes has so many steps. before: what an earlier plan said"""

    def stepped(self, step: int, loss: float, tokens: int, seconds: float) -> None: ...

    def evaluated(self, step: int, measures: Mapping[str, float]) -> None: ...

    def routed(self, step: int, load: Mapping[str, list[float]]) -> None:
        """In an evaluation, the share of all choices that fell on each expert, by the name of the layer."""

    def sampled(self, step: int, text: str) -> None: ...

    def saved(self, step: int) -> None: ...

    def noted(self, text: str) -> None:
        """Something the user should know."""

    def described(self, text: str) -> None:
        """The model and the data in one line, before training starts."""

    def ended(self, result: Result) -> None: ...

    def failed(self, error: BaseException) -> None:
        """Training ended with an error."""

    def working(self, text: str) -> None:
        """What is being done after training, before it takes a while."""

    def tested(self, measures: Mapping[str, float], count: int | None) -> None:
        """Measures of the saved weights on the test split, and the number of its examples, if known."""

    def concluded(self, text: str) -> None:
        """How good the model is, in one line, at the end of a training that was not stopped."""


class Ending(Observer):
    """Remembers whether a training was stopped before its end."""

    stopped = False

    def ended(self, result: Result) -> None:
        self.stopped = result.reason == "stopped"


class Metrics(Observer):
    """metrics.jsonl: a line for each step, each evaluation and each note.

    {"step": 12, "event": "step", "loss": 3.25, "tokens": 8192, "seconds": 4.1}: losses as exact floats,
    seconds since the start of the run. Lines are written now and then, and before every checkpoint.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.waiting: list[dict[str, Any]] = []
        self.given_up = False
        self.start(0, 0.0)

    def start(self, step: int, seconds: float) -> None:
        """Go on at a step, so many seconds after the run began."""
        self.step, self.flushed = step, time.perf_counter()
        self.began = self.flushed - seconds

    def stepped(self, step: int, loss: float, tokens: int, seconds: float) -> None:
        self.step = step
        self._add("step", loss=loss, tokens=tokens)
        if time.perf_counter() - self.flushed > 1.0:
            self.flush()

    def evaluated(self, step: int, measures: Mapping[str, float]) -> None:
        self.step = step
        self._add("validation", **measures)
        self.flush()

    def routed(self, step: int, load: Mapping[str, list[float]]) -> None:
        self._add("experts", load=load)

    def noted(self, text: str) -> None:
        self._add("note", text=text)

    def failed(self, error: BaseException) -> None:
        with suppress(OSError):  # the disk may be what failed
            self.flush()

    def flush(self, sync: bool = False) -> None:
        self.flushed = time.perf_counter()
        if (self.waiting or sync) and not self.given_up:
            self.run.append(self.waiting, sync)
            self.waiting = []

    def _add(self, event: str, **values: Any) -> None:
        seconds = round(time.perf_counter() - self.began, 3)
        self.waiting.append({"step": self.step, "event": event, **values, "seconds": seconds})


class Printer(Observer):
    """Prints what happens, line by line. A subclass says where, and how it shows steps."""

    shows_steps = False  # is the number of steps in sight anyway?

    def __init__(self) -> None:
        self.said: int | None = None  # the number of steps that was told last
        self.speed = Speed()
        self.told = 0.0  # when something was printed or shown

    def say(self, text: str) -> None:
        raise TypeError(f"{type(self).__name__} must define say(text)")

    def started(self, run: Run, steps: int | None, first_step: int) -> None:
        self.speed.start(steps, first_step, run.config.unit)
        if first_step and first_step == steps:
            more = f"to train more, {run.start_advice}"
            self.say(f"all {steps:,} steps of {run.path} are done; {more}")
        elif first_step:
            self.say(f"going on from step {first_step} in {run.path}")

    def decided(self, steps: int, before: int | None = None) -> None:
        self.speed.steps = steps
        if before is None:
            self._say_what_fits(steps)
        else:
            told = self.said or before
            if abs(steps - told) < NEWS * told:
                return
            how = "longer" if steps < told else "less time"
            self.say(f"steps take {how} than at first: {steps:,} fit into the budget, not {told:,}")
        self.said = steps

    def _say_what_fits(self, steps: int) -> None:
        if steps == 1:
            self.say("only one step fits into the budget; give more minutes")
        elif steps < FEW_STEPS:
            self.say(f"only {steps} steps fit into the budget, which are few; give more minutes, or --train.steps")
        elif not self.shows_steps:
            self.say(f"{steps:,} steps fit into the budget")

    def sampled(self, step: int, text: str) -> None:
        self.say(f"── sample after step {step:,} ──\n{text}\n──")

    def noted(self, text: str) -> None:
        self.say(f"note: {text}")

    def described(self, text: str) -> None:
        self.say(text)

    working = concluded = described

    def ended(self, result: Result) -> None:
        for line in result.lines():
            self.say(line)


class Lines(Printer):
    """A line now and then, for logs and pipes: about ten on steps and ten on evaluations, however long it takes, and one
    sample."""

    def __init__(self, stream: TextIO | None = None, every: float = 10.0) -> None:
        super().__init__()
        self.stream, self.every = stream, every
        self.stepped_at = self.evaluated_at = -math.inf  # the steps that were told last

    def started(self, run: Run, steps: int | None, first_step: int) -> None:
        self.stepped_at = self.evaluated_at = -math.inf
        super().started(run, steps, first_step)

    def say(self, text: str) -> None:
        self.told = time.perf_counter()
        stream = sys.stdout if self.stream is None else self.stream
        stream.write(text + "\n")
        stream.flush()

    def stepped(self, step: int, loss: float, tokens: int, seconds: float) -> None:
        self.speed.add(step, loss, tokens, seconds)
        if time.perf_counter() - self.told >= self.every and self._is_due(step, self.stepped_at):
            self.stepped_at = step
            self._say_step(step, self.speed.say())

    def evaluated(self, step: int, measures: Mapping[str, float]) -> None:
        if self._is_due(step, self.evaluated_at):
            self.evaluated_at = step
            self._say_step(step, f"validation {say_measures(measures, loss='')}")

    def sampled(self, step: int, text: str) -> None:
        if self.speed.steps in (None, step):  # the others are in the folder of the run
            super().sampled(step, text)

    def _is_due(self, step: int, told: float) -> bool:
        """Is a tenth of the steps done since the last line of its sort?"""
        steps = self.speed.steps
        return steps is None or step == steps or step - told >= steps // SHOWN

    def _say_step(self, step: int, text: str) -> None:
        of = f"/{self.speed.steps:,}" if self.speed.steps else ""
        self.say(f"step {step:,}{of}  {self.speed.say_loss()}{text}")


class Bar(Printer):
    """A progress bar: step, loss, validation, tokens per second, time left."""

    shows_steps = True

    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=console,
            refresh_per_second=4,
        )
        self.task: TaskID | None = None
        self.validation = ""

    def say(self, text: str) -> None:
        self.progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def started(self, run: Run, steps: int | None, first_step: int) -> None:
        if self.task is not None:  # of the run before, where there are several
            self.progress.remove_task(self.task)
        self.validation = ""
        name = "training" if run_group_above(run.path) is None else run.path.name
        self.task = self.progress.add_task(name, total=steps, completed=first_step, numbers="")
        self.progress.start()
        super().started(run, steps, first_step)

    def decided(self, steps: int, before: int | None = None) -> None:
        if self.task is not None:
            self.progress.update(self.task, total=steps)
        super().decided(steps, before)

    def stepped(self, step: int, loss: float, tokens: int, seconds: float) -> None:
        self.speed.add(step, loss, tokens, seconds)
        if time.perf_counter() - self.told >= 0.25:
            self._show()

    def evaluated(self, step: int, measures: Mapping[str, float]) -> None:
        self.validation = f"validation {say_measures(measures, loss='')}  "
        self._show()

    def ended(self, result: Result) -> None:
        self._show()
        self.progress.stop()
        super().ended(result)

    def failed(self, error: BaseException) -> None:
        self.progress.stop()

    def _show(self) -> None:
        self.told = time.perf_counter()
        if self.task is not None:
            numbers = f"{self.speed.say_loss()}{self.validation}{self.speed.say()}"
            self.progress.update(self.task, completed=self.speed.step, numbers=numbers)


class Board(Observer):
    """The same as TensorBoard events, in the run's folder `tensorboard`."""

    def __init__(self) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RegardError(
                "TensorBoard is not installed; use pip install 'regard[tensorboard]', or leave tensorboard out"
            ) from error
        self.make: Any = SummaryWriter
        self.writer: Any = None

    def started(self, run: Run, steps: int | None, first_step: int) -> None:
        self.writer = self.make(log_dir=str(run.path / "tensorboard"), purge_step=first_step + 1)

    def stepped(self, step: int, loss: float, tokens: int, seconds: float) -> None:
        self.writer.add_scalar("loss/training", loss, step)
        self.writer.add_scalar("tokens a second", tokens / max(seconds, 1e-9), step)

    def evaluated(self, step: int, measures: Mapping[str, float]) -> None:
        for name, value in measures.items():
            self.writer.add_scalar(f"{name}/validation", value, step)

    def routed(self, step: int, load: Mapping[str, list[float]]) -> None:
        for layer, shares in load.items():
            named = {f"expert {number}": share for number, share in enumerate(shares, 1)}
            self.writer.add_scalars(f"load of experts/{layer}", named, step)

    def sampled(self, step: int, text: str) -> None:
        self.writer.add_text("sample", text, step)

    def ended(self, result: Result) -> None:
        self.writer.close()

    def failed(self, error: BaseException) -> None:
        if self.writer is not None:
            self.writer.close()


def tell(observers: Iterable[Any], what: str, *facts: Any) -> None:
    """Tell all observers what happened; an observer without such a method is skipped."""
    for observer in observers:
        if (heard := getattr(observer, what, None)) is not None:
            heard(*facts)


def watch() -> Observer:
    """A bar on a terminal, lines elsewhere."""
    return Bar() if sys.stdout.isatty() else Lines()


class Speed:
    """Smoothed loss, tokens a second and time left."""

    def __init__(self) -> None:
        self.start(None, 0)

    def start(self, steps: int | None, first: int, unit: str = "tokens") -> None:
        self.steps, self.step, self.first, self.unit = steps, first, first, unit
        self.loss, self.tokens, self.seconds, self.began = float("nan"), 0.0, 0.0, time.perf_counter()

    def add(self, step: int, loss: float, tokens: int, seconds: float) -> None:
        fresh = self.step == self.first
        self.step = step
        self.loss = loss if fresh else 0.9 * self.loss + 0.1 * loss
        self.tokens, self.seconds = 0.98 * self.tokens + tokens, 0.98 * self.seconds + seconds

    def say_loss(self) -> str:
        """The smoothed loss and two spaces; nothing before the first step."""
        return "" if math.isnan(self.loss) else f"loss {say_loss(self.loss)}  "

    def say(self) -> str:
        rate = f"{self.tokens / self.seconds:,.0f} {self.unit}/s" if self.seconds else ""
        if not self.steps or self.step == self.first:
            return rate
        pace = (time.perf_counter() - self.began) / (self.step - self.first)  # evaluations and checkpoints included
        return f"{rate}  {say_time(pace * (self.steps - self.step))} left"
