"""A decoder as the native step reads it: which parts it has, and where their weights lie."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.places import sides
from regard.attention.positions import Code, Concatenated, Position, Rotary, turns_at
from regard.generation.native.library import Block, Matrix, Model, Norm
from regard.generation.native.pack import KINDS, ROWS, Packed
from regard.models.attentions import window_of
from regard.models.decoder import DecoderConfig
from regard.models.sequence_model import BIASES, POSITIONS
from regard.nn.block import deepnorm_scales
from regard.nn.lora import merge
from regard.nn.norm import NORMS
from regard.nn.quantise import Quantised

State = Mapping[str, Tensor | Quantised]
ACTIVATIONS = ("relu", "leaky", "gelu", "gelu_tanh", "relu2", "swiglu")  # in the order of step.cpp
PLACEMENTS = {"pre": 0, "post": 1, "deepnorm": 1, "parallel": 2}
NORM_KINDS = {"rmsnorm": 1, "layernorm": 2}
MOST_CHANNELS = 1024
# options of a decoder that the step has, each with all its values but for those that `why_not` names
KNOWN = frozenset(
    [
        "vocab",
        "context",
        "dim",
        "depth",
        "heads",
        "kv_heads",
        "head_dim",
        "position",
        "bias",
        "base",
        "rope.channels",
        "rope.scaling",
        "rope.factor",
        "rope.original",
        "rope.low",
        "rope.high",
        "unused_places",
        "norm",
        "eps",
        "placement",
        "mlp.kind",
        "mlp.activation",
        "mlp.hidden",
        "qk_norm",
        "offset",
        "offsets",
        "tied",
        "attention.kind",
        "attention.width",
        "dropout",
        "embedding_norm",
        "embedding_scale",
        "weights",
        "ngrams",
        "zero_start",
        "softcap",
        "lora",
        "memory",
    ]
)


def _options(config: Any, above: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each option of a config and of those in it, with its value and its default: attention.width, 256, 128."""
    for field in fields(config):
        name, value = f"{above}{field.name}", getattr(config, field.name)
        if is_dataclass(value):
            yield from _options(value, f"{name}.")
        else:
            yield name, value, field.default if field.default is not MISSING else None


def why_not(config: Any) -> str | None:
    """What the native step does not have, in a few words; None: it can read this model."""
    if not isinstance(config, DecoderConfig):
        return f"it reads decoders, and this is a {type(config).__name__.removesuffix('Config')}"
    if config.attention.kind not in ("full", "window"):
        return f"it has no attention={config.attention.kind}"
    if config.mlp.kind == "experts":
        return "it has no mlp=experts"
    for name, value, default in _options(config):
        if name not in KNOWN and value != default:
            return f"it has no {name}={value!r}"
    if config.weights != "softmax":
        return f"it has no weights={config.weights}"
    if config.bias == "relative":
        return "it has no bias=relative"
    if config.channels > MOST_CHANNELS:
        return f"it has no heads of more than {MOST_CHANNELS} channels"
    return None


def select_state(config: DecoderConfig, state: State) -> dict[str, Tensor | Quantised]:
    """Tensors of a decoder by name, small maps beside others merged: matrices, and vectors of everything else."""
    if config.lora:
        state = merge(state)  # type: ignore[arg-type]
    found: dict[str, Tensor | Quantised] = {}
    for name, tensor in state.items():
        is_matrix = name.startswith(("embed", "head", "ngrams")) or ".f." in name
        if isinstance(tensor, Quantised) or (is_matrix and tensor.dim() == 2):
            found[name] = tensor
        else:
            found[name] = tensor.detach().flatten()
    return found


class Description:
    """The structures of step.cpp for a model, and everything that they point at.

    slots, capacity: how many texts, and how many tokens of each   half_cache: keys and values in float16
    """

    def __init__(
        self, config: DecoderConfig, packed: Packed, *, slots: int, capacity: int, threads: int, half_cache: bool
    ) -> None:
        self.config, self.packed = config, packed
        self.kept: list[Tensor] = []  # tables that the step reads
        channels = config.channels
        kv_heads = config.kv_heads or config.heads
        wide = -(-channels // ROWS) * ROWS
        room = -(-capacity // ROWS) * ROWS
        dtype = torch.float16 if half_cache else torch.float32
        self.values = torch.empty(config.depth, slots, kv_heads, room, wide, dtype=dtype)
        # zeros: a register also holds keys of places that are not there yet
        self.keys = torch.zeros(config.depth, slots, kv_heads, room // ROWS, wide, ROWS, dtype=dtype)
        self.blocks = (Block * config.depth)(*(self._block(i) for i in range(config.depth)))
        tables = [self._matrix(f"ngrams.tables.{i}") for i in range(config.ngrams - 1)]
        self.tables = (Matrix * max(1, len(tables)))(*tables)
        position = self._restore(POSITIONS[config.position](config), "stack.position.of.")
        turned, cosines, sines = self._turns(position, capacity)
        alpha = deepnorm_scales(config.depth)[0] if config.placement == "deepnorm" else 1.0
        self.model = Model(
            depth=config.depth,
            dim=config.dim,
            heads=config.heads,
            kv_heads=kv_heads,
            channels=channels,
            hidden=packed.table["stack.blocks.0.mlp.f.up.weight"].rows,
            vocab=config.vocab,
            turned=turned,
            window=window_of(config) or 0,
            activation=ACTIVATIONS.index(config.mlp.activation),
            placement=PLACEMENTS[config.placement],
            ngrams=config.ngrams - 1,
            slots=slots,
            capacity=room,
            half_cache=int(half_cache),
            threads=threads,
            scale=channels**-0.5,
            alpha=alpha,
            embedding_scale=packed.table["embed.weight"].columns ** 0.5 if config.embedding_scale else 1.0,
            softcap=config.softcap or 0.0,
            entrance=self._norm("stack.position.norm"),
            final=self._norm("stack.norm"),
            embedding=self._matrix("embed.weight"),
            head=self._matrix("embed.weight" if config.tied else "head.weight"),
            tables=self.tables,
            blocks=self.blocks,
            codes=self._codes(position, capacity),
            cosines=cosines,
            sines=sines,
            bias=self._bias(room),
            keys=self.keys.data_ptr(),
            values=self.values.data_ptr(),
        )

    def copy(self, source: int, target: int, length: int) -> None:
        """Keys and values of the first places of a slot."""
        self.values[:, target, :, :length] = self.values[:, source, :, :length]
        blocks = -(-length // ROWS)
        self.keys[:, target, :, :blocks] = self.keys[:, source, :, :blocks]

    # ── parts with weights

    def _block(self, i: int) -> Block:
        stem = f"stack.blocks.{i}"
        maps = {name: self._matrix(f"{stem}.attention.f.{name}.weight") for name in ("to_q", "to_k", "to_v", "mix")}
        maps |= {name: self._matrix(f"{stem}.mlp.f.{name}.weight") for name in ("gate", "up", "down")}
        return Block(
            attention=self._norm(f"{stem}.attention.norm"),
            mlp=self._norm(f"{stem}.mlp.norm"),
            query=self._norm(f"{stem}.attention.f.norm_q", "rmsnorm"),
            key=self._norm(f"{stem}.attention.f.norm_k", "rmsnorm"),
            **maps,
        )

    def _norm(self, stem: str, kind: str | None = None) -> Norm:
        """The norm of this name; one that leaves everything as it is where there is none."""
        scale = self.packed.vector(f"{stem}.scale")
        if scale is None:
            return Norm(None, None, 0, 0.0)
        kind = kind or self.config.norm
        shift = self.packed.vector(f"{stem}.shift")
        eps = self.config.eps
        if eps is None:
            eps = NORMS[kind](1).eps
        return Norm(scale.ctypes.data, None if shift is None else shift.ctypes.data, NORM_KINDS[kind], eps)

    def _matrix(self, name: str) -> Matrix:
        stored = self.packed.table.get(name)
        if stored is None:
            return Matrix(None, None, 0, 0, 0, 0)
        offset = self.packed.vector(f"{name.removesuffix('.weight')}.bias")
        return Matrix(
            self.packed.memory.ctypes.data + stored.begin,
            None if offset is None else offset.ctypes.data,
            KINDS.index(stored.kind),
            stored.rows,
            stored.columns,
            0,
        )

    def _restore(self, part: nn.Module, stem: str) -> Any:
        """A small part with its weights."""
        with torch.no_grad():
            for name, parameter in part.named_parameters():
                found = self.packed.vector(stem + name)
                assert found is not None
                parameter.copy_(torch.from_numpy(found[: parameter.numel()].copy()).view_as(parameter))
        return part

    # ── tables of places

    def _keep(self, table: Tensor) -> int:
        self.kept.append(table.detach().float().contiguous())
        return self.kept[-1].data_ptr()

    def _turns(self, position: Position, capacity: int) -> tuple[int, int | None, int | None]:
        """How many channels are turned, and cosines and sines for each place."""
        if not isinstance(position, Rotary):
            return 0, None, None
        c = position.turned
        how = (c, 1, position.spectrum, torch.device("cpu"), torch.float32, False)
        cosines, sines = turns_at(None, 0, capacity, 1, *how)  # 1 1 n c, in two halves, the first of the sines negative
        return c, self._keep(cosines[0, 0, :, c // 2 :]), self._keep(sines[0, 0, :, c // 2 :])

    def _codes(self, position: Position, capacity: int) -> int | None:
        """What is added to the vector of a token, for each place; a code that widens it follows zeros."""
        of = position.of if isinstance(position, Concatenated) else position
        if not isinstance(of, Code):
            return None
        codes = of.code(torch.arange(capacity)[None])[0]
        return self._keep(torch.nn.functional.pad(codes, (self.config.dim - codes.shape[1], 0)))

    def _bias(self, capacity: int) -> int | None:
        """What is added to scores, for each head and each distance."""
        bias: Any = BIASES[self.config.bias](self.config)
        if bias is None:
            return None
        bias = self._restore(bias, "stack.bias.")
        here, there = sides(None, 1, capacity, 1, torch.device("cpu"))
        nothing = torch.zeros(1, self.config.heads, 1, self.config.channels)
        return self._keep(bias.scores(nothing, here, there)[0, :, 0].flip(-1))

    @property
    def pointer(self) -> Any:
        return ctypes.byref(self.model)
