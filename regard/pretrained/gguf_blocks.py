"""Quantised blocks of GGUF as float32. Each type packs a row of numbers in blocks of one size.

The equations are those of ggml; results equal its Python package to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
SUPER = 256  # numbers in a block of the K types


def _float16(part: Array) -> Array:
    """Bytes as numbers.   blocks 2 -> blocks 1"""
    return np.ascontiguousarray(part).view("<f2").astype(np.float32)


def _nibbles(part: Array, group: int) -> Array:
    """Halves of bytes: of each group of bytes the low halves, then the high ones.   blocks k -> blocks 2k"""
    grouped = part.reshape(len(part), -1, 1, group)
    shifts = np.array([0, 4], dtype=np.uint8).reshape(1, 1, 2, 1)
    return ((grouped >> shifts) & np.uint8(0x0F)).reshape(len(part), -1)


def _float32(blocks: Array) -> Array:
    return blocks.view("<f4").astype(np.float32)


def _half(blocks: Array) -> Array:
    return blocks.view("<f2").astype(np.float32)


def _bfloat16(blocks: Array) -> Array:
    return (blocks.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)


def _q8_0(blocks: Array) -> Array:
    """d·q, q from −128 to 127."""
    return np.ascontiguousarray(blocks[:, 2:]).view(np.int8).astype(np.float32) * _float16(blocks[:, :2])


def _q4_0(blocks: Array) -> Array:
    """d·(q − 8)"""
    q = _nibbles(blocks[:, 2:], 16).astype(np.int8) - np.int8(8)
    return _float16(blocks[:, :2]) * q.astype(np.float32)


def _q4_1(blocks: Array) -> Array:
    """d·q + m"""
    q = _nibbles(blocks[:, 4:], 16).astype(np.float32)
    return _float16(blocks[:, :2]) * q + _float16(blocks[:, 2:4])


def _q5_0(blocks: Array) -> Array:
    """d·(q − 16), the fifth bits of q together."""
    bits = np.ascontiguousarray(blocks[:, 2:6]).view("<u4")
    high = ((bits >> np.arange(32, dtype=np.uint32)) & np.uint32(1)).astype(np.uint8)
    q = (_nibbles(blocks[:, 6:], 16) | (high << np.uint8(4))).astype(np.int8) - np.int8(16)
    return _float16(blocks[:, :2]) * q.astype(np.float32)


def _q4_k(blocks: Array) -> Array:
    """d·scale·q − dmin·minimum, eight scales and minima of six bits each."""
    packed = blocks[:, 4:16].reshape(-1, 3, 4)
    low, middle, high = packed[:, 0], packed[:, 1], packed[:, 2]
    scales = np.concatenate([low & 0x3F, (high & 0x0F) | ((low >> 2) & 0x30)], 1).astype(np.float32)
    minima = np.concatenate([middle & 0x3F, (high >> 4) | ((middle >> 2) & 0x30)], 1).astype(np.float32)
    d = (_float16(blocks[:, :2]) * scales)[..., None]
    less = (_float16(blocks[:, 2:4]) * minima)[..., None]
    q = _nibbles(blocks[:, 16:], 32).reshape(len(blocks), 8, 32).astype(np.float32)
    return (d * q - less).reshape(len(blocks), SUPER)


def _q6_k(blocks: Array) -> Array:
    """d·scale·(q − 32), sixteen scales, the two high bits of q together."""
    low = _nibbles(blocks[:, :128], 64).reshape(len(blocks), -1, 32)
    shifts = np.array([0, 2, 4, 6], dtype=np.uint8).reshape(1, 1, 4, 1)
    high = (blocks[:, 128:192].reshape(len(blocks), -1, 1, 32) >> shifts) & np.uint8(0x03)
    q = (low | (high.reshape(len(blocks), -1, 32) << np.uint8(4))).astype(np.int8) - np.int8(32)
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32)
    d = (_float16(blocks[:, 208:]) * scales)[..., None]
    return (d * q.reshape(len(blocks), 16, -1).astype(np.float32)).reshape(len(blocks), SUPER)


class BlockType(NamedTuple):
    """Numbers in a block, its bytes, and how these become numbers.   uint8 blocks bytes -> blocks numbers"""

    name: str
    numbers: int
    bytes: int
    decode: Callable[[Array], Array]


TYPES: dict[int, BlockType] = {
    0: BlockType("F32", 1, 4, _float32),
    1: BlockType("F16", 1, 2, _half),
    2: BlockType("Q4_0", 32, 18, _q4_0),
    3: BlockType("Q4_1", 32, 20, _q4_1),
    6: BlockType("Q5_0", 32, 22, _q5_0),
    8: BlockType("Q8_0", 32, 34, _q8_0),
    12: BlockType("Q4_K", SUPER, 144, _q4_k),
    14: BlockType("Q6_K", SUPER, 210, _q6_k),
    30: BlockType("BF16", 1, 2, _bfloat16),
}


def decode(data: Array, kind: BlockType) -> Array:
    """All numbers of a tensor, one after another.   uint8 bytes -> float32 numbers"""
    blocks = data.reshape(-1, kind.bytes)
    with np.errstate(invalid="ignore", over="ignore"):
        return kind.decode(blocks).reshape(-1)
