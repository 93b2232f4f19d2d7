"""An input as a person gave it and as a model takes it: tensors by name, what their tokens are called, what
the output means.

Views ask an input what they need to know of it. What only one kind of data can answer is answered by a
subclass in the folder of that kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from regard.data.targets import Numbers
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.look.recording.entry import Entry
    from regard.look.thumbnails import Sheets

T = TypeVar("T")
LabelFn = Callable[[int], str]  # a token id, or the number of a class -> what it is called


class Grid(NamedTuple):
    """Tokens that lie in rows and columns, after some that lie nowhere (a class token, registers)."""

    rows: int
    columns: int
    before: int


@dataclass(frozen=True)
class Tokens:
    """What the tokens along one axis are called."""

    name: str
    labels: tuple[str, ...]
    kind: Literal["text", "patches", "items"] = "text"
    grid: Grid | None = None
    words: tuple[int, ...] | None = None  # the number of the word that each is a part of; None: nobody says


@dataclass(frozen=True)
class Window:
    """One window of a layer that attends within windows: what it is called, and which token is in each of its
    slots."""

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Parts:
    """The input as parts that can be left out one by one."""

    model: nn.Module  # as a function of the parts alone
    x: Tensor  # 1 n ids, 1 n d vectors, or 1 n of how much of each is there
    name: str  # one of them: a token, a patch
    gone: str  # what happens to one that is left out, and what that means: taken out, greyed out (grey is …)
    fill: float | None = None  # what stands in its place; None: the others close up


class Removal(NamedTuple):
    """How a part of an input can be taken away, and asked what the prediction is without it."""

    # a rectangle, as top, left, bottom and right; or numbers of tokens, points or nodes
    shape: Literal["box", "group"]
    size: tuple[int, ...]  # height and width, or how many things there are
    thing: str  # it is made of
    gone: str  # what "without" means: a sentence


@dataclass(frozen=True)
class Moved:
    """The input after one group element, and where each output should come from then; None: outputs stay."""

    label: str
    input: ModelInput
    order: list[int] | None


class TokenGroups(NamedTuple):
    """The group of each token, and all groups in the order of their colours."""

    of_each: list[str]
    names: list[str]


class Action(NamedTuple):
    """Group elements of one kind that are tried on an input."""

    name: str
    sentence: str
    elements: list[Moved]


class Kept:
    """What was computed of an input, for a served page that asks again and again: the latest few, by their keys."""

    def __init__(self, most: int = 24) -> None:
        self.most = most
        self.found: dict[Any, Any] = {}

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """What `make` gives, computed once for this key."""
        if key not in self.found:
            if len(self.found) >= self.most:
                self.found.clear()
            self.found[key] = make()
        found: T = self.found[key]
        return found


@dataclass(frozen=True, kw_only=True)
class ModelInput:
    """One row of input.

    The first of the streams is what the output follows; of an encoder and a decoder that is what the decoder
    reads. `answers` says what the output is: logits of the next token, of the token itself (filled in), of
    classes, or a number.
    """

    # how the page reads labels of the input: as "text", in which spaces count, or as they are
    kind: ClassVar[str] = "fixed"
    ordered: ClassVar[bool] = True  # do its tokens come one after the other? Elements of a set and nodes do not
    part: ClassVar[str] = "token"  # what one of its parts is called

    inputs: dict[str, Any]
    streams: tuple[Tokens, ...] = ()
    name: str | None = None  # of the file, or of what was taken of the data
    truth: str | None = None  # the class that it is labelled with, where that is known
    answers: Literal["next", "filled", "classes", "numbers"] | None = None
    called: LabelFn | None = None
    number: Numbers | None = None  # what a regression predicts, with its scale
    notes: tuple[str, ...] = ()
    # one prediction that is numbers -> their names, and the numbers in their own units; None: as they come
    read_numbers: Callable[[Tensor], Sequence[tuple[str, float]]] | None = None

    def describe(self) -> dict[str, Any]:
        """What was given, as the page has it."""
        empty = {"text": None, "target": None, "views": None}
        return {"kind": self.kind, **empty, "name": self.name, "truth": self.truth}

    def answer(self, model: nn.Module, out: Any) -> Any:
        """What the model says of this input, where that is not just what it returned for it."""
        return out

    def parts(self, model: nn.Module) -> Parts | None:
        """The input in parts that can be left out one by one; None: it has no such parts."""
        return None

    def removal(self) -> Removal | None:
        """How a part of it can be taken away; None: nobody knows."""
        return None

    def without(self, region: Sequence[int]) -> ModelInput:
        """The same input without a part of it, as `removal` says."""
        raise RegardError(f"no part of such an input ({self.kind}) can be taken away")

    def actions(self, model: nn.Module) -> Iterator[Action]:
        """Group elements that can be tried on this input."""
        return iter(())

    def stream(self, size: int) -> Tokens | None:
        """What so many tokens are that are none of the streams."""
        return None

    def learned_vectors(self, model: nn.Module, seen: Sequence[Entry]) -> Mapping[tuple[int, int], str]:
        """What learned vectors are called that attend to the tokens or are attended to, by layer and call."""
        return {}

    def windows(self, model: nn.Module, seen: Sequence[Entry]) -> Mapping[str, Sequence[Window]]:
        """The windows of layers that attend within windows, by the name of the layer."""
        return {}

    def embeddings(
        self, model: nn.Module, sheets: Sheets, item: Callable[..., dict[str, Any]]
    ) -> dict[str, Any] | None:
        """The whole input as a point among others of its kind; `item` lays points out."""
        return None

    def token_groups(self, tokens: int) -> TokenGroups | None:
        """To which class each of so many tokens belongs; None: nobody says."""
        return None

    def thumbnails(self, tokens: int, sheets: Sheets) -> dict[str, Any] | None:
        """Small images of so many tokens, as cells of a sheet."""
        return None

    def move_labels(self, order: Sequence[int]) -> tuple[Tokens, ...]:
        """The streams with their labels in another order."""
        return tuple(
            replace(stream, labels=tuple(stream.labels[i] for i in order), words=None) for stream in self.streams
        )

    def for_rows(self, b: int) -> dict[str, Any]:
        """The inputs as they are, the same in each of b rows."""
        one = {name: isinstance(x, Tensor) and x.dim() > 0 and x.shape[0] == 1 for name, x in self.inputs.items()}
        return {name: x.expand(b, *x.shape[1:]) if one[name] and b > 1 else x for name, x in self.inputs.items()}


def kept_places(region: Sequence[int], count: int, thing: str) -> Tensor:
    """The numbers of the things that stay, of so many, when those of a region go."""
    stays = torch.ones(count, dtype=torch.bool)
    for number in region:
        if not 0 <= number < count:
            raise RegardError(f"{thing}s are numbered 0 … {count - 1}, got {number}")
        stays[number] = False
    if not region:
        raise RegardError(f"the region is empty; choose at least one {thing}")
    if not bool(stays.any()):
        raise RegardError(f"nothing is left without all {count} {thing}s; leave at least one")
    return stays.nonzero()[:, 0]


def fit_columns(x: Tensor, b: int, n: int) -> Tensor:
    """1 m -> b n: cut, or continued with its last column."""
    x = x[:, :n]
    if x.shape[1] < n:
        x = torch.cat((x, x[:, -1:].expand(-1, n - x.shape[1])), 1)
    return x.expand(b, n)


def some_orders(n: int) -> list[tuple[str, list[int]]]:
    """A few orders of n things, with their names."""
    mixed = torch.randperm(n, generator=torch.Generator().manual_seed(0)).tolist()
    backwards, rolled = list(range(n))[::-1], [(i - 1) % n for i in range(n)]
    return [("backwards", backwards), ("roll by 1", rolled), ("mixed", mixed)]


def unlabelled_input(inputs: Mapping[str, Any]) -> ModelInput:
    """Inputs that nobody wrote, the first row of them: tokens are called by their numbers."""
    return ModelInput(inputs={name: x[:1] if isinstance(x, Tensor) and x.dim() else x for name, x in inputs.items()})
