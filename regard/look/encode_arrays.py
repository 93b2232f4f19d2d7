"""Numbers for a page: arrays as short text, small maps in 8 bits, and of long rows the largest weights."""

from __future__ import annotations

import base64
import math
import zlib
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import RegardError

# weights that a whole page lists: 24 of each row for 12 layers × 12 heads × 512 queries
MOST = 24 * 12 * 12 * 512
EXACT = 2**18  # weights of a whole page up to which they are listed in float32
FEWEST = 4  # of each row, however many there are
NOTHING = 65_535  # the column of a place in a list that is not used


def pack_array(x: np.ndarray[Any, Any]) -> str:
    """The bytes of an array, little-endian, deflated, in base64: what a browser turns back with
    DecompressionStream."""
    plain = np.ascontiguousarray(x.astype(x.dtype.newbyteorder("<"), copy=False))
    return base64.b64encode(zlib.compress(plain.tobytes(), 6)).decode("ascii")


def unpack_array(text: str, dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    """The array of `packed` again."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.dtype(dtype).newbyteorder("<")).reshape(shape)


def levels(x: Tensor) -> dict[str, Any]:
    """Any numbers in 8 bits between their smallest and largest; what is not finite counts as the smallest."""
    x = x.detach().float().cpu()
    finite = x[x.isfinite()]
    if finite.numel():
        low, high = (float(finite.min()), float(finite.max()))
    else:
        low, high = (0.0, 0.0)
    scaled = (x - low) / (high - low) if high > low else torch.zeros_like(x)
    bytes_ = (scaled.nan_to_num(0, 1, 0).clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    return {"shape": list(x.shape), "low": low, "high": high, "data": pack_array(bytes_)}


def floats(x: Tensor) -> dict[str, Any]:
    """Numbers as they are, in float32: for maps that are also read, number by number."""
    return {"shape": list(x.shape), "data": pack_array(x.detach().float().cpu().numpy())}


def thumbnails(weights: Tensor, side: int = 48) -> dict[str, Any]:
    """A small image of each map: the largest weight of each block, as √w in 8 bits.
    h n m -> heads × height × width

    The root makes weights visible that are spread over many keys; the largest keeps a thin diagonal from
    vanishing.
    """
    n, m = weights.shape[-2:]
    height, width = min(n, side), min(m, side)
    if (height, width) != (n, m):
        small = F.adaptive_max_pool2d(weights.float(), (height, width))
    else:
        small = weights.float()
    bytes_ = (small.clamp(0, 1).sqrt() * 255).round().to(torch.uint8).cpu().numpy()
    return {"height": height, "width": width, "data": pack_array(bytes_)}


def kept_of_each_row(rows: int, m: int) -> int:
    """How many weights of each row a page keeps when it has so many rows in all: all of them if they fit."""
    return max(1, min(m, max(FEWEST, MOST // max(1, rows))))


def largest(weights: Tensor, count: int, *, exact: bool = False) -> dict[str, Any]:
    """The `count` largest weights of each row, in the order of their columns.   h n m -> lists h × n × count

    exact  in float32, so that three digits are those of the weight; else in float16
    Every weight that is not in the list is at most the smallest one that is.
    """
    m = weights.shape[-1]
    if m >= NOTHING:
        raise RegardError(f"a page shows at most {NOTHING - 1:,} keys, got {m:,}; look at a part of the input")
    found = weights.float().topk(min(count, m), dim=-1)
    # what is hidden is not listed
    columns, order = torch.where(found.values > 0, found.indices, NOTHING).sort(-1)
    values = found.values.gather(-1, order)
    return {
        "count": columns.shape[-1],
        "all": columns.shape[-1] == m,
        "columns": pack_array(columns.cpu().numpy().astype(np.uint16)),
        "exact": exact,
        "weights": pack_array(values.cpu().numpy().astype(np.float32 if exact else np.float16)),
    }


def round_digits(x: Tensor | float, digits: int = 4) -> Any:
    """Nested lists of numbers with a few significant digits, so that they are short as text; None for what is
    not finite."""
    if isinstance(x, Tensor):
        if x.dim() == 1:
            return [round_digits(each, digits) for each in x.tolist()]
        return [round_digits(each, digits) for each in x]
    if math.isfinite(x):
        return float(f"{x:.{digits}g}")
    return None


def pack_scaled(weights: Tensor) -> dict[str, Any]:
    """In half precision, as parts of the largest: the weights of many points are all small."""
    scale = float(weights.max()) / 60_000 if weights.numel() else 0.0
    scale = scale or 1.0
    return {"scale": scale, "weights": pack_array((weights.float() / scale).numpy().astype(np.float16))}
