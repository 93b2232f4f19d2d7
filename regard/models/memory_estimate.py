"""Does a model fit into the memory of this machine? Asked before it is built.

A model is built once without memory, on PyTorch's meta device, and its parameters and buffers are counted.
What a system promises it may not have: a model that does not fit would be built for minutes, and then the
system would end the process, or another one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as modules
from torch.overrides import TorchFunctionMode

from regard.errors import RegardError
from regard.machine import memory_of_machine

TO_USE = 1  # times the weights: they alone
TO_TRAIN = 4  # the gradient, and two averages of it
MOST_MODULES = 50_000  # of a model: beyond, building it takes minutes
FACTORIES = ("randn", "rand")
FILLS = ("normal_", "uniform_", "erfinv_", "clamp_", "mul_", "add_", "div_", "fill_", "zero_")
SCALES = ("mul", "div", "add", "sub", "__rmul__", "__rsub__", "__rdiv__", "true_divide")


def build_within_memory(cls: Any, config: Any, *, copies: int = TO_USE) -> nn.Module:
    """A model of this class, or an error with the bytes that it would need and the option that lowers
    them."""
    check_fits(lambda: cls(config), cls.__name__, copies=copies, lower=_largest_option(config))
    model: nn.Module = cls(config)
    return model


def check_fits(make: Callable[[], nn.Module], name: str, *, copies: int, lower: str) -> None:
    """Raise if what is made does not fit. lower: what to make smaller, in words"""
    size = measure(make, name, lower) * copies
    there = memory_of_machine()
    if size > there:
        what = "to train" if copies > 1 else "for its weights"
        raise RegardError(
            f"{name} would need {size:,} bytes {what}, and this machine has {there:,}; make {lower} smaller"
        )


def measure(make: Callable[[], nn.Module], name: str = "a model", lower: str = "it") -> int:
    """The bytes of all parameters and buffers, without making them."""
    count = 0

    def one_more(*what: Any) -> None:
        nonlocal count
        count += 1
        if count > MOST_MODULES:
            raise RegardError(f"{name} would have more than {MOST_MODULES:,} modules; make {lower} smaller")

    hook = modules.register_module_module_registration_hook(one_more)
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"), OnlyShapes():
            made = make()
    finally:
        hook.remove()
    tensors = {id(tensor): tensor for tensor in (*made.parameters(), *made.buffers())}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


class OnlyShapes(TorchFunctionMode):
    """First numbers of weights are not computed: tensors without memory have none, and PyTorch would import
    its compiler for seconds to say so."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, more = getattr(func, "__name__", ""), kwargs or {}
        if name in FACTORIES:
            return torch.empty(*args, **more)
        first = args[0] if args else more.get("tensor")
        if isinstance(first, Tensor) and first.is_meta:
            if name in FILLS or getattr(func, "__module__", None) == "torch.nn.init":
                return first
            if name in SCALES and len(args) == 2 and isinstance(args[1], int | float):
                return torch.empty(first.shape, dtype=first.dtype)
        return func(*args, **more)


def _largest_option(config: Any) -> str:
    """The option of a config that is largest beside its default, or largest of all."""
    best, option = 0.0, "it"
    for field in fields(config):
        value = getattr(config, field.name)
        if type(value) is not int:
            continue
        usual = field.default if type(field.default) is int and field.default > 0 else 1024
        if field.default is MISSING:
            usual = 1024
        if value / usual > best:
            best, option = value / usual, f"--model.{field.name} ({value:,})"
    return option
