"""Output i does not depend on inputs after i."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import torch
from torch import Tensor

from regard.symmetry.align import Indexed, Match
from regard.symmetry.law import Law, Trial, torch_generator
from regard.symmetry.parts import along_tokens, others_along_tokens
from regard.symmetry.roles import Inputs
from regard.symmetry.subject import CannotTell, Subject

WORK = 2e10  # multiplications that trying every cut may take


class Causality(Law):
    """What comes after a cut is changed, with all that runs along it, and nothing up to the cut may change.

    A mask may leak in few places only: at the ends of chunks, beyond a window. So all cuts are tried where
    that takes little work, and otherwise those at and around powers of two.
    """

    name = "causality"
    counts = False

    def applies(self, subject: Subject) -> bool:
        return subject.roles.stream is not None and subject.follows

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        stream = subject.stream
        subject.require_clear()
        if not subject.follows:
            raise CannotTell(
                f"the output {tuple(subject.output.shape)} does not follow the tokens {stream.tokens!r}, "
                "so there is no "
                "output i; if it follows another input, name that first in Roles(streams=...)"
            )
        if max(subject.lengths) < 2:
            raise CannotTell("one token has no future; give more of them")
        idle = count <= 3  # nobody relies on it
        for k, n in enumerate(subject.lengths):
            inputs = subject.sized(subject.inputs, n)
            if subject.work(n) > WORK and subject.rows(inputs) is not None:
                inputs = subject.picked(inputs, [0])
            cuts = _cuts(n, every=not idle and subject.work(n) * n < WORK)
            if idle:
                cuts = [each for each in (n // 2, n - 2, 0) if 0 <= each < n - 1][: count - (k == 0)]
            for last in cuts:
                changed = _changed_after(subject, inputs, last, torch_generator(random))
                seen = torch.arange(last + 1)
                yield Trial(
                    f"other inputs after {last} of {n}",
                    inputs,
                    changed,
                    Indexed(tokens=Match(n, seen, n, seen), future=True),
                    along_tokens(subject, seen, seen),
                    others_along_tokens(seen, seen),
                )


def _cuts(n: int, every: bool) -> list[int]:
    """The last tokens that are left alone, the most telling first."""
    first = [n // 2, n - 2, 0]
    powers = [2**k for k in range(1, n.bit_length() + 1)]
    around = [power + step for power in powers for step in (-1, 0, -2)]
    rest = range(n - 1) if every else ()
    return [last for last in dict.fromkeys([*first, *around, *rest]) if 0 <= last < n - 1]


def _changed_after(subject: Subject, inputs: Inputs, last: int, draw: torch.Generator) -> Inputs:
    """Other values after a token: its own, and those of all inputs that run along; what is true or false
    stays."""
    stream = subject.stream
    out = dict(inputs)
    for name in (stream.tokens, *stream.along):
        x = inputs.get(name)
        if not isinstance(x, Tensor) or x.dtype == torch.bool:
            continue
        axis = stream.axis if name == stream.tokens else 1
        n = x.shape[axis]
        future = (torch.arange(n) > last).to(x.device).view([n if k == axis else 1 for k in range(x.dim())])
        out[name] = torch.where(future, subject.other_values(x, draw), x)
    return out


CAUSALITY = Causality()
