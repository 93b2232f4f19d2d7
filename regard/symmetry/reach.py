"""Two laws that are no equalities of two runs: every token must matter, and half precision must stay near."""

from __future__ import annotations

from random import Random

import torch
from torch import Tensor

from regard.symmetry.align import Equal
from regard.symmetry.laws import Law, Measure, Trial, relative, torch_generator
from regard.symmetry.roles import Inputs, Stream
from regard.symmetry.subject import CannotTell, Subject, first_line

REDRAWS = 4  # other values that a token is given before it is called dead


class Reach(Law):
    """The error is the share of tokens that change nothing, whatever they are."""

    name = "reach"
    tolerance = 0.0

    def applies(self, subject: Subject) -> bool:
        return bool(subject.roles.streams)

    def measure(self, subject: Subject, random: Random, count: int) -> Measure:
        worst = Measure(-1.0, "", None)
        for stream in subject.roles.streams:
            n = subject.lengths_of(stream)[-1]
            inputs = subject.sized(subject.inputs, n, stream)
            if subject.rows(inputs) is None:
                inputs = inputs
            else:
                inputs = subject.picked(inputs, [0])
            before = subject.plain(inputs)
            dead, trial = [], None
            if n <= 32:
                tokens = list(range(n))
            else:
                tokens = sorted({0, 1, n - 2, n - 1, *random.sample(range(n), 16)})
            for i in tokens:
                redraws = (
                    _with_other_token(subject, inputs, stream, i, torch_generator(random))
                    for _ in range(REDRAWS)
                )
                if not any(relative(before, subject.run(changed)) > 0 for changed in redraws):
                    dead.append(i)
                    changed = _with_other_token(subject, inputs, stream, i, torch_generator(random))
                    trial = trial or Trial(f"token {i}", inputs, changed, Equal())
            if dead:
                what = f"token{'s' * (len(dead) > 1)} {', '.join(map(str, dead[:6]))} of {n} change nothing"
            else:
                what = f"all of {n}"
            if len(dead) / len(tokens) > worst.error:
                worst = Measure(len(dead) / len(tokens), what, trial)
        return worst


def _with_other_token(
    subject: Subject, inputs: Inputs, stream: Stream, i: int, draw: torch.Generator
) -> Inputs:
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

    def measure(self, subject: Subject, random: Random, count: int) -> Measure:
        inputs = subject.inputs
        if subject.roles.stream is not None:
            inputs = subject.sized(inputs, subject.lengths[-1])
        if subject.rows(inputs) is not None:
            inputs = subject.picked(inputs, [0])
        half = subject.in_dtype(torch.bfloat16)
        rounded = {
            n: x.to(torch.bfloat16) if isinstance(x, Tensor) and x.is_floating_point() else x
            for n, x in inputs.items()
        }
        exact = {
            n: x.to(subject.output.dtype) if isinstance(x, Tensor) and x.is_floating_point() else x
            for n, x in rounded.items()
        }
        try:
            found = half.run(rounded)
        except Exception as error:
            raise CannotTell(f"the model does not run in bfloat16: {first_line(error)}") from error
        true = subject.run(exact)
        return Measure(
            relative(true, found.to(true.dtype)), "in bfloat16", Trial("in bfloat16", exact, exact, Equal())
        )


PRECISION, REACH = Precision(), Reach()
