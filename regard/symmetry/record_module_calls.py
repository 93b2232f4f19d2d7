"""What passes between the modules of a model: every call with its inputs and outputs, and outputs put in
their place."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

COMPILED = "_orig_mod"  # the module inside of what torch.compile gives
Key = tuple[str, int]  # the name of a module, and which of its calls
Held = dict[str, Tensor] | None  # tensors by where they were found


@dataclass(eq=False)
class Call:
    """One call of one module."""

    key: Key
    parent: Key | None
    inputs: Held  # None: something was given that cannot be looked into
    outputs: Held = None
    children: list[Call] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.key[0]


Patch = Callable[[dict[str, Tensor]], dict[str, Tensor]]


class Calls(dict[Key, Call]):
    """All calls of one run, in the order in which they began. The first is that of the model itself."""

    def root(self) -> Call | None:
        return next(iter(self.values()), None)


@contextmanager
def record_calls(
    model: nn.Module, patches: Mapping[Key, Patch] | None = None, given: Mapping[Key, Patch] | None = None
) -> Iterator[Calls]:
    """Note every call inside the block; where there is a patch, the module's output is replaced by it, or
    what it is given."""
    calls, copies = Calls(), Copies()
    stack: list[Call] = []
    inside: list[nn.Module] = []  # whose hooks have begun, and whose forward has not
    counts: dict[str, int] = {}
    names = _names_of_modules(model)
    handles = []

    def begins(module: nn.Module, args: Any, kwargs: Any) -> Any:
        name = names[module]
        counts[name] = counts.get(name, -1) + 1
        call = Call((name, counts[name]), stack[-1].key if stack else None, _held((args, kwargs), copies))
        if stack:
            stack[-1].children.append(call)
        calls[call.key] = call
        stack.append(call)
        inside.append(module)
        patch = (given or {}).get(call.key)
        if patch is None or call.inputs is None:
            return None
        call.inputs = patch(call.inputs)
        return _rebuilt((args, kwargs), iter([x.clone() for x in call.inputs.values()]))

    def ends(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        call = stack.pop()
        call.outputs = _held(output, copies)
        patch = (patches or {}).get(call.key)
        if patch is None or call.outputs is None:
            return None
        call.outputs = patch(call.outputs)
        return _rebuilt(output, iter([x.clone() for x in call.outputs.values()]))

    def watched(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        """A forward that is called as it is, `block.forward(x)`, without the hooks of `block(x)`."""

        @functools.wraps(forward)
        def call(*args: Any, **kwargs: Any) -> Any:
            if inside and inside[-1] is module:
                inside.pop()
                return forward(*args, **kwargs)
            args, kwargs = begins(module, args, kwargs) or (args, kwargs)
            inside.pop()
            output = forward(*args, **kwargs)
            changed = ends(module, args, kwargs, output)
            return output if changed is None else changed

        return call

    own = {module: module.__dict__.get("forward") for module in names if not isinstance(module, torch.jit.ScriptModule)}
    try:
        for module, forward in own.items():
            handles.append(module.register_forward_pre_hook(begins, with_kwargs=True))
            handles.append(module.register_forward_hook(ends, with_kwargs=True))
            module.__dict__["forward"] = watched(module, forward or module.forward)
        with torch.compiler.set_stance("force_eager"):  # what is compiled as a whole calls no hooks inside
            yield calls
    finally:
        for handle in handles:
            handle.remove()
        for module, forward in own.items():
            if forward is None:
                module.__dict__.pop("forward", None)
            else:
                module.__dict__["forward"] = forward


def _names_of_modules(model: nn.Module) -> dict[nn.Module, str]:
    """Modules by their dotted names. What torch.compile puts around a module is that module."""
    return {
        module: ".".join(part for part in name.split(".") if part != COMPILED)
        for name, module in model.named_modules()
        if COMPILED not in module._modules
    }


class Copies:
    """Copies of tensors, one for each state of each: what one module gives the next one gets, and a cache
    goes to all."""

    def __init__(self) -> None:
        self.made: dict[int, tuple[weakref.ref[Tensor], int, Tensor]] = {}

    def of(self, x: Tensor) -> Tensor:
        if x.is_inference():  # its changes are not counted
            return x.detach().clone()
        whose, version, copy = self.made.get(id(x), (None, 0, x))
        if whose is None or whose() is not x or version != x._version:
            copy = x.detach().clone()
            self.made[id(x)] = (weakref.ref(x), x._version, copy)
        return copy


def _held(value: Any, copies: Copies) -> Held:
    """Copies of all tensors in a nest of containers, by where they are; None if something in it cannot be
    looked into."""
    found: dict[str, Tensor] = {}
    if _hold(value, copies, found, ""):
        return found
    return None


PLAIN = (str, bytes, int, float, complex, slice, type, torch.dtype, torch.device)
DEEPEST = 4  # objects inside objects that are looked into


def _hold(value: Any, copies: Copies, found: dict[str, Tensor], path: str, depth: int = 0) -> bool:
    if isinstance(value, Tensor):
        if value.is_nested:  # which has no shape to compare
            return False
        found[path] = copies.of(value)
        return True
    if isinstance(value, Mapping):
        return _all((_hold(each, copies, found, f"{path}.{key}", depth) for key, each in value.items()))
    if isinstance(value, list | tuple | set):
        return _all((_hold(each, copies, found, f"{path}.{i}", depth) for i, each in enumerate(value)))
    if is_dataclass(value) and not isinstance(value, type):
        return _all(_hold(getattr(value, f.name), copies, found, f"{path}.{f.name}", depth) for f in fields(value))
    if value is None or isinstance(value, PLAIN) or callable(value):
        return True
    return (
        hasattr(value, "__dict__") and depth < DEEPEST and _hold(vars(value), copies, found, path, depth + 1)
    )  # a cache, say


def _all(answers: Iterator[bool]) -> bool:
    """All are looked into, also after one that cannot be."""
    return all(list(answers))


def _rebuilt(value: Any, fresh: Iterator[Tensor]) -> Any:
    """The same nest with other tensors, in the order in which `held` found them."""
    if isinstance(value, Tensor):
        return next(fresh).to(value.dtype)
    if isinstance(value, Mapping):
        made = {key: _rebuilt(each, fresh) for key, each in value.items()}
        if not isinstance(value, dict) or type(value) is not dict:
            return type(value)(**made)
        return made
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_rebuilt(each, fresh) for each in value))
    if isinstance(value, list | tuple):
        return type(value)(_rebuilt(each, fresh) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{f.name: _rebuilt(getattr(value, f.name), fresh) for f in fields(value)})
    for _ in _held(value, Copies()) or ():  # an object that is only looked into stays as it is
        next(fresh)
    return value


class Place(NamedTuple):
    """Where a law breaks: a dotted name ("" is the model itself), whether it is exact, and why it is the place."""

    layer: str | None
    exact: bool | None
    reason: str | None
    after: bool = False  # in this module, or in one that comes after it


def also_breaks(names: Sequence[str]) -> str:
    """Who else breaks it, at the end of a reason."""
    if not names:
        return ""
    if len(names) == 1:
        return f"; {names[0]} breaks it, too"
    return f"; {names[0]} and {len(names) - 1} more break it, too"
