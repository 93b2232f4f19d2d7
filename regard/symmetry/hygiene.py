"""Laws of hygiene: what every good model keeps, whatever its architecture. Padding, batches, time, caches,
repetition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch
from torch import Tensor

from regard.symmetry.align import Equal, Indexed, Match
from regard.symmetry.laws import Earlier, Law, Outputs, Trial, as_they_are, torch_generator
from regard.symmetry.roles import Inputs, Stream, signature
from regard.symmetry.subject import CannotTell, Subject

ROWS = 3  # of a batch


class Reordering(Law):
    """Tokens move together with their places: each output moves along with its token."""

    name = "reordering"
    counts = False

    def applies(self, subject: Subject) -> bool:
        return subject.roles.stream is not None and subject.roles.stream.places is not None

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        stream = subject.stream
        for k in range(count):
            n = subject.lengths[-1] if k else subject.lengths[0]
            inputs = subject.placed(subject.sized(subject.inputs, n), stream)
            order = torch.tensor(random.sample(range(n), n))
            align = Indexed(tokens=Match(n, order, n, torch.arange(n)))
            what = (
                "tokens and places in the order "
                + " ".join(map(str, order.tolist()[:8]))
                + (" …" if n > 8 else "")
            )
            yield Trial(
                what,
                inputs,
                subject.taken(inputs, stream, order),
                align,
                _along_tokens(subject, order, torch.arange(n)),
            )


class Padding(Law):
    """Nothing depends on what padding holds, or on how much of it there is."""

    name = "padding"

    def applies(self, subject: Subject) -> bool:
        masked = any(s.mask is not None for s in subject.roles.streams)
        return masked or bool(subject.roles.streams and _unclear_masks(subject))

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        streams = [s for s in subject.roles.streams if s.mask is not None]
        if not streams:
            unclear = _unclear_masks(subject)
            if unclear:
                raise CannotTell(
                    f"it is not known what {unclear[0]!r} means; say it with Stream(mask=..., hides=...)"
                )
            raise CannotTell("the model takes no mask of real tokens")
        for stream in streams:
            n = subject.lengths_of(stream)[-1]
            for k in range(max(2, count // len(streams))):
                side = stream.sides[k % len(stream.sides)]
                yield self.trial(subject, stream, n, side, k // len(stream.sides), random)

    def trial(self, subject: Subject, stream: Stream, n: int, side: str, kind: int, random: Random) -> Trial:
        """One row among others: alone and unpadded beside it in a batch, or beside other junk in the same
        places."""
        draw, row = torch_generator(random), kind % ROWS
        base = subject.more_rows(subject.sized(subject.inputs, n, stream), ROWS, draw)
        lengths = [max(1, n - 2), n, max(1, n // 2)]
        extra = (4, 1, 0, 7)[kind % 4]
        batch = _padded(subject, base, stream, lengths, n + extra, side, draw)
        length, size = lengths[row], n + extra
        if side == "right":
            there = torch.arange(length)
        else:
            there = torch.arange(size - length, size)
        if kind % 2:
            other = _padded(subject, base, stream, lengths, size, side, torch_generator(random))
            align = Indexed(
                Match(size, there, size, there), Match(ROWS, torch.tensor([row]), ROWS, torch.tensor([row]))
            )
            what = f"other values in the padding at the {side} of row {row}"
            return Trial(what, batch, other, align, _of_row(subject, stream, row, row, there, there))
        alone = subject.masked(
            subject.sized(subject.picked(base, [row]), length, stream),
            stream,
            torch.ones(1, length, dtype=torch.bool),
        )
        if stream.places is not None and side == "left":
            alone = subject.placed(alone, stream)
        here = torch.arange(length)
        align = Indexed(
            Match(length, here, size, there), Match(1, torch.tensor([0]), ROWS, torch.tensor([row]))
        )
        what = f"row of {length} alone, and padded at the {side} to {size} among rows of {', '.join(map(str, lengths))}"
        return Trial(what, alone, batch, align, _of_row(subject, stream, 0, row, here, there))


def _unclear_masks(subject: Subject) -> list[str]:
    """Inputs that look like masks and of which nothing is said."""
    return [
        p.name
        for p in signature(subject.model)
        if "mask" in p.name and p.name not in ("head_mask", "attn_mask", "src_mask")
    ]


def _padded(
    subject: Subject,
    base: Inputs,
    stream: Stream,
    lengths: list[int],
    size: int,
    side: str,
    draw: torch.Generator,
) -> Inputs:
    """A batch whose rows are cut to these lengths and padded to one size with values drawn anew."""
    n = subject.length(base, stream)
    out = dict(base)
    slots = torch.arange(size)
    real = torch.stack([slots < length if side == "right" else slots >= size - length for length in lengths])
    source = torch.stack(
        [slots % n if side == "right" else (slots - (size - length)) % n for length in lengths]
    )  # b size
    for name, x in base.items():
        if isinstance(x, Tensor):
            axis = subject.token_axis(name, x, stream)
        else:
            axis = None
        if axis is None or name in (stream.mask, stream.places):
            continue
        x = x if axis == 1 else x.transpose(0, 1)  # b n ...
        index = (
            source.to(x.device).view(*source.shape, *[1] * (x.dim() - 2)).expand(*source.shape, *x.shape[2:])
        )
        wide = x.gather(1, index)
        if name == stream.tokens:
            keep = real.to(x.device).view(*real.shape, *[1] * (x.dim() - 2))
            wide = torch.where(keep, wide, subject.other_values(wide, draw))
        out[name] = wide if axis == 1 else wide.transpose(0, 1)
    if stream.places is not None and (side == "left" or base.get(stream.places) is not None):
        out[stream.places] = (real.cumsum(1) - 1).clamp(min=0).to(base[stream.tokens].device)
    return subject.masked(out, stream, real)


class Neighbours(Law):
    """A row does not depend on the other rows of its batch."""

    name = "neighbours"

    def applies(self, subject: Subject) -> bool:
        return subject.rows(subject.inputs) is not None

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        for k in range(count):
            inputs = subject.inputs
            if subject.roles.stream is not None:
                inputs = subject.sized(inputs, subject.lengths[0] if k == 0 else subject.lengths[-1])
            batch = subject.more_rows(inputs, ROWS, torch_generator(random))
            row = k % ROWS
            rows = torch.tensor([row])
            stream = subject.roles.stream
            if k % 4 == 3 and stream is not None and stream.mask is not None and subject.length(batch) > 3:
                yield self.beside_shorter(subject, batch, stream, row)
            elif k % 2 == 0:
                alone = subject.picked(batch, [row])
                align = Indexed(rows=Match(1, torch.tensor([0]), ROWS, rows))
                yield Trial(
                    f"row {row} alone, and among {ROWS}", alone, batch, align, _rows_of(subject, 0, row)
                )
            else:
                changed = subject.with_other_rows(batch, row, torch_generator(random))
                align = Indexed(rows=Match(ROWS, rows, ROWS, rows))
                yield Trial(
                    f"other rows beside row {row}", batch, changed, align, _rows_of(subject, row, row)
                )

    def beside_shorter(self, subject: Subject, batch: Inputs, stream: Stream, row: int) -> Trial:
        """A padded row among rows that have no padding, and among rows that have as much of it."""
        n = subject.length(batch)
        kept = torch.arange(n - 2)
        shorter = (torch.arange(n) < n - 2).expand(ROWS, n)
        longer = shorter | (torch.arange(ROWS) != row)[:, None]
        first, second = (subject.masked(batch, stream, real) for real in (longer, shorter))
        rows = torch.tensor([row])
        align = Indexed(Match(n, kept, n, kept), Match(ROWS, rows, ROWS, rows))
        outputs = _of_row(subject, stream, row, row, kept, kept)
        return Trial(f"row {row} of {n - 2} among rows of {n}, and of {n - 2}", first, second, align, outputs)


class Causality(Law):
    """Output i does not depend on inputs after i."""

    name = "causality"
    counts = False

    def applies(self, subject: Subject) -> bool:
        return subject.roles.stream is not None and subject.follows

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        stream = subject.stream
        if not subject.follows:
            raise CannotTell("the output does not follow the tokens, so there is no output i")
        for k in range(count):
            n = subject.lengths[0] if k == 0 else subject.lengths[-1]
            if n < 2:
                raise CannotTell("one token has no future; give more of them")
            inputs = subject.sized(subject.inputs, n)
            if k < 3:
                last = (n // 2, n - 2, 0)[k]
            else:
                last = random.randrange(n - 1)
            seen = torch.arange(last + 1)
            x = subject.tokens(inputs)
            fresh = subject.other_values(x, torch_generator(random))
            future = (
                (torch.arange(n) > last)
                .to(x.device)
                .view([n if axis == stream.axis else 1 for axis in range(x.dim())])
            )
            align = Indexed(tokens=Match(n, seen, n, seen))
            changed = {**inputs, stream.tokens: torch.where(future, fresh, x)}
            yield Trial(
                f"other inputs after {last} of {n}",
                inputs,
                changed,
                align,
                _along_tokens(subject, seen, seen),
            )


class Cache(Law):
    """Step by step with a cache gives what all at once gives."""

    name = "cache"

    def applies(self, subject: Subject) -> bool:
        return subject.roles.step is not None

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        if subject.roles.step is None:
            raise CannotTell(
                "it needs a step function, (model, inputs of the new tokens, state or None) -> (output, "
                "state), given as Roles(step=...); see docs/check.md"
            )
        n = subject.lengths[-1]
        inputs = subject.sized(subject.inputs, n)
        if n < 3:
            raise CannotTell("too few tokens for steps; give at least three")
        middle = max(1, n // 2)
        splits = [[n - 1, 1], [1, 1], [middle, n - middle], [1] * n, [middle, 1, n - middle - 1], [2, 1, 1]]
        for split in splits[: max(2, count)]:
            pieces = [size for size in split if size]
            first = sum(pieces[:-1])
            last = first + pieces[-1]
            if last > n:
                continue
            part = torch.arange(first, last)
            align = Indexed(tokens=Match(n, part, pieces[-1], torch.arange(pieces[-1])))
            earlier, run = _steps(subject, inputs, pieces)
            if set(pieces) == {1}:
                sizes = f"{len(pieces)} steps of 1"
            else:
                sizes = "steps of " + ", ".join(map(str, pieces))
            outputs = _along_tokens(subject, part, torch.arange(pieces[-1]))
            yield Trial(f"{sizes}, seen at the last", inputs, run, align, outputs, earlier)


def _steps(
    subject: Subject, inputs: Inputs, pieces: list[int]
) -> tuple[tuple[Earlier, ...], Callable[[Any], Any]]:
    """What comes before the last piece, and the last piece itself."""
    stream, step = subject.stream, subject.roles.step
    assert step is not None
    n, cuts = subject.length(inputs), [sum(pieces[:k]) for k in range(len(pieces) + 1)]

    def taking(k: int, which: int) -> Callable[[Any], Any]:
        piece = subject.taken(inputs, stream, torch.arange(cuts[k], cuts[k + 1]))
        return lambda state: step(subject.model, piece, state)[which]

    earlier = tuple(
        Earlier(
            taking(k, 1),
            Indexed(tokens=Match(n, torch.arange(cuts[k], cuts[k + 1]), size, torch.arange(size))),
        )
        for k, size in enumerate(pieces[:-1])
    )
    return earlier, taking(len(pieces) - 1, 0)


class Determinism(Law):
    """The same input gives the same output again."""

    name = "determinism"

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        inputs = subject.inputs
        if subject.roles.stream is not None:
            inputs = subject.sized(inputs, subject.lengths[-1])
        for k in range(max(2, count // 2)):
            yield Trial(f"run {k + 2}, with nothing changed", inputs, inputs, Equal(), as_they_are)


REORDERING, PADDING, NEIGHBOURS = Reordering(), Padding(), Neighbours()
CAUSALITY, CACHE, DETERMINISM = Causality(), Cache(), Determinism()
HYGIENE: tuple[Law, ...] = (REORDERING, PADDING, NEIGHBOURS, CAUSALITY, CACHE, DETERMINISM)


# ---- which part of an output


def _along_tokens(subject: Subject, here: Tensor, there: Tensor) -> Outputs:
    """Outputs that follow the tokens are compared token by token; others as they are."""
    if not subject.follows:
        return as_they_are
    axis = subject.stream.axis

    def outputs(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return first.index_select(axis, here.to(first.device)), second.index_select(
            axis, there.to(second.device)
        )

    return outputs


def _rows_of(subject: Subject, here: int, there: int) -> Outputs:
    axis = subject.output_batch_axis

    def outputs(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return first.select(axis, here), second.select(axis, there)

    return outputs


def _of_row(subject: Subject, stream: Stream, row: int, other: int, here: Tensor, there: Tensor) -> Outputs:
    """One row of each, and of that the real tokens where the output follows this stream."""
    of_rows = _rows_of(subject, row, other)
    if not (subject.follows and stream is subject.stream):
        return of_rows

    def outputs(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        one, two = of_rows(first, second)  # the batch's axis is gone, so the tokens' axis is the first
        return one.index_select(0, here.to(one.device)), two.index_select(0, there.to(two.device))

    return outputs
