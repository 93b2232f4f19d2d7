"""The parts of a law: what may be done to an input, and what must then happen to the output.

A law makes trials. A trial is two runs of the model and what of their outputs must be equal; its alignment
says the same of every tensor inside, which is how a break is located. To write a law of your own, subclass
Law and pass an object of it to `check`. The symmetries are in `laws.py`, the laws of hygiene in `hygiene.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.symmetry.align import Alignment
from regard.symmetry.compare import Difference, difference
from regard.symmetry.groups import Group
from regard.symmetry.model_under_test import CannotTell, Subject, Vacuous, first_line
from regard.symmetry.output import Axes, Output
from regard.symmetry.roles import Inputs, Stream

Pair = tuple[Tensor, Tensor]
Outputs = Callable[[Tensor, Tensor], Pair]
Others = Callable[[Axes, Tensor, Tensor], Pair | None]


def as_they_are(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    return first, second


@dataclass(frozen=True, eq=False)
class Earlier:
    """A step that has to come before the second run: what it makes of the state, and how its tensors compare
    with the first; None: they are of other inputs."""

    run: Callable[[Any], Any]
    align: Alignment | None


@dataclass(frozen=True, eq=False)
class Trial:
    """Two runs, and what of them must be equal."""

    what: str  # what was done, in words: the group element
    first: Inputs
    # inputs, or a function that runs the model itself (on the state that `earlier` steps left)
    second: Inputs | Callable[[Any], Any]
    align: Alignment
    outputs: Outputs = as_they_are  # the parts of the tensors that count that must be equal
    # the same for every other output, by its axes; None for one of which the law says nothing
    others: Others | None = None
    earlier: tuple[Earlier, ...] = ()
    refusable: bool = False  # it may be more than a model takes; then this is no trial of it
    afresh: bool = False  # the first run comes before all others
    still: bool = (
        False  # what is compared comes of the same numbers in tensors of the same shapes: rounding is the same
    )

    def state(self) -> Any:
        """What the earlier steps leave behind."""
        state = None
        for step in self.earlier:
            state = step.run(state)
        return state


class Refused(Exception):
    """A trial is more than the model takes."""


@dataclass(frozen=True, eq=False)
class Measure:
    """How far a law is from holding, and the trial that showed it."""

    error: float
    what: str
    trial: Trial | None
    absolute: float = math.nan  # the difference itself
    length: int | None = None  # the most tokens that were tried
    rows: int | None = None  # the most rows
    errors: tuple[float, ...] = ()  # of every trial, in their order


def error_of(trial: Trial, subject: Subject) -> tuple[Difference, str]:
    """The largest error, and the name of the output that shows it, if that is not the one that counts."""
    if trial.afresh:
        subject.restart()
    try:
        first = subject.plain_all(trial.first)
        second = _second_run(subject, trial)
    except Exception as error:
        if not trial.refusable:
            raise
        raise Refused(first_line(error)) from error
    return compare_outputs(trial, subject, first, second)


def compare_outputs(trial: Trial, subject: Subject, first: Output, second: Output) -> tuple[Difference, str]:
    """The largest error of all outputs; NaN where the first run gives no finite numbers to compare with."""
    axis = 1 if first.main.dim() == 4 and subject.roles.grid is not None else -1  # channels
    worst, where = difference(*trial.outputs(first.main, second.main), axis), ""
    if trial.others is None or not first.others:
        return worst, where
    for path, axes in subject.other_axes.items():
        if path not in first.others or path not in second.others:
            continue
        pair = trial.others(axes, first.others[path], second.others[path])
        found = Difference(0.0) if pair is None else difference(*pair)
        if found > worst:
            worst, where = found, path
    return worst, where


def _second_run(subject: Subject, trial: Trial) -> Output:
    if callable(trial.second):
        with torch.no_grad():
            return subject.read_step(trial.second(trial.state()))
    known = None if trial.second is trial.first else subject.recalled(trial.second)
    if known is None:
        return subject.run_all(trial.second)
    return known


class Law:
    """One promise. `kind` is "symmetry" or "hygiene"; `counts` says that it is promised by every model it
    applies to."""

    name: str
    kind: ClassVar[str] = "hygiene"
    counts: ClassVar[bool] = True
    tolerance: ClassVar[float | None] = None  # None: that of the dtype

    def applies(self, subject: Subject) -> bool:
        """Is there anything to measure for such inputs?"""
        return True

    def wanted(self, subject: Subject, symmetry: Group | None) -> bool:
        """Is it measured when nobody names the laws to be measured?"""
        return self.applies(subject)

    def declared(self, subject: Subject, symmetry: Group | None) -> str | None:
        """What the model promises: invariant, equivariant, holds, broken, not promised, or None for nothing
        said."""
        said = subject.roles.promises.get(self.name)
        if said is not None:
            return said
        if self.counts:
            return "holds"
        return None

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        """About `count` trials; CannotTell where they cannot be made."""
        raise NotImplementedError(f"the law {self.name!r} must define trials()")

    def measure(self, subject: Subject, random: Random, count: int, only: Container[int] | None = None) -> Measure:
        """The largest error of all trials, or only of those with these numbers."""
        worst, hollow, refused = Measure(-1.0, "", None), False, None
        longest: int | None = None
        rows: int | None = None
        errors = []
        for k, trial in enumerate(self.trials(subject, random, count)):
            errors.append(0.0)
            if only is not None and k not in only:
                continue
            try:
                found, where = error_of(trial, subject)
            except Refused as reason:
                refused = reason
                continue
            errors[k] = found.error
            hollow = hollow or math.isnan(found.error)
            longest = max((n for n in (longest, _tokens_in(trial, subject)) if n is not None), default=None)
            rows = max((n for n in (rows, _rows_in(trial, subject)) if n is not None), default=None)
            if found.error > worst.error:
                what = f"{trial.what}; seen in the output {where!r}" if where else trial.what
                worst = Measure(found.error, what, trial, found.absolute)
        if hollow and worst.error < math.inf:
            raise Vacuous("the output is not finite")
        if worst.trial is None:
            raise CannotTell(
                f"the model takes nothing of that kind: {refused}" if refused else "no trial could be made"
            )
        return replace(worst, length=longest, rows=rows, errors=tuple(errors))

    def __str__(self) -> str:
        return self.name


def torch_generator(random: Random) -> torch.Generator:
    """Numbers of torch that follow from those of `random`."""
    return torch.Generator().manual_seed(random.randrange(2**31))


def _tokens_in(trial: Trial, subject: Subject) -> int | None:
    """The most tokens of a trial, in any stream."""
    return max(
        (subject.length(inputs, s) for inputs in _runs_of(trial) for s in subject.roles.streams if s.tokens in inputs),
        default=None,
    )


def _rows_in(trial: Trial, subject: Subject) -> int | None:
    """The most rows of a trial."""
    return max((n for inputs in _runs_of(trial) if (n := subject.rows(inputs)) is not None), default=None)


def _runs_of(trial: Trial) -> list[Inputs]:
    return [inputs for inputs in (trial.first, trial.second) if not callable(inputs)]


# ── which part of an output a law speaks of


def along_tokens(subject: Subject, here: Tensor, there: Tensor) -> Outputs:
    """Outputs that follow the tokens are compared token by token; others as they are."""
    if not subject.follows:
        return as_they_are
    axis = subject.stream.axis

    def outputs(first: Tensor, second: Tensor) -> Pair:
        return _taken(first, axis, here), _taken(second, axis, there)

    return outputs


def others_along_tokens(here: Tensor, there: Tensor) -> Others:
    """Token by token; nothing is said of what does not follow the tokens."""

    def pair(axes: Axes, first: Tensor, second: Tensor) -> Pair | None:
        if axes.tokens is None:
            return None
        return _taken(first, axes.tokens, here), _taken(second, axes.tokens, there)

    return pair


def row_of(subject: Subject, here: int, there: int) -> Outputs:
    axis = subject.output_batch_axis

    def outputs(first: Tensor, second: Tensor) -> Pair:
        one, two = first.select(axis, here), second.select(axis, there)
        if one.shape != two.shape and not subject.follows:
            raise CannotTell(
                f"the output of a row has another shape beside other rows: {tuple(one.shape)} and {tuple(two.shape)}"
            )
        return one, two

    return outputs


def others_row_of(here: int, there: int) -> Others:
    """One row of each; nothing is said of what has no rows, such as a loss."""

    def pair(axes: Axes, first: Tensor, second: Tensor) -> Pair | None:
        if axes.rows is None:
            return None
        return first.select(axes.rows, here), second.select(axes.rows, there)

    return pair


def tokens_of_row(subject: Subject, stream: Stream, row: int, other: int, here: Tensor, there: Tensor) -> Outputs:
    """One row of each, and of that the real tokens where the output follows this stream."""
    of_rows = row_of(subject, row, other)
    if not (subject.follows and stream is subject.stream):
        return of_rows
    axis = _without(stream.axis, subject.output_batch_axis)

    def outputs(first: Tensor, second: Tensor) -> Pair:
        one, two = of_rows(first, second)
        return _taken(one, axis, here), _taken(two, axis, there)

    return outputs


def others_tokens_of_row(
    subject: Subject, stream: Stream, row: int, other: int, here: Tensor, there: Tensor
) -> Others | None:
    """The same for other outputs. Nothing is said of them where another stream than the first is padded, nor
    of what is read from the first token where padding comes before it."""
    if stream is not subject.stream:
        return None
    at_left = len(there) > 0 and int(there[0]) > 0

    def pair(axes: Axes, first: Tensor, second: Tensor) -> Pair | None:
        if axes.rows is None:
            return None
        one, two = first.select(axes.rows, row), second.select(axes.rows, other)
        if axes.tokens is None:
            return None if at_left else (one, two)
        axis = _without(axes.tokens, axes.rows)
        return _taken(one, axis, here), _taken(two, axis, there)

    return pair


def _without(axis: int, gone: int) -> int:
    """The number of an axis once another is gone."""
    return axis - 1 if axis > gone else axis


def _taken(x: Tensor, axis: int, index: Tensor) -> Tensor:
    return x.index_select(axis, index.to(x.device))
