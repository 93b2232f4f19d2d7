"""Stochastic depth: in training, some examples of a batch go past a branch, more of them the deeper it
lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError

Runs = tuple[slice, ...]  # of examples that take a branch, in their order; two at most


def with_branch(
    x: Tensor,
    f: Callable[[Tensor], Tensor],
    drop_path: float = 0.0,
    *,
    onto: Tensor | None = None,
    training: bool = True,
    apart: bool = True,
) -> Tensor:
    """onto + z·f(x)/k, where z is 1 with probability k = 1 − drop_path and 0 otherwise, for each example.
    b ... -> b ...

    `onto` is x itself unless given. What would be multiplied by zero is not computed: f is given the examples
    that take it, and no others. So f must not mix them, and whatever else it reads must be the same for all;
    where it is not, `apart=False` computes all and multiplies.
    """
    stream = x if onto is None else onto
    if not training or not drop_path:
        return stream + f(x)
    grown = 1.0 / (1.0 - drop_path)
    if not apart or torch.compiler.is_compiling():  # (compiled, shapes would follow from chance)
        y = f(x)
        z = torch.rand(len(x), *(1 for _ in y.shape[1:]), device=y.device) >= drop_path
        return stream + y * (z.to(y.dtype) * grown)
    runs = draw_rows(len(x), drop_path)
    if runs == (slice(0, len(x)),):
        return torch.add(stream, f(x), alpha=grown)
    same, some = Part.apply(x, runs, 1.0, x.dtype)
    return Join.apply(same if onto is None else onto, f(some), runs, grown)


def draw_rows(count: int, drop_path: float) -> Runs:
    """Who takes a branch: as many as chance has it, one after the other from a place that chance has, too,
    and around the end.

    Examples lie in a batch in no order, so neighbours are as good as any others, and need no copies.
    """
    # on the CPU, wherever the examples are: nobody waits for a GPU
    many = int((torch.rand(count) >= drop_path).sum())
    if many == count or not many:
        if many == count:
            return (slice(0, count),)
        return ()
    first = int(torch.randint(count, ()))
    beyond = first + many - count
    if beyond <= 0:
        return (slice(first, first + many),)
    return (slice(0, beyond), slice(first, count))


class Part(torch.autograd.Function):
    """x as it is, and scale·x[runs]. Its gradient is a Join, so that what comes from both is one sum."""

    @staticmethod
    def forward(x: Tensor, runs: Runs, scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        some = x[runs[0]] if len(runs) == 1 else torch.cat([x[:0], *(x[run] for run in runs)])
        return x, (some if scale == 1.0 else some * scale).to(dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, ctx.runs, ctx.scale, _ = inputs

    @staticmethod
    def backward(ctx: Any, dx: Tensor, dsome: Tensor) -> tuple[Tensor, None, None, None]:
        return Join.apply(dx, dsome, ctx.runs, ctx.scale), None, None, None


class Join(torch.autograd.Function):
    """onto, and scale·y more in the runs. Its gradient is a Part."""

    @staticmethod
    def forward(onto: Tensor, y: Tensor, runs: Runs, scale: float) -> Tensor:
        out = onto.new_empty(onto.shape, dtype=torch.promote_types(onto.dtype, y.dtype))
        done = taken = 0
        for run in runs:
            out[done : run.start] = onto[done : run.start]
            many = run.stop - run.start
            torch.add(onto[run], y[taken : taken + many], alpha=scale, out=out[run])
            done, taken = run.stop, taken + many
        out[done:] = onto[done:]
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        onto, y, ctx.runs, ctx.scale = inputs
        ctx.dtypes = onto.dtype, y.dtype

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor, Tensor, None, None]:
        dx, dy = Part.apply(dout, ctx.runs, ctx.scale, ctx.dtypes[1])
        return dx.to(ctx.dtypes[0]), dy, None, None


def depth_schedule(drop_path: float, depth: int) -> list[float]:
    """For each of so many blocks: none in the first, `drop_path` in the last, in equal steps. A single block
    has all of it."""
    if not 0.0 <= drop_path < 1.0:
        raise RegardError(f"drop_path must be at least 0 and less than 1, got {drop_path}")
    return [drop_path * (i / (depth - 1) if depth > 1 else 1.0) for i in range(depth)]
