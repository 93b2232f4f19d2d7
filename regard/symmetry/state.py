"""A model as it was: what a check does to it, and what its own forward does, is done to a copy or undone."""

from __future__ import annotations

import copy
import functools
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

DEEPEST = 5  # containers in containers, objects in objects that are looked into
CONTAINERS = (list, dict, set, deque)
WIDER = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
    "torch.FloatTensor": "torch.DoubleTensor",
    "torch.HalfTensor": "torch.DoubleTensor",
    "torch.BFloat16Tensor": "torch.DoubleTensor",
    torch.FloatTensor: torch.DoubleTensor,
    torch.HalfTensor: torch.DoubleTensor,
    torch.BFloat16Tensor: torch.DoubleTensor,
}
CASTS = {
    Tensor.float: Tensor.double,
    Tensor.half: Tensor.double,
    Tensor.bfloat16: Tensor.double,
    getattr(Tensor, "cfloat"): getattr(Tensor, "cdouble"),  # noqa: B009  (not in the stubs)
}


class Snapshot:
    """What the modules of a model hold: which modules and weights, buffers, attributes, lists and dicts, and
    objects such as a configuration. Restoring puts all of it back, into the same objects."""

    def __init__(self, model: nn.Module) -> None:
        self.weights = {id(p) for p in model.parameters()}
        self.tensors: dict[int, tuple[Tensor, Tensor]] = {}
        self.held: dict[int, tuple[Any, Any]] = {}  # a container, or the attributes of an object, with what was in it
        for module in list(model.modules()):
            self._walk(module, 0)

    def restore(self) -> None:
        """As it was when the snapshot was taken, whatever a forward has changed since."""
        for container, before in self.held.values():
            if isinstance(container, list):
                container[:] = before
            else:
                container.clear()
                container.extend(before) if isinstance(container, deque) else container.update(before)
        with torch.no_grad():
            for tensor, before in self.tensors.values():
                if tensor.shape != before.shape or tensor.dtype != before.dtype:
                    tensor.data = before.clone()
                elif not torch.equal(tensor, before):
                    tensor.copy_(before)

    def _walk(self, value: Any, depth: int) -> None:
        if isinstance(value, Tensor):
            if id(value) not in self.weights and id(value) not in self.tensors:
                self.tensors[id(value)] = (value, value.detach().clone())
            return
        if isinstance(value, tuple):
            parts: Any = value
        elif isinstance(value, CONTAINERS):
            parts = value.values() if isinstance(value, dict) else value
            if id(value) in self.held:
                return
            self.held[id(value)] = (value, value.copy())
        elif isinstance(value, nn.Module) or _is_plain_object(value):
            self._walk(vars(value), depth)
            return
        else:
            return
        if depth < DEEPEST:
            for each in list(parts):
                if not isinstance(each, nn.Module):  # each module begins a walk of its own
                    self._walk(each, depth + 1)


def _is_plain_object(value: Any) -> bool:
    """An object of somebody's class, whose attributes can be put back."""
    if isinstance(value, type | ModuleType) or callable(value):
        return False
    return type(getattr(value, "__dict__", None)) is dict


@contextmanager
def working_copy(model: nn.Module) -> Iterator[nn.Module]:
    """A copy with the same weights and everything else its own; the model itself where it cannot be copied.

    Functions that a model holds may still reach the original, so it is put back as it was in any case.
    """
    before = Snapshot(model)
    weights: dict[int, Any] = {id(p): p for p in model.parameters()}
    try:
        copied = copy.deepcopy(model, weights)
    except Exception as error:
        log_suppressed(error, "copying the model")
        copied = model
    try:
        yield copied
    finally:
        before.restore()


@contextmanager
def eval_state(model: nn.Module, *, seed: int, training: bool = False) -> Iterator[Snapshot]:
    """In eval mode (or in training with all dropout at 0), with parameters that are all equal shaken awake.

    Zero-initialised weights would hide a break. Weights, buffers, modes, attributes and random numbers are as
    before at the end, also after an exception. The snapshot given is of the model as it is inside the block.
    """
    before = Snapshot(model)
    held: dict[nn.Parameter, Tensor] = {}
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        torch.manual_seed(seed)
        try:
            for module in model.modules():
                module.training = training
                if training:
                    for name, value in list(vars(module).items()):
                        if _is_rate(name, value):
                            setattr(module, name, 0.0)
            draw = torch.Generator().manual_seed(seed)
            for parameter in model.parameters():
                if _asleep(parameter):
                    held[parameter] = parameter.detach().clone()
                    noise = torch.randn(parameter.shape, generator=draw).to(parameter)
                    parameter.add_(0.2 * noise)
            yield Snapshot(model)
        finally:
            for parameter, value in held.items():
                parameter.copy_(value)
            before.restore()


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


# ── copies in another dtype
#
# Many models cast to float32 or less on their way (norms, rotations, softmax), whatever dtype they have. In a copy
# whose rounding is to be a billion times smaller, such a cast would bring the rounding back. Complex numbers stay
# complex.


def cast(model: nn.Module, dtype: torch.dtype, widened: bool = True) -> nn.Module:
    """A copy in this dtype. Its weights are made at once in it, so that large ones are not copied twice.

    widened: in float64, also what its forward casts to less
    """
    weights: dict[int, Any] = {
        id(p): nn.Parameter(cast_tensor(p.detach(), dtype).clone(), p.requires_grad)
        for p in model.parameters()
        if type(p) is nn.Parameter and (p.is_floating_point() or p.is_complex())
    }
    copied = copy.deepcopy(model, weights)
    copied._apply(lambda x: cast_tensor(x, dtype))
    if widened and dtype == torch.float64:
        copied.forward = Inside(copied.forward)
    return copied


def cast_tensor(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Real numbers in this dtype, complex ones in the complex dtype that goes with it, others as they are."""
    if x.is_complex():
        return x.to(torch.complex128 if dtype == torch.float64 else torch.complex64)
    if x.is_floating_point():
        return x.to(dtype)
    return x


class Widened(TorchFunctionMode):
    """Inside the block, whoever asks torch for float32 or less gets float64."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = {name: _wide(value) for name, value in (kwargs or {}).items()}
        return CASTS.get(function, function)(*map(_wide, args), **named)


def _wide(value: Any) -> Any:
    return WIDER.get(value, value) if isinstance(value, torch.dtype | str | type) else value


class Inside:
    """A forward that runs inside such a block. Copied along with its module, it belongs to the copy, as a
    closure would not."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        functools.update_wrapper(self, forward)  # its signature is read by others
        self.forward = forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with Widened():
            return self.forward(*args, **kwargs)


# ── exceptions that a check suppresses, because a model may refuse what is tried with it; `regard check --debug` shows
# them all

LOG = logging.getLogger("regard.check")


def log_suppressed(error: BaseException, doing: str) -> None:
    """Say what was being done, with the traceback, to whoever listens at the level of debug."""
    LOG.debug("suppressed while %s: %s: %s", doing, type(error).__name__, error, exc_info=error)
