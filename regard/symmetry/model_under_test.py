"""A model under test: its inputs by name, how to run it, and how to make other inputs of the same kind from
those given."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from regard.symmetry.output import Axes, Output, read_output
from regard.symmetry.roles import Inputs, Roles, Stream, signature
from regard.symmetry.state import Snapshot, cast, cast_tensor, log_suppressed

HEAVY = 1e10  # multiplications of a run that takes long
REMEMBERED = 2**28  # bytes of outputs that are kept, lest the same be computed again


class CannotTell(Exception):
    """A law cannot be measured, with the reason in words."""


class Vacuous(Exception):
    """A law that holds for no good reason: the output is constant, or not finite."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A model, inputs that it takes, and what each of them is."""

    model: nn.Module
    inputs: Inputs
    roles: Roles
    asked_length: int | None = None  # tokens that somebody asked for
    brief: bool = False  # few tokens only
    start: Snapshot | None = None  # of the model before its first run; None: not known
    writes: tuple[str, ...] = ()  # inputs that its forward changes, so it is given copies

    def run(self, inputs: Inputs) -> Tensor:
        """The tensor that counts of what the model gives."""
        return self.run_all(inputs).main

    def run_all(self, inputs: Inputs) -> Output:
        """All that the model gives."""
        with torch.no_grad():
            return self.read(self.call(inputs))

    def call(self, inputs: Inputs) -> Any:
        """model(...), by name, or by place for what its forward has no name for."""
        return self.call_with(copied(inputs) if self.writes else inputs)

    def call_with(self, inputs: Inputs) -> Any:
        """The same with these very tensors."""
        if self.roles.whole:
            return self.model(inputs)
        names, anything = self.keywords
        by_place = [
            value for name, value in inputs.items() if name not in names and (not anything or name.startswith("input "))
        ]
        by_name = {
            name: value
            for name, value in inputs.items()
            if name in names or (anything and not name.startswith("input "))
        }
        return self.model(*by_place, **by_name)

    @cached_property
    def keywords(self) -> tuple[set[str], bool]:
        """What its forward takes by name, and whether it takes any other name, too."""
        parameters = signature(self.model)
        names = {p.name for p in parameters if p.kind is not inspect.Parameter.POSITIONAL_ONLY}
        return names, any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)

    def read(self, output: Any) -> Output:
        return read_output(output, self.roles.read)

    def read_step(self, output: Any) -> Output:
        """The same for what a step function gives, which may be the tensor that counts already."""
        try:
            return self.read(output)
        except Exception as error:
            if not isinstance(output, Tensor):
                raise
            log_suppressed(error, "reading the output of a step")
            return Output(output)

    def restart(self) -> None:
        """The model as it was before its first run, which depends on nothing that was kept."""
        assert self.start is not None
        self.start.restore()
        self.ran.clear()

    # ---- what is found out by running it

    def plain(self, inputs: Inputs) -> Tensor:
        """The tensor that counts of what these inputs give, or gave before."""
        return self.plain_all(inputs).main

    def plain_all(self, inputs: Inputs) -> Output:
        """What these inputs give, or gave before: most laws begin with the same ones. Not for a model that
        draws lots."""
        known = self.recalled(inputs)
        if known is not None:
            return known
        copies = copied(inputs)  # a model may write into x
        found = self.run_all(inputs).clone()  # which it may write into again, the next time
        self.ran.append((copies, found))
        while len(self.ran) > 1 and sum(out.nbytes for _, out in self.ran) > REMEMBERED:
            del self.ran[0]
        return found

    def recalled(self, inputs: Inputs) -> Output | None:
        """What these inputs gave before, if that is still known; what is asked for is kept the longest."""
        for k, (before, found) in enumerate(self.ran):
            if _alike(before, inputs):
                self.ran.append(self.ran.pop(k))
                return found
        return None

    @cached_property
    def ran(self) -> list[tuple[Inputs, Output]]:
        return []

    @cached_property
    def output(self) -> Tensor:
        """What it gives for the inputs as they are."""
        return self.plain(self.inputs)

    @cached_property
    def lengths(self) -> list[int]:
        """The numbers of tokens that are tried: what was given, and one by which the tokens' axis is
        recognised; only this one, where few are wanted."""
        return self.lengths_of(self.stream)

    def lengths_of(self, stream: Stream) -> list[int]:
        found = self._all_lengths(stream)
        return found[-1:] if self.brief else found

    def _all_lengths(self, stream: Stream) -> list[int]:
        """The last one divides none of the model's sizes, so that an axis of this size can only be that of
        the tokens."""
        given = self.length(self.inputs, stream)
        if self.roles.unclear:  # something may have to be cut along with the tokens
            return [given]
        sizes = {size for p in self.model.parameters() for size in p.shape if size > 1} | {self.rows(self.inputs) or 0}
        telling = [n for n in (13, 11, 17, 7, 19, 23) if all(size % n or size == 0 for size in sizes)]
        telling.sort(key=lambda n: n > given)  # a model may cut off what is more than it was made for
        if given in telling:
            return [given]
        for n in telling:
            if n <= given or stream.places is None or self.inputs.get(stream.places) is None:
                try:
                    self.plain(self.sized(self.inputs, n, stream))
                except Exception as error:  # a model of one fixed size, say; then that is what is tried
                    log_suppressed(error, f"trying {n} tokens")
                    continue
                return [given, n]
        return [given]

    @property
    def follows(self) -> bool:
        """Does the output have one entry for each token? Its axis follows the number of tokens over two sizes."""
        return self.more_entries == 0

    @property
    def adds(self) -> int:
        """How many entries more than tokens the output has, such as one for a start token; 0: none, or it does not follow
        them."""
        return self.more_entries or 0

    @cached_property
    def more_entries(self) -> int | None:
        """By how much the output is longer than the tokens, the same over two sizes; None: it does not follow them."""
        if self.roles.stream is None:
            return None
        axis, given = self.roles.stream.axis, self.length(self.inputs)
        outs = {n: self.output if n == given else self.plain(self.sized(self.inputs, n)) for n in self.lengths}
        if any(out.dim() <= axis for out in outs.values()):
            return None
        more = {out.shape[axis] - n for n, out in outs.items()}
        found = more.pop()
        if more or found < 0 or (found and len(outs) == 1):  # one size alone may be so by chance
            return None
        return found

    @cached_property
    def other_axes(self) -> dict[str, Axes]:
        """What the axes of each other output count, seen over two numbers of rows and of tokens. An output of
        which that is not clear (two axes for the tokens, as in a map of weights) is left out."""
        short = self.short
        first = self.plain_all(short).others
        if not first:
            return {}
        rows, more_rows = self.rows(short), first
        if rows is not None:
            more = self.more_rows(short, rows + 1, torch.Generator().manual_seed(0))
            more_rows = self.plain_all(more).others
        tokens, more_tokens = self._with_other_length(first)
        found = {}
        for path, x in first.items():
            of_rows, of_tokens = _changed(x, more_rows.get(path)), _changed(x, more_tokens.get(path))
            if of_rows is None or of_tokens is None or max(len(of_rows), len(of_tokens)) > 1:
                continue
            if any(x.shape[k] != rows for k in of_rows) or any(x.shape[k] != tokens for k in of_tokens):
                continue
            found[path] = Axes(*(axes[0] if axes else None for axes in (of_rows, of_tokens)))
        return found

    def _with_other_length(self, short: Mapping[str, Tensor]) -> tuple[int, Mapping[str, Tensor]]:
        """The number of tokens of the short inputs, and the other outputs with another number."""
        if self.roles.stream is None:
            return 0, short
        n = self.lengths[-1]
        for other in (self.lengths[0], n - 1, n - 2, n + 1):
            if other != n and other > 0:
                try:
                    return n, self.plain_all(self.sized(self.inputs, other)).others
                except Exception as error:  # a model of one fixed size
                    log_suppressed(error, f"trying {other} tokens")
        return n, {}

    @property
    def main_axes(self) -> Axes:
        """What the axes of the tensor that counts count."""
        tokens = self.stream.axis if self.roles.stream is not None and self.follows else None
        try:
            return Axes(self.output_batch_axis, tokens)
        except CannotTell:
            return Axes(None, tokens)

    @property
    def short(self) -> Inputs:
        """The inputs with few tokens, for what can be seen with any number of them."""
        if self.roles.stream is None:
            return self.inputs
        return self.sized(self.inputs, self.lengths[-1])

    @cached_property
    def output_batch_axis(self) -> int:
        """The axis of the output that counts the rows, seen by adding one."""
        usual = 0
        if self.roles.stream is not None and self.roles.stream.axis == 0 and self.follows:
            usual = 1
        short = self.short
        rows, out = self.rows(short), self.plain(short)
        if rows is None:
            return usual
        try:
            more = self.plain(self.more_rows(short, rows + 1, torch.Generator().manual_seed(0)))
        except Exception as error:  # a model of one fixed number of rows
            log_suppressed(error, "adding a row")
            return usual
        changed = _changed(out, more)
        if changed is None or len(changed) != 1 or out.shape[changed[0]] != rows:
            raise CannotTell(
                f"with one row more the output changes from {tuple(out.shape)} to {tuple(more.shape)}: "
                "none of its axes "
                "counts the rows"
            )
        return changed[0]

    # ---- other inputs of the same kind

    @property
    def stream(self) -> Stream:
        if self.roles.stream is None:
            raise CannotTell("none of the inputs is known to be tokens; say which with roles=")
        return self.roles.stream

    def require_clear(self, *, rows_only: bool = False) -> None:
        """For what moves tokens or nodes: it must be known what moves with them; for what moves rows, which
        they are."""
        for name, why in self.roles.unclear.items():
            if name == "rows" or not rows_only:
                raise CannotTell(why)

    def tokens(self, inputs: Inputs, stream: Stream | None = None) -> Tensor:
        return inputs[(stream or self.stream).tokens]

    def length(self, inputs: Inputs, stream: Stream | None = None) -> int:
        stream = stream or self.stream
        return int(inputs[stream.tokens].shape[stream.axis])

    def work(self, n: int) -> float:
        """About how many multiplications a run of n tokens takes."""
        return 2.0 * sum(p.numel() for p in self.model.parameters()) * (self.rows(self.inputs) or 1) * n

    @cached_property
    def heavy(self) -> bool:
        """Does a run with all tokens take long?"""
        return self.roles.stream is not None and self.work(self.length(self.inputs)) > HEAVY

    def rows(self, inputs: Inputs) -> int | None:
        """How many rows the batch has; None for what has none (one graph)."""
        values = self.values(inputs)
        for name, x in inputs.items():
            axis = self.batch_axis(name, x) if name in values else None
            if axis is not None:
                return int(x.shape[axis])
        return None

    def batch_axis(self, name: str, x: Any) -> int | None:
        """Which axis of an input counts rows."""
        roles = self.roles
        if not isinstance(x, Tensor) or x.dim() == 0 or name in roles.tables or roles.edges is not None:
            return None
        if name in (roles.nodes, roles.adjacency) and x.dim() == 2:
            return None
        for stream in roles.streams:
            if name == stream.places and x.dim() == 1:
                return None
            if name == stream.tokens and stream.axis == 0:
                return 1
            if stream.axis == 0 and name in stream.along and x.dim() == self.inputs[stream.tokens].dim():
                return 1
        if name in roles.names():
            return 0
        return self.by_row.get(name)

    @cached_property
    def by_row(self) -> dict[str, int]:
        """Of inputs without a role, the axis that is as long as the batch: the first, or the second where the
        batch is second in the tokens."""
        known = [stream.tokens for stream in self.roles.streams]
        known += [name for name in (self.roles.grid, self.roles.points) if name is not None]
        tensors = {name: x for name, x in self.inputs.items() if isinstance(x, Tensor) and x.dim() > 0}
        main = next((name for name in (*known, *tensors) if name in tensors), None)
        if main is None:
            return {}
        last = any(stream.tokens == main and stream.axis == 0 for stream in self.roles.streams)
        count = tensors[main].shape[1 if last else 0]
        found = {name: 0 for name, x in tensors.items() if x.shape[0] == count}
        if last:
            alike = [name for name, x in tensors.items() if x.dim() == tensors[main].dim() and x.shape[1] == count]
            found |= dict.fromkeys(alike, 1)
        return found

    def token_axis(self, name: str, x: Tensor, stream: Stream) -> int | None:
        """Which axis of an input runs along the tokens of a stream, None for one that does not belong to
        it."""
        if name == stream.tokens:
            return stream.axis
        if name in stream.along and stream.axis == 0 and x.dim() == self.inputs[stream.tokens].dim():
            return 0
        if name in (stream.mask, *stream.along):
            return 1
        if name == stream.places:
            if x.dim() == 1:
                return 0
            return 1
        return None

    def picked(self, inputs: Inputs, rows: list[int]) -> Inputs:
        """Some rows of the batch."""
        index = torch.tensor(rows)
        found = {}
        for name, x in inputs.items():
            axis = self.batch_axis(name, x)
            found[name] = x if axis is None else x.index_select(axis, index.to(x.device))
        return found

    def taken(self, inputs: Inputs, stream: Stream, index: Tensor, *, but: tuple[str | None, ...] = ()) -> Inputs:
        """Some tokens of a stream, or all in another order, with all that runs along them except the inputs
        named in `but`."""
        out = dict(inputs)
        for name, x in inputs.items():
            if name in but or not isinstance(x, Tensor):
                axis = None
            else:
                axis = self.token_axis(name, x, stream)
            if axis is not None:
                out[name] = x.index_select(axis, index.to(x.device))
        return out

    def sized(self, inputs: Inputs, n: int, stream: Stream | None = None) -> Inputs:
        """n tokens: the first ones, or over again from the start."""
        stream = stream or self.stream
        length = self.length(inputs, stream)
        out = self.taken(inputs, stream, torch.arange(n) % length)
        places = inputs.get(stream.places) if stream.places else None
        if places is not None and n > length:  # places go on instead of starting again
            assert stream.places is not None
            out[stream.places] = _continued(places, n, axis=0 if places.dim() == 1 else 1)
        return out

    def placed(self, inputs: Inputs, stream: Stream) -> Inputs:
        """With places said aloud: those given, or consecutive ones."""
        if stream.places is None:
            raise CannotTell("the model takes no places; if it does, name them with Stream(places=...)")
        if inputs.get(stream.places) is not None:
            return inputs
        tokens = self.tokens(inputs, stream)
        rows = tokens.shape[1 - stream.axis]
        return {**inputs, stream.places: torch.arange(tokens.shape[stream.axis], device=tokens.device).expand(rows, -1)}

    def masked(self, inputs: Inputs, stream: Stream, real: Tensor) -> Inputs:
        """With a mask in the model's own convention.  real: bool b n"""
        assert stream.mask is not None
        given = inputs.get(stream.mask)
        values = ~real if stream.hides else real
        integer = given.dtype if isinstance(given, Tensor) else torch.bool
        if given is None and stream.mask == "attention_mask":  # as libraries with that name have it
            integer = torch.long
        return {**inputs, stream.mask: values.to(integer).to(self.tokens(inputs, stream).device)}

    def other_values(self, x: Tensor, draw: torch.Generator) -> Tensor:
        """Values that differ from x everywhere and could have been there: other ids of those seen, or other
        numbers."""
        if x.is_floating_point():
            spread = x.std() if x.numel() > 1 else x.new_tensor(1.0)
            if not (torch.isfinite(spread) and spread > 0):
                spread = x.new_tensor(1.0)
            noise = torch.randn(x.shape, generator=draw, dtype=torch.float32).to(x.device, x.dtype)
            return x.mean() + 1.5 * spread * noise
        if x.dtype == torch.bool:
            return ~x
        if x.is_complex():
            parts = self.other_values(torch.view_as_real(x), draw)
            return torch.view_as_complex(parts)
        pool = x.unique()
        if len(pool) < 2:
            pool = torch.cat([pool, pool + 1]) if int(pool[0]) == 0 else torch.cat([pool - 1, pool])
        place = torch.searchsorted(pool, x)
        step = torch.randint(1, len(pool), x.shape, generator=draw).to(x.device)
        return pool[(place + step) % len(pool)]

    def more_rows(self, inputs: Inputs, rows: int, draw: torch.Generator) -> Inputs:
        """At least so many different rows: those given, then others of the same kind."""
        have = self.rows(inputs)
        if have is None:
            raise CannotTell("the inputs have no batch")
        if have >= rows:
            return self.picked(inputs, list(range(rows)))
        out = self.picked(inputs, [i % have for i in range(rows)])
        for name in self.values(out):
            x, axis = out[name], self.batch_axis(name, out[name])
            if axis is not None:
                fresh = self.other_values(x, draw)
                out[name] = torch.cat([x.narrow(axis, 0, have), fresh.narrow(axis, have, rows - have)], axis)
        return out

    def with_other_rows(self, inputs: Inputs, row: int, draw: torch.Generator) -> Inputs:
        """One row as it is, all others of other values."""
        out = dict(inputs)
        for name in self.values(inputs):
            x, axis = inputs[name], self.batch_axis(name, inputs[name])
            if axis is not None:
                others = (
                    (torch.arange(x.shape[axis]) != row)
                    .to(x.device)
                    .view([-1 if k == axis else 1 for k in range(x.dim())])
                )
                out[name] = torch.where(others, self.other_values(x, draw), x)
        return out

    def values(self, inputs: Inputs) -> set[str]:
        """The inputs that say what a row is, and not where, or what is real."""
        roles = self.roles
        known = {s.tokens for s in roles.streams} | {name for name in (roles.grid, roles.points, roles.nodes) if name}
        tensors = {name for name, x in inputs.items() if isinstance(x, Tensor) and x.dim() > 0}
        return (known & tensors) or tensors

    def in_dtype(self, dtype: torch.dtype, widened: bool = True) -> Subject:
        """A copy whose weights and real-valued inputs have another dtype. widened: in float64, also what it casts to less"""
        if self.start is not None:
            self.start.restore()  # what is kept from earlier runs is not copied
        try:
            model = cast(self.model, dtype, widened)
        except Exception as error:  # a model may hold anything
            raise CannotTell(f"the model cannot be copied in {short(dtype)}: {first_line(error)}") from error
        inputs = {n: cast_tensor(x, dtype) if isinstance(x, Tensor) else x for n, x in self.inputs.items()}
        return self.anew(model=model, inputs=inputs, start=None if self.start is None else Snapshot(model))

    def anew(self, **changes: Any) -> Subject:
        """The same with other weights, or in another mode: outputs are forgotten, and what is known of their
        shapes is not."""
        fresh = replace(self, **changes)
        known = ["more_entries", "other_axes", "output_batch_axis"]
        if "brief" not in changes:
            known.append("lengths")
        shapes: dict[str, Any] = {name: self.__dict__[name] for name in known if name in self.__dict__}
        fresh.__dict__.update(shapes)
        return fresh


def copied(inputs: Inputs) -> dict[str, Any]:
    """The same numbers in tensors of their own."""
    return {name: x.clone() if isinstance(x, Tensor) else x for name, x in inputs.items()}


def _continued(places: Tensor, n: int, axis: int) -> Tensor:
    """More places than were given: the next ones, where those given are consecutive."""
    length = places.shape[axis]
    steps = places.diff(dim=axis)
    if length < 2 or places.dim() > 2 or not (steps == 1).all():
        raise CannotTell("the places given are too few for a longer sequence")
    first = places.narrow(axis, 0, 1)
    return first + torch.arange(n, device=places.device, dtype=places.dtype)


def _changed(one: Tensor, two: Tensor | None) -> list[int] | None:
    """The axes that have another size; None where the two cannot be compared."""
    if two is None or one.dim() != two.dim():
        return None
    return [k for k in range(one.dim()) if one.shape[k] != two.shape[k]]


def _alike(first: Inputs, second: Inputs) -> bool:
    """The same inputs, number by number."""
    if first.keys() != second.keys():
        return False
    return all(x is second[name] or _same_numbers(x, second[name]) for name, x in first.items())


def _same_numbers(x: Any, y: Any) -> bool:
    return isinstance(x, Tensor) and isinstance(y, Tensor) and x.dtype == y.dtype and torch.equal(x, y)


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    if lines:
        return f"{type(error).__name__}: {lines[0][:200]}"
    return type(error).__name__
