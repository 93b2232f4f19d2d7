"""Which part of an output a law speaks of: some of its tokens, one of its rows."""

from __future__ import annotations

from torch import Tensor

from regard.symmetry.law import Others, Outputs, Pair, as_they_are
from regard.symmetry.output import Axes
from regard.symmetry.roles import Stream
from regard.symmetry.subject import CannotTell, Subject


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
                f"the output of a row has another shape beside other rows: {tuple(one.shape)} and "
                f"{tuple(two.shape)}"
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


def tokens_of_row(
    subject: Subject, stream: Stream, row: int, other: int, here: Tensor, there: Tensor
) -> Outputs:
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
