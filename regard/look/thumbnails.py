"""Images inside a page: one as it is, or many small ones on one sheet, as data URLs."""

from __future__ import annotations

import base64
import io
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SIDE = 48  # pixels of a thumbnail at most, a multiple of what JPEG cuts images into
ACROSS = 16  # thumbnails in a row of a sheet


def as_png(image: Tensor) -> str:
    """3 h w in 0 … 1 -> a data URL"""
    return _data_url(_encoded(image, "PNG"), "png")


class Sheets:
    """Images that are cut into thumbnails, row by row, each of them once."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self.cuts: dict[tuple[int, int], int] = {}

    def cut(self, image: Tensor, grid: tuple[int, int]) -> int:
        """The number of the sheet that is an image itself, cut into its patches.   3 h w"""
        if grid not in self.cuts:
            self.cuts[grid] = len(self.found)
            self.found.append({"picture": as_png(image), "rows": grid[0], "columns": grid[1]})
        return self.cuts[grid]

    def laid_out(self, images: Tensor) -> int:
        """The number of a sheet of many images, made small; as JPEG where that is shorter.
        n 3 h w in 0 … 1"""
        n, _, h, w = images.shape
        if max(h, w) > SIDE:
            images = F.interpolate(images, (SIDE, SIDE), mode="bilinear", antialias=True)
        columns, rows = min(n, ACROSS), -(-n // ACROSS)
        filled = torch.cat((images, images.new_zeros(rows * columns - n, *images.shape[1:])))
        # 3 (rows h) (columns w)
        whole = filled.unflatten(0, (rows, columns)).permute(2, 0, 3, 1, 4).flatten(3).flatten(1, 2)
        found, file_format = _encoded(whole, "PNG"), "png"
        if images.shape[-1] == SIDE and len(rough := _encoded(whole, "JPEG", quality=85)) < len(found):
            found, file_format = rough, "jpeg"  # (in a JPEG smaller ones would run into each other)
        self.found.append({"picture": _data_url(found, file_format), "rows": rows, "columns": columns})
        return len(self.found) - 1


def _encoded(image: Tensor, file_format: str, **how: Any) -> bytes:
    from PIL import Image

    bytes_ = (image.detach().expand(3, -1, -1).permute(1, 2, 0).clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()
    file = io.BytesIO()
    Image.fromarray(bytes_).save(file, file_format, **how)
    return file.getvalue()


def _data_url(content: bytes, file_format: str) -> str:
    return f"data:image/{file_format};base64," + base64.b64encode(content).decode("ascii")
