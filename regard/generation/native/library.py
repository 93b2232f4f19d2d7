"""The compiled step as Python calls it: the structures of step.cpp, and its functions."""

from __future__ import annotations

import ctypes
from pathlib import Path

from regard.errors import RegardError

LAYOUT = 10_000


class Matrix(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("offset", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("kind", "rows", "columns", "spare")),
    ]


class Norm(ctypes.Structure):
    _fields_ = [
        ("scale", ctypes.c_void_p),
        ("shift", ctypes.c_void_p),
        ("kind", ctypes.c_int32),
        ("eps", ctypes.c_float),
    ]


class Block(ctypes.Structure):
    _fields_ = [
        *((name, Norm) for name in ("attention", "mlp", "query", "key")),
        *((name, Matrix) for name in ("to_q", "to_k", "to_v", "mix", "gate", "up", "down")),
    ]


WHOLE = (
    *("depth", "dim", "heads", "kv_heads", "channels", "hidden", "vocab", "turned"),
    *("window", "activation", "placement", "ngrams", "slots", "capacity", "half_cache", "threads"),
)
REAL = ("scale", "alpha", "embedding_scale", "softcap")
TABLES = ("codes", "cosines", "sines", "bias", "keys", "values")


class Model(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in WHOLE),
        *((name, ctypes.c_float) for name in REAL),
        ("entrance", Norm),
        ("final", Norm),
        ("embedding", Matrix),
        ("head", Matrix),
        ("tables", ctypes.POINTER(Matrix)),
        ("blocks", ctypes.POINTER(Block)),
        *((name, ctypes.c_void_p) for name in TABLES),
    ]


class Library:
    """The functions of a compiled step. path: "avx512", "avx2" or "plain"."""

    def __init__(self, file: Path, path: str) -> None:
        self.path = path
        try:
            found = ctypes.CDLL(str(file))
            found.regard_layout.restype = ctypes.c_int
            layout = found.regard_layout()
        except (OSError, AttributeError) as error:
            raise RegardError(f"{file} cannot be loaded: {error}") from error
        if layout != ctypes.sizeof(Model) * LAYOUT + ctypes.sizeof(Block):
            raise RegardError(f"{file} has other structures than this version of regard")
        self.open = found.regard_open
        self.open.argtypes, self.open.restype = [ctypes.POINTER(Model)], ctypes.c_void_p
        self.close = found.regard_close
        self.close.argtypes, self.close.restype = [ctypes.c_void_p], None
        self.read = found.regard_read
        pointers = [ctypes.c_void_p] * 6
        self.read.argtypes, self.read.restype = [ctypes.c_void_p, ctypes.c_int, *pointers], None
        self.multiply = found.regard_multiply
        self.multiply.argtypes = [ctypes.POINTER(Matrix), ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        self.multiply.restype = None
        self.memory = found.regard_memory
        self.memory.argtypes, self.memory.restype = [ctypes.c_size_t], ctypes.c_void_p
        self.free = found.regard_free
        self.free.argtypes, self.free.restype = [ctypes.c_void_p], None
