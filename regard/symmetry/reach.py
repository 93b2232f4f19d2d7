"""Two laws that are no equalities of two runs: every token must matter, and half precision must stay near."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from random import Random

import torch
from torch import Tensor

from regard.symmetry.align import Equal
from regard.symmetry.compare import difference
from regard.symmetry.law import Law, Measure, Trial, torch_generator
from regard.symmetry.model_under_test import CannotTell, Subject, first_line
from regard.symmetry.output import Output
from regard.symmetry.roles import Inputs, Stream
from regard.symmetry.state import cast, cast_tensor

REDRAWS = 4  # other values that a token is given before it is called dead
WORK = 1e10  # multiplications of what is quick
ENLARGED = 10  # weights are rounded once; what is computed from them tens of times, errors of either sign


class Reach(Law):
    """The error is the share of tokens that change nothing, whatever they are."""

    name = "reach"
    tolerance = 0.0

    def applies(self, subject: Subject) -> bool:
        return bool(subject.roles.streams)

    def measure(self, subject: Subject, random: Random, count: int, only: Container[int] | None = None) -> Measure:
        worst, longest = Measure(-1.0, "", None), 0
        for stream in subject.roles.streams:
            given = subject.length(subject.inputs, stream)
            for n in sorted({min(n, given) for n in subject.lengths_of(stream)}):
                found = _dead_tokens(subject, stream, n, random)
                longest = max(longest, n)
                if found.error > worst.error or (found.error == worst.error == 0):
                    worst = found
        return replace(worst, length=longest)


def _dead_tokens(subject: Subject, stream: Stream, n: int, random: Random) -> Measure:
    """The share of n tokens that change nothing; of many, some are tried."""
    inputs = subject.sized(subject.inputs, n, stream)
    if subject.rows(inputs) is not None:
        inputs = subject.picked(inputs, [0])
    before = subject.plain_all(inputs)
    tokens = _tried(n, subject.work(n), random)
    dead, trial = [], None
    for i in tokens:
        redraws = (_with_other_token(subject, inputs, stream, i, torch_generator(random)) for _ in range(REDRAWS))
        if not any(_differs(before, subject.run_all(changed)) for changed in redraws):
            dead.append(i)
            changed = _with_other_token(subject, inputs, stream, i, torch_generator(random))
            trial = trial or Trial(f"token {i}", inputs, changed, Equal())
    if dead:
        what = f"token{'s' * (len(dead) > 1)} {', '.join(map(str, dead[:6]))} of {n} change nothing"
    elif len(tokens) == n:
        what = f"all of {n}"
    else:
        what = f"{len(tokens)} of {n}"
    return Measure(len(dead) / len(tokens), what, trial)


def _tried(n: int, work: float, random: Random) -> list[int]:
    """Both ends, the middle, and more where a run is quick."""
    ends = {0, 1, n // 2, n - 2, n - 1} & set(range(n))
    if n <= 32 and work * n < WORK:
        return list(range(n))
    if work * 20 < WORK:
        return sorted(ends | set(random.sample(range(n), min(n, 16))))
    return sorted(ends)


def _differs(before: Output, after: Output) -> bool:
    """Does any output differ?"""
    if difference(before.main, after.main).error > 0:
        return True
    shared = before.others.keys() & after.others.keys()
    return any(difference(before.others[path], after.others[path]).error > 0 for path in shared)


def _with_other_token(subject: Subject, inputs: Inputs, stream: Stream, i: int, draw: torch.Generator) -> Inputs:
    x: Tensor = inputs[stream.tokens]
    here = (torch.arange(x.shape[stream.axis]) == i).to(x.device)
    here = here.view([-1 if axis == stream.axis else 1 for axis in range(x.dim())])
    fresh = subject.other_values(x, draw)
    return {**inputs, stream.tokens: torch.where(here, fresh * 3 if x.is_floating_point() else fresh, x)}


class Precision(Law):
    """A few tokens only: processors without units for bfloat16 multiply it a hundred times slower."""

    name = "precision"
    tolerance = 0.2  # bfloat16 keeps 8 bits: 0.4 % a rounding, and a network adds up tens of them

    def applies(self, subject: Subject) -> bool:
        return subject.output.dtype == torch.float32

    def measure(self, subject: Subject, random: Random, count: int, only: Container[int] | None = None) -> Measure:
        half = subject.in_dtype(torch.bfloat16)
        found = []
        for inputs in self.sized(subject):
            if subject.rows(inputs) is not None:
                inputs = subject.picked(inputs, [0])
            rounded = {n: cast_tensor(x, torch.bfloat16) if isinstance(x, Tensor) else x for n, x in inputs.items()}
            exact = {
                n: cast_tensor(x, subject.output.dtype) if isinstance(x, Tensor) else x for n, x in rounded.items()
            }
            try:
                less = half.run_all(rounded)
            except Exception as error:
                raise CannotTell(f"the model does not run in bfloat16: {first_line(error)}") from error
            true = subject.run_all(exact)
            apart = difference(true.main, less.main.to(true.main.dtype), None).error
            for path in true.others.keys() & less.others.keys():
                one, two = true.others[path], less.others[path]
                apart = max(apart, difference(one, two.to(one.dtype), None).error)
            length = None if subject.roles.stream is None else subject.length(inputs)
            found.append(Measure(apart, "in bfloat16", Trial("in bfloat16", exact, exact, Equal()), length=length))
        worst = max(found, key=lambda each: each.error)
        if worst.error > self.tolerance and worst.trial is not None:
            self.blame(subject, worst.trial.first, worst.error)
        return replace(worst, length=found[-1].length)

    def blame(self, subject: Subject, inputs: Inputs, error: float) -> None:
        """Is it the way of computing? A model that is as far off in float32, with only its weights rounded,
        enlarges every rounding, whatever its code does."""
        model = cast(subject.model, subject.output.dtype)
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.data = parameter.data.to(torch.bfloat16).to(parameter.dtype)
        true, other = subject.run_all(inputs), subject.anew(model=model).run_all(inputs)
        apart = difference(true.main, other.main, None).error
        for path in true.others.keys() & other.others.keys():
            apart = max(apart, difference(true.others[path], other.others[path], None).error)
        if apart > error / ENLARGED:
            raise CannotTell(
                f"in bfloat16 the error is {error:.2f}, and {apart:.2f} when only the weights are rounded: "
                "these weights enlarge any rounding"
            )

    def sized(self, subject: Subject) -> list[Inputs]:
        """A few tokens, and all where that is quick or was asked for."""
        if subject.roles.stream is None:
            return [subject.inputs]
        lengths = [subject.lengths[-1]]
        if subject.lengths[0] > lengths[0] and (subject.asked_length or subject.work(subject.lengths[0]) < WORK):
            lengths.append(subject.lengths[0])
        return [subject.sized(subject.inputs, n) for n in lengths]


PRECISION, REACH = Precision(), Reach()
