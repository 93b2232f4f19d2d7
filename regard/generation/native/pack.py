"""Weights in the order in which the native step reads them.

A matrix lies in blocks of 16 rows (its outputs). In a block, the numbers of one column are side by side:

    float32    column by column, 16 numbers each
    bfloat16   two columns at once, so that a pair of a row is one word of 32 bits
    int8       scales (float16, 16 for each group of 32 columns), then four columns at once: 16 words of 4 bytes
    int4       the same with two columns in a byte: 4j … 4j+3 of a group in the low half, those 16 further in the high half
    int4_min   as int4, with minima after the scales

All matrices and vectors of a model lie in one piece of memory, each at a multiple of 64 bytes; a table says where.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.quantise import GROUP, Quantised, quantise

ROWS = 16  # of a block
ALIGNED = 64  # bytes
KINDS = ("float32", "bfloat16", "int8", "int4", "int4_min")  # in the order of step.cpp
FORMAT = 1  # raised when the same weights are packed in another way
Memory = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Stored:
    """Where a matrix lies; a vector has one row, and kind "vector"."""

    kind: str
    begin: int
    size: int
    rows: int
    columns: int


@dataclass(frozen=True, eq=False)
class Packed:
    """Weights of a model: `memory` holds them all, `table` says where each lies, by its name in a state_dict."""

    memory: Memory
    table: Mapping[str, Stored]

    def vector(self, name: str) -> Memory | None:
        """float32, without what fills it up; None: there is none of this name."""
        stored = self.table.get(name)
        if stored is None:
            return None
        return self.memory[stored.begin : stored.begin + stored.size].view(np.float32)


def to_table(facts: Mapping[str, Any]) -> dict[str, Stored]:
    return {name: Stored(*given) for name, given in facts.items()}


def write_packed(
    state: Mapping[str, Tensor | Quantised], choose: Callable[[str], str], out: IO[bytes]
) -> dict[str, list[Any]]:
    """Write all tensors one after another. choose: the kind of a matrix that comes in floating point, by its name
    -> the table, as JSON has it"""
    table: dict[str, list[Any]] = {}
    begin = 0
    for name, tensor in state.items():
        if isinstance(tensor, Tensor) and tensor.dim() == 1:
            data, kind, shape = _vector(tensor), "vector", (1, len(tensor))
        elif isinstance(tensor, Tensor):
            kind, shape = choose(name), (tensor.shape[0], tensor.shape[1])
            data = pack_matrix(tensor, kind)
        else:
            kind, shape = tensor.kind, tensor.shape
            data = arrange(tensor)
        out.write(memoryview(data.numpy()))  # type: ignore[arg-type]
        size = len(data)
        out.write(bytes(-size % ALIGNED))
        table[name] = [kind, begin, size, *shape]
        begin += size + -size % ALIGNED
    return table


def pack_matrix(weight: Tensor, kind: str) -> Tensor:
    """A matrix in floating point as bytes."""
    if kind in ("int8", "int4"):
        return arrange(quantise(weight, kind))
    blocks = _blocks(weight.detach())  # blocks 16 columns
    if kind == "float32":
        return _as_bytes(blocks.float().transpose(1, 2))
    pairs = F.pad(blocks.bfloat16(), (0, blocks.shape[2] % 2)).unflatten(2, (-1, 2))
    return _as_bytes(pairs.transpose(1, 2))


def arrange(matrix: Quantised) -> Tensor:
    """A matrix of whole numbers as bytes."""
    q = _blocks(matrix.q).unflatten(2, (-1, GROUP // 4, 4))  # blocks 16 groups 8 4
    q = q.permute(0, 2, 3, 1, 4)  # blocks groups 8 16 4
    if matrix.kind != "int8":
        q = q[:, :, :4] | q[:, :, 4:] << 4
    parts = [_scales(matrix.scale)]
    if matrix.minimum is not None:
        parts.append(_scales(matrix.minimum))
    parts.append(q.flatten(1))
    return torch.cat(parts, 1).flatten()


def _scales(scale: Tensor) -> Tensor:
    """float16 rows groups -> bytes of each block, up to a multiple of 64"""
    found = _blocks(scale).transpose(1, 2).contiguous().flatten(1).view(torch.uint8)
    return F.pad(found, (0, -found.shape[1] % ALIGNED))


def _blocks(rows: Tensor) -> Tensor:
    """rows columns -> blocks 16 columns, filled up with zeros"""
    return F.pad(rows, (0, 0, 0, -len(rows) % ROWS)).unflatten(0, (-1, ROWS))


def _vector(vector: Tensor) -> Tensor:
    """float32, filled up so that whole registers can be read."""
    found = vector.detach().float()
    return _as_bytes(F.pad(found, (0, -len(found) % ROWS)))


def _as_bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(torch.uint8).flatten()
