"""What a path holds is looked for once in a command: defaults are chosen by what is there, and then it is
read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_found: ContextVar[dict[Any, Any] | None] = ContextVar("found", default=None)


@contextmanager
def scanning_once() -> Iterator[None]:
    """Inside, functions that are marked `once` look at the same path only once. They may be nested."""
    if _found.get() is not None:
        yield
        return
    token = _found.set({})
    try:
        yield
    finally:
        _found.reset(token)


def once(function: Callable[P, T]) -> Callable[P, T]:
    """Remember what a function found for its arguments, as long as a `scanning_once` lasts; outside of one,
    nothing."""

    @wraps(function)
    def remembering(*args: P.args, **kwargs: P.kwargs) -> T:
        found = _found.get()
        if found is None:
            return function(*args, **kwargs)
        key = (function, args, tuple(sorted(kwargs.items())))
        if key not in found:
            found[key] = function(*args, **kwargs)
        result: T = found[key]
        return result

    return remembering
