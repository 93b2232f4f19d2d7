"""An input as a person gave it and as a model takes it: tensors by name, what their tokens are called, what was written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

Called = Callable[[int], str]  # a token id, or the number of a class -> what it is called
Kind = Literal["text", "image", "points", "graph", "fixed"]


@dataclass(frozen=True)
class Tokens:
    """What the tokens along one axis are called."""

    name: str
    labels: tuple[str, ...]
    kind: Literal["text", "patches", "items"] = "text"


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """The things of a set: which input holds them, and what their numbers are called."""

    input: str  # vectors 1 n d
    rows: Tensor  # n d: their numbers as they came, perhaps before they were scaled
    columns: tuple[str, ...]  # of the d numbers
    mask: str | None = None  # 1 n beside them; all are real


@dataclass(frozen=True, kw_only=True)
class Network:
    """The nodes of a graph and the edges between them, source → target."""

    nodes: str  # the input that holds the nodes, n d
    edges: Tensor  # 2 e
    labels: tuple[str, ...]  # what each node is called
    truth: tuple[str | None, ...] | None = None  # the class of each node, as far as it is known
    centre: int | None = (
        None  # the node around which a large graph is drawn; None: one with a dozen neighbours
    )


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Other pictures of the same kind, to see where one stands among them."""

    what: str  # they are, in the plural
    x: Tensor  # n c h w: what the model takes
    pictures: Tensor  # n 3 h w in 0 … 1
    labels: tuple[str, ...]  # the class of each
    names: tuple[str, ...]  # what each is called


@dataclass(frozen=True)
class Cut:
    """How one layer of attention cuts a grid of tokens into windows."""

    layer: str  # dotted name; that of its attention begins with it
    grid: tuple[int, int]  # rows and columns of tokens
    window: int  # the sides of a window, in tokens
    shift: int  # by which windows are moved down and to the right, around the edge


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An answer that takes more than one look at a picture."""

    views: str  # how many there are, and which: "5 views (shifts)"
    answer: Callable[
        [Callable[[Tensor], Any], Tensor], Tensor
    ]  # a model and its pixels -> log-probabilities, b classes


@dataclass(frozen=True, kw_only=True)
class Given:
    """One row of input: a text, a picture, a set of things (`cloud`), or a graph (`network`), which has no rows.

    The first of the streams is what the output follows; of an encoder and a decoder that is what the decoder reads.
    `answers` says what the output is: logits of the next token, of the token itself (filled in), or of classes.
    """

    inputs: dict[str, Any]
    streams: tuple[Tokens, ...] = ()
    kind: Kind = "fixed"
    ids: str | None = None  # the input that holds the ids of the first stream
    text: str | None = None
    target: str | None = None
    name: str | None = None  # of the file, or of what was taken of the data
    truth: str | None = None  # the class that it is labelled with, where that is known
    pixels: str = "pixel_values"  # the input that holds a picture
    picture: Tensor | None = None  # what the model sees, as 3 h w in 0 … 1
    grid: tuple[int, int] | None = (
        None  # rows and columns of patches: the model's own, or those that are asked about
    )
    patch: int | None = (
        None  # sides of a patch, the last ones of which may be cut off; None: the grid cuts it evenly
    )
    piece: Literal["patch", "part"] = (
        "patch"  # a field of the grid: taken whole by the model, or only asked about
    )
    cuts: tuple[
        Cut, ...
    ] = ()  # of a model whose patches look within windows, where it does not say so itself
    reads: Literal["class", "mean"] | None = (
        None  # what the answer is made from; None: a class token, if one is there
    )
    crowd: Callable[[], Crowd | None] | None = None  # other pictures to compare with
    cloud: Cloud | None = None
    network: Network | None = None
    answers: Literal["next", "filled", "classes"] | None = None
    called: Called | None = None
    judged: Judged | None = None  # None: what the model returns is its answer
    notes: tuple[str, ...] = ()
    along: tuple[str, ...] = field(default=())  # inputs 1 n beside the ids: masks, types

    def moved(self, order: Sequence[int]) -> Given:
        """The tokens of the first stream in another order; places stay where they are."""
        if self.ids is None:
            raise ValueError("only tokens that have ids can be moved")
        n = self.inputs[self.ids].shape[1]
        if sorted(order) != list(range(n)):
            raise ValueError(f"an order of {n} tokens names each of 0 … {n - 1} once, got {list(order)[:8]}")
        first, *others = self.streams
        labels = tuple(first.labels[i] for i in order)
        inputs = self.inputs | {self.ids: self.inputs[self.ids][:, list(order)]}
        return replace(self, inputs=inputs, streams=(replace(first, labels=labels), *others))

    def centred(self, node: int) -> Given:
        """The same graph, drawn around another node."""
        if self.network is None:
            raise ValueError("only a graph can be drawn around a node")
        count = len(self.network.labels)
        if not 0 <= node < count:
            raise ValueError(f"nodes are numbered 0 … {count - 1}, got {node}")
        return replace(self, network=replace(self.network, centre=node))

    def with_things(self, x: Tensor) -> dict[str, Any]:
        """The inputs with other things of the set, perhaps more or fewer.   1 n d"""
        assert self.cloud is not None
        mask = (
            {}
            if self.cloud.mask is None
            else {self.cloud.mask: fitted(self.inputs[self.cloud.mask], *x.shape[:2])}
        )
        return self.for_rows(len(x)) | mask | {self.cloud.input: x}

    def with_ids(self, ids: Tensor) -> dict[str, Any]:
        """The inputs with other ids of the first stream, perhaps more or fewer; what goes along with them fits itself."""
        assert self.ids is not None
        b, n = ids.shape
        beside = {name: fitted(self.inputs[name], b, n) for name in self.along}
        return self.for_rows(b) | beside | {self.ids: ids}

    def with_pixels(self, pixels: Tensor) -> dict[str, Any]:
        """The inputs with other pictures.   b c h w"""
        return self.for_rows(len(pixels)) | {self.pixels: pixels}

    def for_rows(self, b: int) -> dict[str, Any]:
        """The inputs as they are, the same in each of b rows."""
        one = {
            name: isinstance(x, Tensor) and x.dim() > 0 and x.shape[0] == 1 for name, x in self.inputs.items()
        }
        return {
            name: x.expand(b, *x.shape[1:]) if one[name] and b > 1 else x for name, x in self.inputs.items()
        }


def fitted(x: Tensor, b: int, n: int) -> Tensor:
    """1 m -> b n: cut, or continued with its last column."""
    x = x[:, :n]
    x = torch.cat((x, x[:, -1:].expand(-1, n - x.shape[1])), 1) if x.shape[1] < n else x
    return x.expand(b, n)


def numbered(inputs: dict[str, Any]) -> Given:
    """Inputs that nobody wrote, the first row of them: tokens are called by their numbers."""
    first = {name: x[:1] if isinstance(x, Tensor) and x.dim() else x for name, x in inputs.items()}
    return Given(inputs=first)
