"""In which module something happens: a stack of the calls that have begun and not ended, and what blocks put
out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks_of_all

Ended = Callable[["Call"], None]


@dataclass(eq=False)
class Call:
    """One call of one module."""

    name: str
    number: int  # which call of it
    module: nn.Module
    heard: int = 0  # attentions so far that happened in it and in no module inside it
    block: bool = False  # attention happened in it, and it is one of several of its kind


@dataclass(frozen=True, eq=False)
class State:
    """What a block put out.   usually b n d"""

    name: str
    call: int
    value: Tensor


class Calls:
    """The calls of one model and of all its modules."""

    def __init__(self, model: nn.Module, *, states: bool = False) -> None:
        self.names = {module: name for name, module in model.named_modules()}
        self.stack: list[Call] = []
        self.counts: dict[str, int] = {}
        self.states: list[State] = []
        self.wants_states = states
        self.when_ended: list[Ended] = []

    @property
    def current(self) -> Call | None:
        return self.stack[-1] if self.stack else None

    @property
    def outer(self) -> Call | None:
        """The call around the current one, or the current one if it is the outermost."""
        return self.stack[-2] if len(self.stack) > 1 else self.current

    def mark_block(self) -> None:
        """Attention happens here: of the calls around it, the innermost numbered one (`layers.3`) is its
        block."""
        numbered = [call for call in self.stack if call.name.rpartition(".")[2].isdecimal()]
        if self.stack:
            (numbered[-1] if numbered else self.stack[-1]).block = True

    def begins(self, module: nn.Module, *_: Any) -> None:
        if in_backward():  # a checkpointed part runs once more; it was heard already
            return
        name = self.names[module]
        self.counts[name] = self.counts.get(name, -1) + 1
        self.stack.append(Call(name, self.counts[name], module))

    def ends(self, module: nn.Module, *given_and_output: Any) -> None:
        if in_backward():
            return
        while self.stack:
            call = self.stack.pop()
            for ended in self.when_ended:
                ended(call)
            if call.module is module:
                value = _first_tensor(given_and_output[-1])
                if self.wants_states and call.block and value is not None:
                    self.states.append(State(call.name, call.number, copy_detached(value)))
                return

    @contextmanager
    def followed(self) -> Iterator[Calls]:
        """Follow the calls inside the block. Scripted modules take no hooks of their own, so all modules get
        one for them."""
        handles: list[Any] = []
        scripted = {module for module in self.names if isinstance(module, torch.jit.ScriptModule)}
        try:
            for module in self.names:
                if module not in scripted:
                    handles.append(module.register_forward_pre_hook(self.begins))
                    handles.append(module.register_forward_hook(self.ends, always_call=True))
            if scripted:

                def begins(module: nn.Module, given: Any) -> None:
                    if module in scripted:
                        self.begins(module)

                def ends(module: nn.Module, given: Any, output: Any) -> None:
                    if module in scripted:
                        self.ends(module, output)

                handles.append(hooks_of_all.register_module_forward_pre_hook(begins))
                handles.append(hooks_of_all.register_module_forward_hook(ends, always_call=True))
            yield self
        finally:
            for handle in handles:
                handle.remove()
            self.stack.clear()


def in_backward() -> bool:
    """Is autograd computing gradients right now?"""
    return torch._C._current_graph_task_id() != -1


def copy_detached(x: Tensor) -> Tensor:
    """An ordinary tensor of the same numbers that nobody else can change, without gradient."""
    with torch.inference_mode(False), torch.no_grad():
        return x.detach().clone()


def _first_tensor(value: Any) -> Tensor | None:
    """The first floating tensor with tokens in what a module returns."""
    if isinstance(value, Tensor):
        if value.is_floating_point() and value.dim() > 1:
            return value
        return None
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return next((found for found in map(_first_tensor, value) if found is not None), None)
    return None
