"""Dropout and other chance in a slice of a batch: each row draws what it would draw in the whole batch.

All processes have the same seed. Where a layer draws numbers for its rows, a process draws those of the whole
batch and keeps those of its own rows. So two processes learn exactly what one would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import _engine_run_backward
from torch.overrides import TorchFunctionMode

from regard.attention.dropout import apply_dropout, draw_kept
from regard.nn.drop_path import Runs, draw_rows, draw_rows_of

SHAPED = {torch.rand, torch.randn}  # called with a shape
LIKE = {torch.rand_like: torch.rand, torch.randn_like: torch.randn}
DROPOUTS = {torch.dropout, torch.nn.functional.dropout}
OWN = 1_000_003  # apart from the seeds of others


class GlobalDraws(TorchFunctionMode):
    """axes: where each axis of a slice lies in the whole batch, by its size here.

    A draw along no such axis is the same for all (one number for the batch). Of this rank's own are a shuffle
    within the batch, and dropout along no such axis: of rows that are sorted by their expert, say."""

    def __init__(self, axes: Mapping[int, tuple[int, int]], seed: int) -> None:
        super().__init__()
        self.axes, self.seed = dict(axes), seed * OWN % 2**63
        self.own = torch.Generator().manual_seed(self.seed)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in SHAPED and kwargs.get("generator") is None:
            return self._draw(func, _shape(args, kwargs), _but_shape(kwargs))
        if func in LIKE:
            return self._draw(LIKE[func], list(args[0].shape), _like(args[0], kwargs))
        if func is torch.randint and kwargs.get("generator") is None:
            *limits, shape = args if "size" not in kwargs else (*args, kwargs["size"])
            draw = partial(_draw_integers, limits)
            return self._draw(draw, list(shape), _but_shape(kwargs))
        if func is apply_dropout:
            return self._drop(*args, **kwargs)
        if func is draw_rows_of:
            return self._draw_rows(*args, **kwargs)
        if func in DROPOUTS:
            return self._drop_evenly(*args, **kwargs)
        if func is torch.nn.functional.dropout2d:
            return self._drop_channels(*args, **kwargs)
        if func is torch.Tensor.backward:
            return self._backward(*args)
        if func is torch.randperm and kwargs.get("generator") is None:
            return func(*args, **kwargs, generator=self.own)
        return func(*args, **kwargs)

    def _backward(self, loss: Tensor) -> None:
        """The backward pass with this mode on: what is computed once more there must draw the same again. (torch
        turns a mode off while it handles a function, and all of the backward pass is one.)"""
        with self:
            _engine_run_backward(
                (loss,),
                (torch.ones_like(loss),),
                False,
                False,
                (),
                allow_unreachable=True,
                accumulate_grad=True,
            )

    def _place(self, shape: Sequence[int]) -> tuple[int, int, int] | None:
        """The axis that lies in the whole batch, where it begins there, and how long it is there."""
        for axis, size in enumerate(shape):
            if size in self.axes:
                return axis, *self.axes[size]
        return None

    def _draw(self, func: Callable[..., Tensor], shape: Sequence[int], how: dict[str, Any]) -> Tensor:
        place = self._place(shape)
        if place is None:
            return func(*shape, **how) if len(shape) else func((), **how)
        axis, first, total = place
        whole = [*shape]
        whole[axis] = total
        return func(*whole, **how).narrow(axis, first, shape[axis]).contiguous()

    def _drop(self, x: Tensor, share: float, training: bool = True) -> Tensor:
        place = self._place(x.shape)
        if place is None:
            return draw_kept(x, share, generator=self._branch())
        axis, first, total = place
        whole = [*x.shape]
        whole[axis] = total
        return draw_kept(x, share, whole, (axis, first))

    def _branch(self) -> torch.Generator:
        """A generator of this rank's own, at this moment: the same again where this is computed once more."""
        moment = int(torch.randint(2**62, ()))  # the same on all ranks
        return torch.Generator().manual_seed(moment ^ self.seed)

    def _drop_evenly(
        self, input: Tensor, p: float = 0.5, training: bool = True, train: Any = None, inplace: bool = False
    ) -> Tensor:
        """torch's own dropout."""
        if not (training if train is None else train) or not 0 < p < 1:
            return torch.dropout(input, p, False) if p < 1 else input * 0
        place = self._place(input.shape)
        if place is None:
            return torch.dropout(input, p, True)
        axis, first, total = place
        whole = [*input.shape]
        whole[axis] = total
        mask = torch.dropout(input.new_ones(whole), p, True).narrow(axis, first, input.shape[axis])
        return input * mask

    def _drop_channels(
        self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        place = self._place(input.shape[:1])
        if not training or place is None:
            return torch.nn.functional.dropout2d(input, p, training)
        _, first, total = place
        ones = input.new_ones(total, input.shape[1], 1, 1)
        return input * torch.nn.functional.dropout2d(ones, p, True)[first : first + len(input)]

    def _draw_rows(self, x: Tensor, drop_path: float) -> Runs:
        place = self._place(x.shape[:1])
        if place is None:
            return draw_rows(len(x), drop_path)
        _, first, total = place
        last = first + len(x)
        mine = [(max(run.start, first), min(run.stop, last)) for run in draw_rows(total, drop_path)]
        return tuple(slice(start - first, stop - first) for start, stop in mine if start < stop)


def _draw_integers(limits: Sequence[Any], *shape: Any, **how: Any) -> Tensor:
    size = [] if shape == ((),) else [*shape]
    found: Tensor = torch.randint(*limits, size, **how)  # type: ignore[call-overload]
    return found


def _like(x: Tensor, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """As this tensor, unless something else is asked for."""
    given = {name: value for name, value in kwargs.items() if value is not None}
    return {"dtype": x.dtype, "device": x.device} | given


def _shape(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[int]:
    given = kwargs.get("size", args)
    if len(given) == 1 and not isinstance(given[0], int):
        given = given[0]
    return [int(each) for each in given]


def _but_shape(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name not in ("size", "generator")}
