"""What a model gives: the tensor that counts, and all others beside it (a second head, hidden states, a loss)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from torch import Tensor

from regard.errors import RegardError

KEPT = (
    "past",
    "cache",
    "mems",
    "state",
)  # how names of what is kept for the next step begin: the law of caches
FIRST = ("logits", "last_hidden_state", "prediction_logits", "reconstruction")


@dataclass(frozen=True)
class Axes:
    """Which axis of an output counts the rows of the batch, and which the tokens; None for one that it lacks."""

    rows: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, eq=False)
class Output:
    """`main` is the tensor that counts; `others` are the other tensors of real or complex numbers, by where they
    stand."""

    main: Tensor
    others: Mapping[str, Tensor] = field(default_factory=dict)

    def clone(self) -> Output:
        return Output(self.main.clone(), {path: x.clone() for path, x in self.others.items()})

    @property
    def nbytes(self) -> int:
        return self.main.nbytes + sum(x.nbytes for x in self.others.values())


def read_output(output: Any, read: Callable[[Any], Tensor] | None = None) -> Output:
    """The tensors of what a model gives; with `read`, the one that it picks and no other."""
    if read is not None:
        return Output(read(output))
    main = main_tensor(output)
    if main is None:
        raise RegardError(
            f"the model returned {type(output).__name__}, and none of it is the tensor that counts; say which "
            "with Roles(read=...)"
        )
    others = {}
    for path, x in _tensors(output, ""):
        if x is not main and _has_numbers(x) and not path.startswith(KEPT):
            others[path] = x
    return Output(main, others)


def main_tensor(output: Any) -> Tensor | None:
    """The tensor itself, logits, the last hidden state, or the first of several; of real numbers, if there is one."""
    if isinstance(output, Mapping):
        for name in FIRST:
            if isinstance(output.get(name), Tensor):
                return output[name]
    found = [x for _, x in _tensors(output, "")]
    return next((x for x in found if _has_numbers(x)), found[0] if found else None)


def _has_numbers(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _tensors(value: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    """All tensors in a nest of containers, each with where it stands."""
    if isinstance(value, Tensor):
        yield path or "output", value
        return
    parts: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        parts = [(str(key), each) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(name, each) for name, each in zip(_names(value), value, strict=True)]
    elif is_dataclass(value) and not isinstance(value, type):
        parts = [(f.name, getattr(value, f.name)) for f in fields(value)]
    for name, each in parts:
        yield from _tensors(each, f"{path}.{name}" if path else name)


def _names(value: list[Any] | tuple[Any, ...]) -> list[str]:
    named = getattr(value, "_fields", None)
    return list(named) if named else [str(k) for k in range(len(value))]
