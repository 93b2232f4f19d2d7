"""What each input of a model is: tokens, their mask and places, an image, edges. Said by the caller, by the
model, or guessed from names and shapes; where a guess would be a bet, it is left open, and the laws that need
it say so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError, did_you_mean

Inputs = dict[str, Any]
Step = Callable[[nn.Module, Inputs, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Stream:
    """The tokens of one sequence or set, by the names of the model's inputs."""

    tokens: str  # ids b n, or vectors b n d
    mask: str | None = None  # b n: which tokens are real
    # the mask is True where a token is padding (as key_padding_mask of torch.nn), not where it is real
    hides: bool = False
    places: str | None = None  # coordinates, n or b n or b n s
    along: tuple[str, ...] = ()  # other inputs b n … that belong to the tokens (types, segments)
    sides: tuple[str, ...] = ("right",)  # where padding may be put: right, left
    # which axis of the tokens runs along them; 0 for torch.nn's n b d, with the batch next to it
    axis: int = 1

    def __post_init__(self) -> None:
        if not set(self.sides) <= {"left", "right"}:
            raise RegardError(f"sides are 'left' and 'right', got {self.sides}")


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What is what.

    >>> roles = Roles(streams=(Stream("input_ids", mask="attention_mask"),), promises={"causality": "holds"})
    """

    streams: tuple[Stream, ...] = ()  # the first one is that which the output follows
    grid: str | None = None  # an image b c h w
    patch: int | None = None  # the sides of the squares that a model cuts it into, and takes for tokens
    points: str | None = None  # vectors of coordinates along the last axis
    nodes: str | None = None  # features of the nodes of one graph: n d, no batch
    edges: str | None = None  # 2 e, ends of the edges among those nodes
    adjacency: str | None = None  # n n or b n n, instead of edges
    of_nodes: tuple[str, ...] = ()  # other inputs with one entry for each node (positions, the graph it is in)
    of_edges: tuple[str, ...] = ()  # other inputs with one entry for each edge
    # angles n of the frames of vertices: a choice that must not matter, see the law gauge
    frames: str | None = None
    fixed: tuple[str, ...] = ()  # inputs that belong to no token or node; perhaps with a row for each row
    tables: tuple[str, ...] = ()  # inputs that belong to no row either, though they may have as many entries
    whole: bool = False  # the forward takes all inputs as one dict
    unclear: Mapping[str, str] = field(default_factory=dict)  # input -> why it is not known what it belongs to
    # (model, inputs of the new tokens, state or None) -> (output, state): decoding with a cache
    step: Step | None = None
    read: Callable[[Any], Tensor] | None = None  # the tensor that counts, out of what the model returns
    # law -> holds, broken, not promised, invariant, equivariant
    promises: Mapping[str, str] = field(default_factory=dict)

    @property
    def stream(self) -> Stream | None:
        return self.streams[0] if self.streams else None

    def names(self) -> set[str]:
        """Every input that has a role."""
        found = {self.grid, self.points, self.nodes, self.edges, self.adjacency, self.frames}
        found |= {*self.of_nodes, *self.of_edges, *self.tables}
        for s in self.streams:
            found |= {s.tokens, s.mask, s.places, *s.along}
        return {name for name in found if name is not None}


BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
REAL = ("attention_mask", "real")  # True or 1 where a token is real
HIDDEN = ("key_padding_mask", "src_key_padding_mask")  # True where it is padding
PLACES = ("where", "position_ids", "positions")
EDGES = ("edge_index", "edges")
ALONG = ("token_type_ids", "segment_ids")
POINTS = ("pos", "coords", "coordinates", "points", "xyz")
NO_TOKENS = ("mask", "label", "length", "position", "type_ids", "segment")  # in the name of an input


def inputs_by_name(model: nn.Module, inputs: Any) -> Inputs:
    """The inputs by the names of the model's forward: a tensor, a tuple or a dict -> a dict."""
    if isinstance(inputs, Mapping):
        only = next(iter(inputs.values())) if len(inputs) == 1 else None
        return dict(only) if isinstance(only, Mapping) else dict(inputs)
    values = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if len(values) == 1 and isinstance(values[0], Mapping):  # the forward takes one dict
        return dict(values[0])
    parameters = [p.name for p in signature(model) if p.kind in BY_PLACE]
    names = [parameters[i] if i < len(parameters) else f"input {i}" for i in range(len(values))]
    return dict(zip(names, values, strict=True))


def takes_one_dict(model: nn.Module, inputs: Inputs) -> bool:
    """Has the forward one argument, by another name than any input? Then it is the dict itself."""
    parameters = signature(model)
    required = [p for p in parameters if p.kind in BY_PLACE and p.default is inspect.Parameter.empty]
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters) or len(required) != 1:
        return False
    return not {p.name for p in parameters} & set(inputs) and not any(n.startswith("input ") for n in inputs)


def unknown_names(model: nn.Module, inputs: Inputs) -> None:
    """Refuse names that the forward does not have."""
    parameters = signature(model)
    if not parameters or any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return
    names = [p.name for p in parameters]
    for name in inputs:
        if name not in names and not name.startswith("input "):
            raise RegardError(
                f"the forward has no input {name!r}; {did_you_mean(name, names)}it has {', '.join(names)}"
            )


def signature(model: nn.Module) -> list[inspect.Parameter]:
    forward = model.forward if isinstance(model, nn.Module) else model
    try:
        return list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):  # something written in C
        return []


def guess(model: nn.Module, inputs: Inputs) -> Roles:
    """What names and shapes say. A mask called only `mask` is left alone: its convention cannot be known."""
    declared = getattr(model, "roles", None)
    if isinstance(declared, Roles):
        return declared
    known = {p.name for p in signature(model)} | set(inputs)
    tensors = {name: x for name, x in inputs.items() if isinstance(x, Tensor)}
    edges = _first(EDGES, {name: x for name, x in tensors.items() if _lists_edges(x)})
    if edges is not None:
        return _guess_graph(tensors, edges)
    if {"query", "key", "value"} <= set(tensors):
        return _guess_attention(model, known)
    for name, x in tensors.items():
        if any(word in name for word in NO_TOKENS):
            continue
        if x.dim() == 4 and x.is_floating_point():
            return Roles(grid=name)
        ids = x.dim() == 2 and not x.is_floating_point() and x.dtype != torch.bool
        if ids or (x.dim() == 3 and x.is_floating_point()):
            real, hidden = _first(REAL, known), _first(HIDDEN, known)
            if "memory_key_padding_mask" in known:  # another mask belongs to it, which nobody gives
                hidden = None
            stream = Stream(
                name,
                mask=real or hidden,
                hides=real is None and hidden is not None,
                places=_first(PLACES, known),
                along=tuple(other for other in ALONG if other in tensors),
            )
            if _batch_last(model) and not ids:
                stream = replace(stream, axis=0)
            return Roles(streams=(stream,), points=name if not ids and x.shape[-1] in (2, 3) else None)
    return Roles()


def set_aside_misfits(roles: Roles, inputs: Inputs) -> Roles:
    """The roles without the inputs whose shape is not that of their role. Why they are left out is in `unclear`, so that
    the laws that would have to move them are unknown."""
    unclear = dict(roles.unclear)
    streams = []
    for stream in roles.streams:
        tokens = inputs[stream.tokens]
        rows, count = _rows_and_tokens(tokens, stream)
        misfits = {}
        for name in (stream.mask, stream.places, *stream.along):
            x = inputs.get(name) if name is not None else None
            if name is not None and isinstance(x, Tensor) and not _fits(name, x, stream, rows, count):
                misfits[name] = x
        for name, x in misfits.items():
            unclear[name] = (
                f"{name!r} is {_axes(x)}, and with {stream.tokens!r} {_axes(tokens)} it should be {rows} {count}: it is not "
                "known how it goes along with the tokens; give it so, or leave it out"
            )
            if not x.dim() or [k for k, size in enumerate(x.shape) if size == rows] != [0]:
                unclear["rows"] = unclear[name]
        kept = tuple(name for name in stream.along if name not in misfits)
        mask, places = (None if name in misfits else name for name in (stream.mask, stream.places))
        streams.append(replace(stream, mask=mask, places=places, along=kept))
    return replace(roles, streams=tuple(streams), unclear=unclear)


def _rows_and_tokens(tokens: Any, stream: Stream) -> tuple[int, int]:
    least = max(2, stream.axis + 1)
    if not isinstance(tokens, Tensor) or tokens.dim() < least:
        found = f"the shape {_axes(tokens)}" if isinstance(tokens, Tensor) else type(tokens).__name__
        raise RegardError(f"the tokens {stream.tokens!r} must be a tensor of {least} axes or more, got {found}")
    return int(tokens.shape[1 if stream.axis == 0 else 0]), int(tokens.shape[stream.axis])


def _fits(name: str, x: Tensor, stream: Stream, rows: int, count: int) -> bool:
    """Is it as its role has it: b n, places also n or b n s, what goes along b n …? One row may stand for all."""
    if name == stream.places:
        return x.shape == (count,) or (x.dim() in (2, 3) and x.shape[1] == count and x.shape[0] in (1, rows))
    if name == stream.mask:
        return x.dim() == 2 and x.shape[1] == count and x.shape[0] in (1, rows)
    if stream.axis == 0 and x.shape[:2] == (count, rows):
        return True
    return x.dim() >= 2 and x.shape[0] in (1, rows) and x.shape[1] == count


def _axes(x: Tensor) -> str:
    return " ".join(map(str, x.shape)) or "a single number"


def _guess_attention(model: nn.Module, known: set[str]) -> Roles:
    """Queries are one stream, keys with their values another, to which the mask belongs."""
    axis = 0 if _batch_last(model) else 1
    hidden = _first(HIDDEN, known)
    keys = Stream("key", mask=hidden, hides=hidden is not None, along=("value",), axis=axis)
    return Roles(streams=(Stream("query", axis=axis), keys))


def _lists_edges(x: Tensor) -> bool:
    return x.dim() == 2 and x.shape[0] == 2 and not x.is_floating_point() and x.dtype != torch.bool


def _guess_graph(tensors: Inputs, edges: str) -> Roles:
    """Nodes are what has an entry for each number among the edges."""
    ends = tensors[edges]
    count = int(ends.max()) + 1 if ends.numel() else 0
    others = [
        name
        for name, x in tensors.items()
        if name not in (edges, "batch", "ptr") and not name.startswith("edge") and x.dim() and len(x) >= count
    ]
    real = [name for name in others if tensors[name].dim() == 2 and tensors[name].is_floating_point()]
    points = next((n for n in real if n in POINTS and tensors[n].shape[1] in (2, 3)), None)
    features = [name for name in real if name != points]
    nodes = next(iter([*features, *others]), None)
    return Roles(nodes=nodes, edges=edges, points=points)


def _batch_last(model: nn.Module) -> bool:
    """torch.nn's own attention and recurrent layers put the batch second unless told otherwise."""
    first_given = getattr(model, "batch_first", None)
    if first_given is None and isinstance(model, nn.TransformerEncoder | nn.TransformerDecoder):
        first_given = getattr(getattr(model.layers[0], "self_attn", None), "batch_first", None)
    if first_given is None and isinstance(model, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
        first_given = getattr(model.self_attn, "batch_first", None)
    return first_given is False


def _first(names: Sequence[str], known: Any) -> str | None:
    return next((name for name in names if name in known), None)
