"""Pictures inside a page: one as it is, or many small ones on one sheet, as data URLs."""

from __future__ import annotations

import base64
import io
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SIDE = 48  # pixels of a thumbnail at most, a multiple of what JPEG cuts pictures into
ACROSS = 16  # thumbnails in a row of a sheet


def as_png(picture: Tensor) -> str:
    """3 h w in 0 … 1 -> a data URL"""
    return _data_url(_encoded(picture, "PNG"), "png")


class Sheets:
    """Pictures that are cut into thumbnails, row by row, each of them once."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self.cuts: dict[tuple[int, int], int] = {}

    def cut(self, picture: Tensor, grid: tuple[int, int]) -> int:
        """The number of the sheet that is a picture itself, cut into its patches.   3 h w"""
        if grid not in self.cuts:
            self.cuts[grid] = len(self.found)
            self.found.append({"picture": as_png(picture), "rows": grid[0], "columns": grid[1]})
        return self.cuts[grid]

    def laid_out(self, pictures: Tensor) -> int:
        """The number of a sheet of many pictures, made small; as JPEG where that is shorter.
        n 3 h w in 0 … 1"""
        n, _, h, w = pictures.shape
        if max(h, w) > SIDE:
            pictures = F.interpolate(pictures, (SIDE, SIDE), mode="bilinear", antialias=True)
        columns, rows = min(n, ACROSS), -(-n // ACROSS)
        filled = torch.cat((pictures, pictures.new_zeros(rows * columns - n, *pictures.shape[1:])))
        # 3 (rows h) (columns w)
        whole = filled.unflatten(0, (rows, columns)).permute(2, 0, 3, 1, 4).flatten(3).flatten(1, 2)
        found, kind = _encoded(whole, "PNG"), "png"
        if pictures.shape[-1] == SIDE and len(rough := _encoded(whole, "JPEG", quality=85)) < len(found):
            found, kind = rough, "jpeg"  # (in a JPEG smaller ones would run into each other)
        self.found.append({"picture": _data_url(found, kind), "rows": rows, "columns": columns})
        return len(self.found) - 1


def _encoded(picture: Tensor, kind: str, **how: Any) -> bytes:
    from PIL import Image

    bytes_ = (
        (picture.detach().expand(3, -1, -1).permute(1, 2, 0).clamp(0, 1) * 255)
        .round()
        .to(torch.uint8)
        .cpu()
        .numpy()
    )
    file = io.BytesIO()
    Image.fromarray(bytes_).save(file, kind, **how)
    return file.getvalue()


def _data_url(content: bytes, kind: str) -> str:
    return f"data:image/{kind};base64," + base64.b64encode(content).decode("ascii")
