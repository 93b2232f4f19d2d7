"""A model under test: its inputs by name, how to run it, and how to make other inputs of the same kind from
those given."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.symmetry.float64 import widen
from regard.symmetry.roles import Inputs, Roles, Stream, signature

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

    def run(self, inputs: Inputs) -> Tensor:
        """The tensor that counts of what the model gives."""
        with torch.no_grad():
            return self.read(self.call(inputs))

    def call(self, inputs: Inputs) -> Any:
        """model(...), by name, or by place for what its forward has no name for."""
        names, anything = self.keywords
        by_place = [
            value
            for name, value in inputs.items()
            if name not in names and (not anything or name.startswith("input "))
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

    def read(self, output: Any) -> Tensor:
        if self.roles.read is not None:
            return self.roles.read(output)
        found = main_tensor(output)
        if found is None:
            kind = type(output).__name__
            raise RegardError(
                f"the model returned {kind}, and none of it is the tensor that counts; say which with "
                "Roles(read=...)"
            )
        return found

    # ---- what is found out by running it

    def plain(self, inputs: Inputs) -> Tensor:
        """What these inputs give, or gave before: most laws begin with the same ones. Not for a model that
        draws lots."""
        known = self.recalled(inputs)
        if known is not None:
            return known
        copies = {
            name: x.clone() if isinstance(x, Tensor) else x for name, x in inputs.items()
        }  # a model may write into x
        found = self.run(inputs).clone()  # which it may write into again, the next time
        self.ran.append((copies, found))
        while len(self.ran) > 1 and sum(out.nbytes for _, out in self.ran) > REMEMBERED:
            del self.ran[0]
        return found

    def recalled(self, inputs: Inputs) -> Tensor | None:
        """What these inputs gave before, if that is still known; what is asked for is kept the longest."""
        for k, (before, found) in enumerate(self.ran):
            if _alike(before, inputs):
                self.ran.append(self.ran.pop(k))
                return found
        return None

    @cached_property
    def ran(self) -> list[tuple[Inputs, Tensor]]:
        return []

    @cached_property
    def output(self) -> Tensor:
        """What it gives for the inputs as they are."""
        return self.plain(self.inputs)

    @cached_property
    def lengths(self) -> list[int]:
        """The numbers of tokens that are tried: what was given, and one by which the tokens' axis is
        recognised."""
        return self.lengths_of(self.stream)

    def lengths_of(self, stream: Stream) -> list[int]:
        """The last one divides none of the model's sizes, so that an axis of this size can only be that of
        the tokens."""
        given = self.length(self.inputs, stream)
        sizes = {size for p in self.model.parameters() for size in p.shape if size > 1} | {
            self.rows(self.inputs) or 0
        }
        telling = [n for n in (13, 11, 17, 7, 19, 23) if all(size % n or size == 0 for size in sizes)]
        if given in telling:
            return [given]
        for n in telling:
            if n <= given or stream.places is None or self.inputs.get(stream.places) is None:
                try:
                    self.plain(self.sized(self.inputs, n, stream))
                except Exception:  # a model of one fixed size, say; then that is what is tried
                    continue
                return [given, n]
        return [given]

    @cached_property
    def follows(self) -> bool:
        """Does the output have one entry for each token? Its axis follows the number of tokens over two
        sizes."""
        if self.roles.stream is None:
            return False
        axis, given = self.roles.stream.axis, self.length(self.inputs)
        outs = {
            n: self.output if n == given else self.plain(self.sized(self.inputs, n)) for n in self.lengths
        }
        return all(out.dim() > axis and out.shape[axis] == n for n, out in outs.items())

    @property
    def short(self) -> Inputs:
        """The inputs with few tokens, for what can be seen with any number of them."""
        if self.roles.stream is None:
            return self.inputs
        return self.sized(self.inputs, self.lengths[-1])

    @property
    def output_batch_axis(self) -> int:
        if self.roles.stream is not None and self.roles.stream.axis == 0 and self.follows:
            return 1
        return 0

    # ---- other inputs of the same kind

    @property
    def stream(self) -> Stream:
        if self.roles.stream is None:
            raise CannotTell("none of the inputs is known to be tokens; say which with roles=")
        return self.roles.stream

    def tokens(self, inputs: Inputs, stream: Stream | None = None) -> Tensor:
        return inputs[(stream or self.stream).tokens]

    def length(self, inputs: Inputs, stream: Stream | None = None) -> int:
        stream = stream or self.stream
        return int(inputs[stream.tokens].shape[stream.axis])

    def rows(self, inputs: Inputs) -> int | None:
        """How many rows the batch has; None for what has none (one graph)."""
        counts = [
            inputs[name].shape[axis]
            for name in self.values(inputs)
            if (axis := self.batch_axis(name, inputs[name])) is not None
        ]
        if counts:
            return int(counts[0])
        return None

    def batch_axis(self, name: str, x: Any) -> int | None:
        """Which axis of an input counts rows."""
        if not isinstance(x, Tensor) or x.dim() == 0 or name in (self.roles.nodes, self.roles.edges):
            return None
        for stream in self.roles.streams:
            if name == stream.places and x.dim() == 1:
                return None
            if name == stream.tokens and stream.axis == 0:
                return 1
        if name == self.roles.adjacency and x.dim() == 2:
            return None
        return 0

    def token_axis(self, name: str, x: Tensor, stream: Stream) -> int | None:
        """Which axis of an input runs along the tokens of a stream, None for one that does not belong to
        it."""
        if name == stream.tokens:
            return stream.axis
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

    def taken(
        self, inputs: Inputs, stream: Stream, index: Tensor, *, but: tuple[str | None, ...] = ()
    ) -> Inputs:
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
            raise CannotTell("the places given are too few for a longer sequence")
        return out

    def placed(self, inputs: Inputs, stream: Stream) -> Inputs:
        """With places said aloud: those given, or consecutive ones."""
        if stream.places is None:
            raise CannotTell("the model takes no places; if it does, name them with Stream(places=...)")
        if inputs.get(stream.places) is not None:
            return inputs
        tokens = self.tokens(inputs, stream)
        rows = tokens.shape[1 - stream.axis]
        return {
            **inputs,
            stream.places: torch.arange(tokens.shape[stream.axis], device=tokens.device).expand(rows, -1),
        }

    def masked(self, inputs: Inputs, stream: Stream, real: Tensor) -> Inputs:
        """With a mask in the model's own convention.  real: bool b n"""
        assert stream.mask is not None
        given = inputs.get(stream.mask)
        values = ~real if stream.hides else real
        if isinstance(given, Tensor):
            integer = given.dtype
        else:
            integer = torch.bool
        if given is None and stream.mask == "attention_mask":  # as libraries with that name have it
            integer = torch.long
        return {**inputs, stream.mask: values.to(integer).to(self.tokens(inputs, stream).device)}

    def other_values(self, x: Tensor, draw: torch.Generator) -> Tensor:
        """Values that differ from x everywhere and could have been there: other ids of those seen, or other
        numbers."""
        if x.is_floating_point():
            spread = x.std() if x.numel() > 1 else x.new_tensor(1.0)
            if torch.isfinite(spread) and spread > 0:
                spread = spread
            else:
                spread = x.new_tensor(1.0)
            noise = torch.randn(x.shape, generator=draw, dtype=torch.float32).to(x.device, x.dtype)
            return x.mean() + 1.5 * spread * noise
        if x.dtype == torch.bool:
            return ~x
        pool = x.unique()
        if len(pool) < 2:
            if int(pool[0]) == 0:
                pool = torch.cat([pool, pool + 1])
            else:
                pool = torch.cat([pool - 1, pool])
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
        known = {s.tokens for s in roles.streams} | {
            name for name in (roles.grid, roles.points, roles.nodes) if name
        }
        tensors = {name for name, x in inputs.items() if isinstance(x, Tensor) and x.dim() > 0}
        return (known & tensors) or tensors

    def in_dtype(self, dtype: torch.dtype) -> Subject:
        """A copy whose weights and real-valued inputs have another dtype."""
        weights = {
            id(p): nn.Parameter(p.detach().to(dtype, copy=True), p.requires_grad)
            for p in self.model.parameters()
            if type(p) is nn.Parameter and p.is_floating_point()
        }  # made at once in their dtype, so that large ones are not copied twice
        try:
            model = copy.deepcopy(self.model, weights).to(dtype)
        except Exception as error:  # a model may hold anything
            raise CannotTell(f"the model cannot be copied in {short(dtype)}: {first_line(error)}") from error
        inputs = {
            n: x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x
            for n, x in self.inputs.items()
        }
        return self.anew(model=widen(model) if dtype == torch.float64 else model, inputs=inputs)

    def anew(self, **changes: Any) -> Subject:
        """The same with other weights, or in another mode: outputs are forgotten, and what is known of their
        shapes is not."""
        fresh = replace(self, **changes)
        shapes: dict[str, Any] = {
            name: self.__dict__[name] for name in ("lengths", "follows") if name in self.__dict__
        }
        fresh.__dict__.update(shapes)
        return fresh


def _alike(first: Inputs, second: Inputs) -> bool:
    """The same inputs, number by number."""
    if first.keys() != second.keys():
        return False
    return all(x is second[name] or _same_numbers(x, second[name]) for name, x in first.items())


def _same_numbers(x: Any, y: Any) -> bool:
    return isinstance(x, Tensor) and isinstance(y, Tensor) and x.dtype == y.dtype and torch.equal(x, y)


def main_tensor(output: Any) -> Tensor | None:
    """The tensor itself, logits, the last hidden state, or the first of several."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping):
        for name in ("logits", "last_hidden_state", "prediction_logits", "reconstruction"):
            if isinstance(output.get(name), Tensor):
                return output[name]
        return next((x for x in output.values() if isinstance(x, Tensor) and x.is_floating_point()), None)
    if isinstance(output, list | tuple):
        return next((found for x in output if (found := main_tensor(x)) is not None), None)
    return None


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    if lines:
        return f"{type(error).__name__}: {lines[0][:200]}"
    return type(error).__name__


@contextmanager
def eval_state(model: nn.Module, *, seed: int, training: bool = False) -> Iterator[None]:
    """In eval mode (or in training with all dropout at 0), with parameters that are all equal shaken awake.

    Zero-initialised weights would hide a break. Weights, buffers, modes and random numbers are as before at
    the end, also after an exception.
    """
    modes = {module: module.training for module in model.modules()}
    rates = [
        (m, name, value)
        for m in modes
        for name, value in vars(m).items()
        if training and _is_rate(name, value)
    ]
    if training:
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    else:
        buffers = {}
    held: dict[nn.Parameter, Tensor] = {}
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        torch.manual_seed(seed)
        try:
            for module in modes:
                module.training = training
            for module, name, _ in rates:
                setattr(module, name, 0.0)
            draw = torch.Generator().manual_seed(seed)
            for parameter in model.parameters():
                if _asleep(parameter):
                    held[parameter] = parameter.detach().clone()
                    noise = torch.randn(parameter.shape, generator=draw).to(parameter)
                    parameter.add_(0.2 * noise)
            yield
        finally:
            for parameter, value in held.items():
                parameter.copy_(value)
            for name, buffer in model.named_buffers():
                if name in buffers:
                    buffer.copy_(buffers[name])
            for module, name, value in rates:
                setattr(module, name, value)
            for module, mode in modes.items():
                module.training = mode


def _is_rate(name: str, value: Any) -> bool:
    """A share of something to be dropped in training, however a module calls it."""
    return isinstance(value, float) and (name == "p" or "drop" in name) and 0.0 < value <= 1.0


def _asleep(parameter: Tensor) -> bool:
    """All entries equal, so that it may hide what it will do once trained."""
    if not parameter.is_floating_point() or parameter.numel() == 0:
        return False
    if parameter.numel() == 1:
        return bool((parameter == 0).all())
    flat = parameter.detach().flatten()
    return bool(flat[0] == flat[-1]) and bool((flat == flat[0]).all())
