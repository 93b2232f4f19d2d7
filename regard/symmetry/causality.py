"""The laws of time: output i does not depend on inputs after i, and step by step with a cache gives what all at once
gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch
from torch import Tensor

from regard.symmetry.align import Indexed, Match
from regard.symmetry.compare import difference
from regard.symmetry.law import Earlier, Law, Trial, along_tokens, others_along_tokens, torch_generator
from regard.symmetry.model_under_test import CannotTell, Subject
from regard.symmetry.roles import Inputs

WORK = 2e10  # multiplications that trying every cut may take
CACHE_WORK = 4e10  # and going through all tokens one by one, beyond the shorter length


class Causality(Law):
    """What comes after a cut is changed, with all that runs along it, and nothing up to the cut may change.

    A mask may leak in few places only: at the ends of chunks, beyond a window. So all cuts are tried where
    that takes little work, and otherwise those at and around powers of two.
    """

    name = "causality"
    counts = False

    def applies(self, subject: Subject) -> bool:
        return subject.roles.stream is not None and (subject.follows or subject.adds > 0)

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        stream = subject.stream
        subject.require_clear()
        if subject.adds:
            raise CannotTell(
                f"the output has {subject.length(subject.inputs) + subject.adds} entries for "
                f"{subject.length(subject.inputs)} tokens; say which belong to the tokens, such as all after a start token: "
                f"Roles(read=lambda out: out[:, {subject.adds}:], streams=...)"
            )
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
                    still=True,
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


# ── step by step with a cache gives what all at once gives


class Cache(Law):
    """What is kept may be wrong after some step only, when a window is full, say: so every step is
    compared."""

    name = "cache"

    def applies(self, subject: Subject) -> bool:
        return subject.roles.step is not None

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        if subject.roles.step is None:
            raise CannotTell(
                "it needs a step function, (model, inputs of the new tokens, state or None) -> (output, "
                "state), given as Roles(step=...); see docs/check.md"
            )
        if max(subject.lengths) < 3:
            raise CannotTell("too few tokens for steps; give at least three")
        short = subject.lengths[-1]
        for n in sorted(set(subject.lengths)):
            if n < 3:
                continue
            inputs = subject.sized(subject.inputs, n)
            middle = n // 2
            splits = [[n - 1, 1], [1, 1], [middle, n - middle], [1] * n, [middle, 1, n - middle - 1], [2, 1, 1]]
            if n != short:
                splits = [[n - 1, 1], [middle, n - middle]]
                if subject.work(n) < CACHE_WORK:
                    splits.append([1] * n)
            for split in splits[: max(2, count)]:
                pieces = [size for size in split if size]
                if sum(pieces) > n:
                    continue
                if len(pieces) > 3:
                    pieces = pieces[: _worst_step(subject, inputs, pieces) + 1]
                yield _trial(subject, inputs, pieces)


def _trial(subject: Subject, inputs: Inputs, pieces: list[int]) -> Trial:
    """Of several steps, the last one is compared."""
    n, first = subject.length(inputs), sum(pieces[:-1])
    part, last = torch.arange(first, first + pieces[-1]), torch.arange(pieces[-1])
    earlier, run = _steps(subject, inputs, pieces)
    if set(pieces) == {1}:
        sizes = f"{len(pieces)} steps of 1"
    else:
        sizes = "steps of " + ", ".join(map(str, pieces))
    align = Indexed(tokens=Match(n, part, pieces[-1], last))
    return Trial(f"{sizes}, seen at the last", inputs, run, align, along_tokens(subject, part, last), earlier=earlier)


def _worst_step(subject: Subject, inputs: Inputs, pieces: list[int]) -> int:
    """The number of the step whose output is farthest from what it should be."""
    step, stream = subject.roles.step, subject.stream
    assert step is not None
    whole, state, errors, first = subject.plain(inputs), None, [], 0
    for size in pieces:
        part = torch.arange(first, first + size)
        with torch.no_grad():
            found, state = step(subject.model, subject.taken(inputs, stream, part), state)
        one, two = along_tokens(subject, part, torch.arange(size))(whole, _main(subject, found))
        errors.append(difference(one, two).error)
        first += size
    return max(range(len(errors)), key=lambda k: (errors[k], k))


def _main(subject: Subject, found: Any) -> Tensor:
    return subject.read_step(found).main


def _steps(subject: Subject, inputs: Inputs, pieces: list[int]) -> tuple[tuple[Earlier, ...], Callable[[Any], Any]]:
    """What comes before the last piece, and the last piece itself."""
    stream, step = subject.stream, subject.roles.step
    assert step is not None
    n, cuts = subject.length(inputs), [sum(pieces[:k]) for k in range(len(pieces) + 1)]

    def taking(k: int, which: int) -> Callable[[Any], Any]:
        piece = subject.taken(inputs, stream, torch.arange(cuts[k], cuts[k + 1]))
        return lambda state: step(subject.model, piece, state)[which]

    earlier = tuple(
        Earlier(taking(k, 1), Indexed(tokens=Match(n, torch.arange(cuts[k], cuts[k + 1]), size, torch.arange(size))))
        for k, size in enumerate(pieces[:-1])
    )
    return earlier, taking(len(pieces) - 1, 0)


CACHE = Cache()
